package cluster_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// The only server is started again while agents join: it refuses their good tokens for some seconds, in
// two ways, and the run goes on.
func TestAgentsJoinAServerThatStarts(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		over, ended := make(chan struct{}), make(chan struct{})
		restarted := false
		go func() {
			defer close(ended)
			for !restarted {
				select {
				case <-over:
					return
				case <-time.After(200 * time.Millisecond):
				}
				if m := w.guests()["wk1"]; m == nil || !runs(m, "test", "-f", "/etc/rancher/k3s/homelab.started") {
					continue
				}
				w.sim.SetGuestFaults(w.vm(t, "cp1").ID, guest.Faults{StartsSlowly: true})
				restarted = runs(w.guests()["cp1"], "systemctl", "restart", "--no-block", "k3s") &&
					runs(w.guests()["wk1"], "sh", "-c", "rm /var/lib/rancher/k3s/agent/client-kubelet.crt; systemctl restart --no-block k3s-agent") // as if it asked for the first time now
			}
		}()
		w.up(t, parse(t, `
name: starting
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
  wk: {count: 1, addresses: [10.0.0.21]}
`))
		close(over)
		<-ended
		require.True(t, restarted)
		journal := strings.Join(w.guests()["wk1"].Journal("k3s-agent"), "\n")
		assert.Contains(t, journal, "failed to retrieve configuration from server: forbidden")
		assert.Contains(t, journal, "failed to retrieve configuration from server: not authorized")
		assert.Contains(t, w.output.String(), "waiting for K3s on wk1: K3s is activating: the server is not ready yet")
		assert.Contains(t, w.nodes(t), "wk1")
	})
}

// runs reports whether a command succeeds in a guest.
func runs(m *guest.Machine, argv ...string) bool {
	pid, err := m.AgentExec(argv, nil)
	if err != nil {
		return false
	}
	time.Sleep(100 * time.Millisecond)
	status, err := m.AgentStatus(pid)
	return err == nil && status.Exited && status.ExitCode == 0
}
