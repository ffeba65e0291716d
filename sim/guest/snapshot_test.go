package guest

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// What K3s says of snapshots and restores, as recorded from v1.34.3+k3s1.
func TestSnapshotsSayWhatK3sSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		first := l.machine(11, nil)
		l.form(first)
		says := func(command, want string) {
			t.Helper()
			_, out := shellAs(first, "root", command)
			assert.Contains(t, out, want, command)
		}
		mustShell(t, first, "/usr/local/bin/k3s etcd-snapshot save --name before")
		says("k3s etcd-snapshot save --name two", `level=info msg="Snapshot two-n11-`)
		says("k3s etcd-snapshot ls", "Name                 Location                                                             Size  Created\n")
		says("k3s etcd-snapshot delete no-such-snapshot", `level=warning msg="Snapshot no-such-snapshot not found."`)
		name := strings.TrimSpace(mustShell(t, first, "ls /var/lib/rancher/k3s/server/db/snapshots | grep before"))
		reset := "k3s server --cluster-reset --cluster-reset-restore-path="
		says(reset+"/no/such/file", `level=fatal msg="Error: listen tcp 127.0.0.1:6444: bind: address already in use"`)

		mustShell(t, first, "systemctl stop k3s")
		says(reset+"/no/such/file",
			`level=fatal msg="Error: starting kubernetes: failed to start cluster: start managed database: etcd: snapshot path does not exist: /no/such/file"`)
		file := "/var/lib/rancher/k3s/server/db/snapshots/" + name
		says("K3S_TOKEN=another "+reset+file, `level=fatal msg="bootstrap data already found and encrypted with different token"`)
		says("mv /var/lib/rancher/k3s/server/tls /tls; "+reset+file, "encrypted with different token")
		says("rm /var/lib/rancher/k3s/server/token; "+reset+file,
			`level=fatal msg="Error: /var/lib/rancher/k3s/server/token does not exist, please pass --token to complete the restoration"`)
		says("echo 'server: https://10.0.0.10:6443' >> /etc/rancher/k3s/config.yaml; "+reset+file,
			"Error: cannot perform cluster-reset while server URL is set - remove server from configuration before resetting")
	})
}
