package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/share"
)

// Every part of the platform, those of the example and the two that it leaves out.
func withEveryPart(t *testing.T) string {
	t.Helper()
	return strings.Replace(example(t), "\nstorage:\n", `
backup: {endpoint: "https://s3.lab.example:9000", bucket: backups, accessKey: "file:access.key", secretKey: "file:secret.key"}

storage:
  default: nfs
  cephfs: {clusterID: b9127830-b0cc-4e34-aa47-9d1a2e9949a8, monitors: ["10.0.0.41:6789"], fsName: cephfs, user: k3s, key: "file:secret.key"}
`, 1)
}

// A lab that was restored from a backup, or was paused as by a laptop's lid, works as before, with
// every part of the platform on it.
func TestRestoredAndPaused(t *testing.T) {
	t.Parallel()
	mine := share.OneOf(t, 2, "lives of labs")
	mine.Next() // TestLifeAfterLife
	if !mine.Next() {
		return
	}
	u := newUser(t)
	u.fastLab(t)
	u.write(t, "cluster.yaml", withEveryPart(t))
	u.write(t, "access.key", "homelab\n")
	u.write(t, "secret.key", "AQBSecretOfTheStores0000000000000000000==\n")
	u.must(t, "cluster:up")
	u.allReady(t)
	key, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	u.write(t, "key.txt", key.String()+"\n")
	u.must(t, "cluster:backup", "-to=whole.backup.age", "-recipient="+key.Recipient().String())
	u.must(t, "cluster:restore", "-from=whole.backup.age", "-identity=key.txt", "-yes")
	u.allReady(t)
	u.must(t, "cluster:up")
	out, _ := u.must(t, "cluster:plan")
	assert.Contains(t, out, "Nothing to change")

	u.pause(t, 75*time.Second) // longer than the 50 s after which a silent node is not ready
	u.allReady(t)
	u.must(t, "cluster:plan")
	u.must(t, "cluster:doctor")
}

// pause stops all processes of the lab for a while.
func (u *user) pause(t *testing.T, d time.Duration) {
	t.Helper()
	status, err := labctl.Stat(t.Context(), u.lab())
	require.NoError(t, err)
	signal := func(s syscall.Signal) {
		for _, p := range status.Processes {
			require.NoError(t, syscall.Kill(p.PID, s))
		}
	}
	signal(syscall.SIGSTOP)
	time.Sleep(d)
	signal(syscall.SIGCONT)
	time.Sleep(5 * time.Second) // a look at once would see what was before
}

// allReady waits until every pod runs and is Ready, or has ended well.
func (u *user) allReady(t *testing.T) {
	t.Helper()
	kubectl := u.asAdmin(t)
	const each = `jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {.status.phase} {.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`
	var left []string
	for began := time.Now(); time.Since(began) < 3*time.Minute; time.Sleep(time.Second) {
		left = nil
		all := strings.Split(strings.TrimSpace(kubectl("get", "pods", "-A", "-o", each)), "\n")
		for _, pod := range all {
			if !strings.HasSuffix(pod, " Running True") && !strings.Contains(pod, " Succeeded ") {
				left = append(left, pod)
			}
		}
		if len(left) == 0 {
			t.Logf("%d pods are Ready after %s", len(all), time.Since(began).Round(time.Second))
			return
		}
	}
	require.Empty(t, left, "pods that are not Ready")
}
