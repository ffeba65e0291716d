package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// An agent loses its power when it has the certificate of its node, and its Node is not registered:
// K3s never joins by itself after that, and the same run lets it join again.
func TestAgentEndsBeforeItsNodeRegisters(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		over, ended := make(chan struct{}), make(chan struct{})
		cut := false
		go func() {
			defer close(ended)
			for !cut {
				select {
				case <-over:
					return
				case <-time.After(500 * time.Millisecond):
				}
				m := w.guests()["wk1"]
				if m == nil {
					continue
				}
				pid, err := m.AgentExec([]string{"test", "-f", "/var/lib/rancher/k3s/agent/client-kubelet.crt"}, nil)
				if err != nil {
					continue
				}
				time.Sleep(500 * time.Millisecond)
				if status, err := m.AgentStatus(pid); err != nil || !status.Exited || status.ExitCode != 0 {
					continue
				}
				_, err = m.AgentExec([]string{"reboot"}, nil)
				assert.NoError(t, err)
				cut = true
			}
		}()
		w.up(t, parse(t, safeServers))
		close(over)
		<-ended
		require.True(t, cut)
		assert.Contains(t, w.output.String(), "joins again")
		assert.Contains(t, w.nodes(t), "wk1")
	})
}
