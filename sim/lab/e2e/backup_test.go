package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/pages"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

const homeFile = `
name: home
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {vip: 10.0.0.10}
pools:
  cp: {role: server, count: 3, addresses: [10.0.0.11, 10.0.0.12, 10.0.0.13]}
  wk: {count: 1, addresses: [10.0.0.21]}
`

// TestBackupHarmRestore loses what a writer has written, and gets it back: from a file that
// Kubernetes was started from before.
func TestBackupHarmRestore(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.fastLab(t)
	u.write(t, "cluster.yaml", homeFile)
	u.must(t, "cluster:up")
	kubectl := u.asAdmin(t)
	count := func(n string) {
		u.write(t, "counter.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: counter}, data: {count: \""+n+"\"}}\n---\n"+
			"{apiVersion: v1, kind: Secret, metadata: {name: counter}, stringData: {count: hidden-"+n+"}}\n")
		kubectl("apply", "-f", "counter.yaml")
	}
	for _, n := range []string{"1", "2", "3"} {
		count(n)
	}
	key, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	u.write(t, "key.txt", key.String()+"\n")
	u.must(t, "cluster:backup", "-to=home.backup.age", "-recipient="+key.Recipient().String())

	count("4")
	kubectl("delete", "secret", "counter")
	kubectl("create", "namespace", "later")
	out, said := u.must(t, "backup:verify", "-from=home.backup.age", "-identity=key.txt", "-start")
	pages.Compare(t, "docs/restore.md", "start", out+said, *update)
	left, err := filepath.Glob("/dev/shm/homelab-scratch-*")
	require.NoError(t, err)
	assert.Empty(t, left)
	u.cutOff(t)

	u.must(t, "cluster:restore", "-from=home.backup.age", "-identity=key.txt", "-yes")
	kubectl = u.asAdmin(t)
	assert.Equal(t, "3", kubectl("get", "configmap", "counter", "-o", "jsonpath={.data.count}"))
	assert.Equal(t, "hidden-3", kubectl("get", "secret", "counter", "-o", `go-template={{.data.count | base64decode}}`))
	assert.NotContains(t, kubectl("get", "namespaces"), "later")
	u.must(t, "cluster:up")
	out, _ = u.must(t, "cluster:plan")
	assert.Contains(t, out, "Nothing to change")
	assert.Equal(t, 4, strings.Count(kubectl("get", "nodes"), " Ready "))
}

// cutOff is a copy of the backup without its end.
func (u *user) cutOff(t *testing.T) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(u.dir, "home.backup.age"))
	require.NoError(t, err)
	u.write(t, "part.age", string(b[:len(b)-1000]))
	out, said, code := u.run(t, "backup:verify", "-from=part.age", "-identity=key.txt", "-start")
	assert.NotZero(t, code)
	assert.Contains(t, out+said, "damaged or was cut off")
}

// asAdmin runs the lab's own kubectl as the administrator, and returns what it prints.
func (u *user) asAdmin(t *testing.T) func(args ...string) string {
	t.Helper()
	config, _ := u.must(t, "cluster:kubeconfig")
	return func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), labtest.Binary(t, labtest.Real()), append([]string{"kubectl", "--kubeconfig=" + strings.TrimSpace(config)}, args...)...) //nolint:gosec // our own words
		cmd.Dir = u.dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%v: %s", args, out)
		return string(out)
	}
}
