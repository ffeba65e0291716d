package cluster_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/backup"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/pvesim"
	"github.com/cps-gpu/homelab/spec"
)

// safeServers is a cluster with a quorum, and one agent.
const safeServers = `
name: safe
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {vip: 10.0.0.10}
pools:
  cp: {role: server, count: 3, addresses: [10.0.0.11, 10.0.0.12, 10.0.0.13]}
  wk: {count: 1, addresses: [10.0.0.21]}
`

// vault is a backup in memory, and the key that opens it.
type vault struct {
	key  *age.X25519Identity
	file []byte
}

func (w *world) backup(t *testing.T, want *spec.Spec) (vault, backup.Manifest) {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	c := w.cluster(t, want)
	defer c.Close()
	var out bytes.Buffer
	m, _, err := c.Backup(t.Context(), &out, []age.Recipient{key.Recipient()})
	require.NoError(t, err)
	return vault{key, out.Bytes()}, m
}

func (v vault) open() (*backup.Reader, io.Closer, error) {
	r, err := backup.Open(bytes.NewReader(v.file), v.key)
	return r, io.NopCloser(nil), err
}

// restore runs a restore to its end, or until ctx ends.
func (w *world) restore(ctx context.Context, t *testing.T, want *spec.Spec, v vault) (*converge.Report, error) {
	t.Helper()
	r, _, err := v.open()
	require.NoError(t, err)
	c := w.cluster(t, want)
	defer c.Close()
	g, err := c.Restore(r.Contents, v.open)
	require.NoError(t, err)
	return g.Run(ctx, w.listen(t))
}

func (w *world) configMaps(t *testing.T) []string {
	t.Helper()
	var out []string
	all := w.kube.Clusters()
	for _, name := range all[len(all)-1].Names("configmaps") {
		if strings.HasPrefix(name, "default/") {
			out = append(out, name)
		}
	}
	return out
}

func (w *world) kubectlApply(t *testing.T, name string) {
	t.Helper()
	all := w.kube.Clusters()
	require.NoError(t, all[len(all)-1].Apply(t.Context(), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+", namespace: default}\n")))
}

// What was there when the backup was made is there again, and what came later is gone, on
// three servers and the agent, and nothing is left to do.
func TestRestoreGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.EightA100())
		defer w.close()
		want := parse(t, safeServers)
		w.up(t, want)
		w.kubectlApply(t, "before")
		v, m := w.backup(t, want)
		assert.Equal(t, "safe", m.Cluster)
		assert.Equal(t, []string{"cp1", "cp2", "cp3"}, m.Servers)
		for name, g := range w.guests() {
			assert.NotContains(t, ask(t, g, "sh", "-c", "ls /var/lib/rancher/k3s/server/db/snapshots 2>/dev/null || true"), "homelab-backup", name)
		}
		w.kubectlApply(t, "after")

		r, _, err := v.open()
		require.NoError(t, err)
		facts, err := backup.Inspect(t.Context(), r, r.Snapshot, r.Token)
		require.NoError(t, err)
		assert.Equal(t, []string{"cp1", "cp2", "cp3", "wk1"}, facts.Nodes)
		assert.Contains(t, facts.Namespaces, "kube-system")
		assert.True(t, facts.SecretsKey)

		_, err = w.restore(t.Context(), t, want, v)
		require.NoError(t, err)
		assert.Equal(t, []string{"default/before"}, w.configMaps(t))
		assert.Equal(t, []string{"cp1", "cp2", "cp3"}, w.guests()["cp1"].EtcdMembers())
		time.Sleep(2 * time.Minute)
		for name, n := range w.nodes(t) {
			assert.True(t, n.Ready, name)
		}
		assert.Empty(t, w.plan(t, want))
		assert.NotContains(t, w.output.String(), r.Token.Reveal())
	})
}
