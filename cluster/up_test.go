package cluster_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// inWorld runs a test in virtual time, in a world of its own.
func inWorld(t *testing.T, model pvesim.Model, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t, model)) })
}

func TestUpFromNothingToGPUs(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
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
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, lab(example(t, "one-gpu")))
		w.kubeTap = func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPatch && r.URL.Path == "/api/v1/nodes/gpu1" {
					return nil, errors.New("nobody marks nodes")
				}
				return next.RoundTrip(r)
			})
		}
		_, err := w.cluster(t, spec).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "nobody marks nodes")
		w.kubeTap = nil
		have := w.nodes(t)["gpu1"]
		assert.Equal(t, []kube.Taint{{Key: "nvidia.com/gpu", Value: "present", Effect: "NoSchedule"}}, have.Taints)
		assert.Equal(t, "true", have.Labels[nvidia.LabelPresent])
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
	})
}
