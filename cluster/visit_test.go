package cluster_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/placement"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// What a look has seen is forgotten with it: a Cluster that planned before its machines
// were there works with those that somebody else has made since.
func TestALookIsForgottenWithIt(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, lab(example(t, "one-gpu")))
		full := w.sim.Fail(pvesim.Rule{Method: http.MethodPost, Path: ".*/clone", Times: -1, TaskError: "no space left on device"})
		_, err := w.cluster(t, spec).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "no space left on device")
		full.Remove()

		c := w.cluster(t, spec) // to which the machines alone are missing
		plan, err := c.Up().Plan(t.Context())
		require.NoError(t, err)
		require.True(t, plan.Changes())
		w.up(t, spec)
		time.Sleep(time.Minute)

		g, err := c.NodeDrain("gpu1")
		require.NoError(t, err)
		_, err = g.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.True(t, w.nodes(t)["gpu1"].Cordoned)
		_, err = c.Up().Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.Empty(t, w.plan(t, spec))
	})
}

// While a first boot goes on, the line of its machine says what it does.
func TestAFirstBootSaysWhatItDoes(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.up(t, parse(t, lab(example(t, "one-gpu"))))
		}()
		for going := true; going; {
			select {
			case <-done:
				going = false
			case <-time.After(200 * time.Millisecond):
				for _, m := range w.guests() {
					_ = m.AgentWriteFile("/var/log/cloud-init-output.log", []byte("Get:1 https://mirror.example\nSetting up linux-image (1 of 300)\n"))
				}
			}
		}
		assert.Contains(t, w.output.String(), "first boot: running → done [Setting up linux-image (1 of 300)]")
		assert.Contains(t, w.output.String(), "the guest has not sent anything over its network yet")
		assert.Contains(t, w.output.String(), "the guest's network is up, and it still boots or installs")
	})
}

// A host that does not answer for ten seconds ends nothing, before a graph as in it.
func TestWhatComesBeforeAGraphIsPatientToo(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, lab(example(t, "one-gpu")))
		w.up(t, spec)
		time.Sleep(time.Minute)
		c := w.cluster(t, spec)
		for name, verb := range map[string]func() (*converge.Graph, error){
			"cycle":   func() (*converge.Graph, error) { return c.NodeCycle(t.Context(), "gpu1", false) },
			"replace": func() (*converge.Graph, error) { return c.NodeReplace(t.Context(), "gpu1", true) },
			"down":    func() (*converge.Graph, error) { return c.Down(t.Context()) },
			"prune":   func() (*converge.Graph, error) { return c.Prune(t.Context()) },
			"place": func() (*converge.Graph, error) {
				placed, err := placement.Place(t.Context(), parse(t, `
name: anywhere
proxmox: {endpoint: lab, hosts: {pve1: {}}}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
defaults: {storage: vmdata}
nodes:
  server1: {role: server, host: auto, address: 10.0.0.11}
`), c.Proxmox)
				if err != nil {
					return nil, err
				}
				assert.Equal(t, "pve1", placed.Nodes[0].Host)
				return c.Up(), nil
			},
		} {
			time.Sleep(time.Minute) // nothing is known any more
			start := time.Now()
			away := w.sim.Fail(pvesim.Rule{Times: -1, Status: 595, Message: "Connection refused", When: func(pvesim.Request) bool { return time.Since(start) < 10*time.Second }})
			g, err := verb()
			require.NoError(t, err, name)
			assert.NotEmpty(t, g.Names(), name)
			away.Remove()
		}
		time.Sleep(time.Minute)
		away := w.sim.Fail(pvesim.Rule{Times: -1, Status: 595, Message: "Connection refused"})
		defer away.Remove()
		_, err := c.Down(t.Context())
		require.ErrorContains(t, err, "no complete answer within 1m0s: ")
		require.ErrorContains(t, err, "Connection refused")
	})
}
