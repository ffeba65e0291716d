package cluster_test

import (
	"net"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// Each life of a cluster has a control plane of its own, which ends when its last
// server's disk is deleted, and nothing of it stays in memory.
func TestLifeAfterLife(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, example(t, "eight-a100"))
		var heap []int64
		for life := range 4 {
			w.up(t, spec)
			require.Len(t, w.kube.Clusters(), life+1, "a new control plane")
			assert.Len(t, w.nodes(t), len(spec.Nodes))
			w.down(t, spec)
			for _, c := range w.kube.Clusters() {
				_, err := c.Dial(t.Context())
				require.ErrorIs(t, err, net.ErrClosed)
			}
			w.sim.ForgetRequests()
			w.output.Reset()
			heap = append(heap, inUse())
		}
		// What stays are the host's list of tasks, and what the test has asked.
		assert.Less(t, (heap[3]-heap[1])/2, int64(1<<20), "bytes for each life: %d", heap)
	})
}

func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
