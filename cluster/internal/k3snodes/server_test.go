package k3snodes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What K3s v1.34.3+k3s1 prints, as it was recorded.
func TestWordsOfK3sAboutEtcd(t *testing.T) {
	const (
		table = `Name                 Location                                                             Size   Created
before-b1-1795466830 file:///var/lib/rancher/k3s/server/db/snapshots/before-b1-1795466830 602144 2026-11-23T20:47:10Z
homelab-before-v1.36.6-k3s1-b1-1795466835.zip file:///var/lib/rancher/k3s/server/db/snapshots/homelab-before-v1.36.6-k3s1-b1-1795466835.zip 119031 2026-11-23T20:47:15Z
homelab-before-v1.36.6-k3s1-b1-1795466831 file:///var/lib/rancher/k3s/server/db/snapshots/homelab-before-v1.36.6-k3s1-b1-1795466831 602144 2026-11-23T20:47:11Z
homelab-before-v1.36.6-k3s10-b1-1795466839 file:///x 602144 2026-11-23T20:47:19Z
`
		saved = `time="2026-11-23T20:47:09Z" level=warning msg="Unknown flag --cluster-init found in config.yaml, skipping\n"
time="2026-11-23T20:47:10Z" level=info msg="Snapshot before-b1-1795466830 saved."
`
	)
	all := snapshotsIn(table)
	require.Len(t, all, 4)
	assert.Equal(t, "before-b1-1795466830", all[0].Name)
	assert.Equal(t, time.Date(2026, 11, 23, 20, 47, 10, 0, time.UTC), all[0].Created)
	assert.Equal(t, "before-b1-1795466830", savedLine.FindStringSubmatch(saved)[1])
}

func TestChecksThatFailed(t *testing.T) {
	for said, want := range map[string]string{
		`Error from server (InternalError): an error on the server ("[+]ping ok\n[-]etcd failed: reason withheld\n[-]poststarthook/rbac/bootstrap-roles failed: reason withheld\nreadyz check failed") has prevented`: "etcd, poststarthook/rbac/bootstrap-roles failed",
		"[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n":                                  "etcd failed",
		"The connection to the server 127.0.0.1:6443 was refused - did you specify the right host or port?\n": "The connection to the server 127.0.0.1:6443 was refused - did you specify the right host or port?",
	} {
		assert.Equal(t, want, failedChecks(said))
	}
}
