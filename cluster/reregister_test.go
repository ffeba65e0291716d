package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A kubelet registers when it starts and never again (kubernetes, pkg/kubelet/kubelet_node_status.go,
// registerWithAPIServer), so a Node that somebody deleted comes back by a restart of K3s.
func TestADeletedNodeComesBack(t *testing.T) {
	for _, name := range []string{"gpu1", "server1"} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
				spec := parse(t, lab(example(t, "one-gpu")))
				w.up(t, spec)
				time.Sleep(time.Minute)
				want := w.nodes(t)[name]
				require.NoError(t, w.api(t).DeleteNode(t.Context(), name))
				before := w.now()
				w.up(t, spec)
				assert.Empty(t, before.changes().Restarted, "the machine goes on")
				time.Sleep(time.Minute)
				have := w.nodes(t)[name]
				assert.True(t, have.Ready, have.Reason)
				assert.Equal(t, want.Taints, have.Taints)
				assert.Equal(t, want.Labels, have.Labels)
				assert.Empty(t, w.plan(t, spec))
			})
		})
	}
}
