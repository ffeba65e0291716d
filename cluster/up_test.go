package cluster_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

func TestUpFromNothingToGPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.EightA100())
		defer w.close()
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))

		before, beforeKube := len(w.mutations()), len(w.kubeMutations())
		report := w.up(t, spec)
		assert.Zero(t, report.Count(converge.Changed))
		assert.Empty(t, w.mutations()[before:])
		assert.Empty(t, w.kubeMutations()[beforeKube:])
	})
}

// A node that got its taints only after it is Ready would take pods in between that
// it should keep away. Here nobody but K3s is there to give it any.
func TestANodeBringsItsTaintsAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		defer w.close()
		spec := parse(t, lab(example(t, "one-gpu")))
		w.up(t, spec)
		want := w.nodes(t)["gpu1"]
		require.NotEmpty(t, want.Taints)
		w.byHand(t, spec, "gpu1", "stop")
		require.NoError(t, w.api(t).DeleteNode(t.Context(), "gpu1"))
		w.byHand(t, spec, "gpu1", "start")
		time.Sleep(5 * time.Minute)
		have := w.nodes(t)["gpu1"]
		assert.Equal(t, want.Taints, have.Taints)
		assert.Equal(t, "true", have.Labels[nvidia.LabelPresent])
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
	})
}
