package nodes

import (
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// root needs no sudo, which a small installation of Debian lacks.
func TestRootOfExternalMachines(t *testing.T) {
	ns := &Nodes{sharedState: &sharedState{Config: Config{Spec: &spec.Spec{}}, connections: map[string]*ssh.Client{"w1": ssh.New(ssh.Config{})}}}
	n := spec.Node{Name: "w1", External: true, SSHPort: 22, Address: netip.MustParsePrefix("192.168.1.40/32")}
	for user, itself := range map[string]bool{"root": true, "ops": false} {
		n.SSHUser = user
		g := ns.newGuest(n)
		assert.Equal(t, itself, g.root == remote.Runner(g.ssh), user)
	}
}

// The line of known_hosts is the one that ssh writes.
func TestNameInKnownHosts(t *testing.T) {
	ns := &Nodes{sharedState: &sharedState{Config: Config{Hosts: ssh.NewKnownHosts(filepath.Join(t.TempDir(), "known_hosts"))}}}
	for addr, want := range map[string]string{
		"10.0.0.40:22": `"10.0.0.40"`, "10.0.0.40:2222": `"[10.0.0.40]:2222"`, "[fd00:1::41]:22": `"fd00:1::41"`, "[fd00:1::41]:2222": `"[fd00:1::41]:2222"`,
	} {
		assert.ErrorContains(t, ns.missingHostKeyError(spec.Node{Name: "a"}, addr), "put a line with "+want)
	}
}
