package cluster_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

const mirrored = `
name: trio
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 3, addresses: [10.0.0.11-10.0.0.13]}
  wk: {count: 2, addresses: [10.0.0.21-10.0.0.22]}
k3s: {vip: 10.0.0.100, registries: {"*": {endpoints: [https://mirror.home.example]}}}
`

// The embedded registry mirror comes and goes with its key. Agents restart too, though none of their own files
// changes, and after all servers, from any of which they learn of it.
func TestEmbeddedRegistry(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		without := parse(t, mirrored)
		with := parse(t, replace(t, mirrored, "k3s: {", "k3s: {embeddedRegistry: true, "))
		w.up(t, without)
		assert.Contains(t, strings.Join(w.examine(t, with), "\n"), "images-alone of nodes cp1, cp2, cp3, wk1, wk2: K3s there neither takes images")
		for _, want := range []bool{true, false} {
			spec := without
			server := `config/embedded-registry: true → (none) (needs a restart)`
			if want {
				spec, server = with, `config/embedded-registry: "" → true (needs a restart)`
			}
			plan := w.plan(t, spec)
			require.Len(t, plan, 5)
			for _, line := range plan {
				if strings.HasPrefix(line, "k3s/cp") {
					assert.Contains(t, line, server)
				} else {
					assert.Contains(t, line, "running: as before the last change → as configured (needs a restart)")
				}
			}
			var changed []string
			var mu sync.Mutex
			c := w.cluster(t, spec)
			_, err := c.Up().Run(t.Context(), func(e converge.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Kind == converge.Acting && strings.HasPrefix(e.Step, "k3s/") {
					changed = append(changed, e.Step)
				}
			})
			require.NoError(t, err)
			c.Close()
			require.Len(t, changed, 5)
			if want {
				assert.Equal(t, []string{"k3s/cp1", "k3s/cp2", "k3s/cp3"}, changed[:3])
			}
			time.Sleep(time.Minute) // the VIP moves when the last server restarts
			assert.Empty(t, w.plan(t, spec))
			assert.NotContains(t, strings.Join(w.examine(t, spec), "\n"), "images-alone")
			for name, m := range w.guests() {
				assert.Equal(t, want && strings.HasPrefix(name, "cp"), strings.Contains(content(t, m, "/etc/rancher/k3s/config.yaml"), "embedded-registry: true"), name)
			}
		}
	})
}
