package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A model's life: up, nothing to do, another context restarts its server alone, hours come as objects alone, and what is removed leaves
// nothing but its namespace.
func TestLifeOfAModel(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		t.Setenv("HF_TOKEN", "hf_secret")
		bare := withPlatform(t, "one-gpu", "")
		with := bare + "models:\n  qwen: {source: Qwen/Qwen3-4B, context: 16384, token: env:HF_TOKEN}\n"
		spec := parse(t, with)
		clocks := func() []unstructured.Unstructured {
			all, err := w.api(t).List(t.Context(), "batch/v1", "CronJob", "models", "")
			require.NoError(t, err)
			return all
		}
		report := w.up(t, spec)
		for _, step := range []string{"secrets/models", "objects/models"} {
			did, ok := report.Step(step)
			require.True(t, ok, step)
			assert.Equal(t, converge.Changed, did.Kind, step)
		}
		for _, there := range []string{"namespaces /models", "deployments.apps models/qwen", "services models/qwen", "persistentvolumeclaims models/qwen-local-path", "secrets models/qwen-token"} {
			assert.Contains(t, w.stands(t), there)
		}
		before := w.now()
		assert.Empty(t, changedSteps(w.up(t, spec)))
		assert.Equal(t, changes{}, before.changes())

		spec = parse(t, replace(t, with, "context: 16384", "context: 8192"))
		t.Log(w.plan(t, spec))
		assert.Equal(t, []string{"objects/models"}, changedSteps(w.up(t, spec)))
		assert.Empty(t, w.plan(t, spec))

		spec = parse(t, replace(t, with, "context: 16384", "context: 8192, awake: \"08:00-23:00\""))
		t.Log(w.plan(t, spec))
		assert.Equal(t, []string{"objects/models"}, changedSteps(w.up(t, spec)))
		assert.Empty(t, w.plan(t, spec))
		assert.Len(t, clocks(), 2)

		spec = parse(t, bare)
		t.Log(w.plan(t, spec))
		assert.Equal(t, []string{"leftovers"}, changedSteps(w.up(t, spec)))
		assert.Empty(t, w.plan(t, spec))
		time.Sleep(2 * time.Minute) // until its pod has ended, which uses the claim
		for _, gone := range []string{"deployments.apps models/qwen", "services models/qwen", "persistentvolumeclaims models/qwen-local-path", "secrets models/qwen-token"} {
			assert.NotContains(t, w.stands(t), gone)
		}
		assert.Empty(t, clocks())
	})
}

// TestModelsFitTheCards: of cards that the file only counts, a model asks for their memory as soon as the host has shown them, and before
// anything is made.
func TestModelsFitTheCards(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		bare := withPlatform(t, "one-gpu", "")
		before := w.now()
		spec := parse(t, bare+"models:\n  qwen: {source: Qwen/Qwen3-32B, context: 16384}\n")
		assert.Empty(t, spec.Warnings)
		w.refused(t, spec, "qwen fits on no node. On gpu1 (GeForce RTX 4090): Qwen/Qwen3-32B (bf16, 16384 tokens) lacks ")
		w.refused(t, spec, "\n  these would fit: context: ")
		assert.Equal(t, changes{}, before.changes())
		w.up(t, parse(t, bare+"models:\n  qwen: {source: Qwen/Qwen3-8B, context: 16384}\n"))
	})
}
