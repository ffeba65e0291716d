package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster/conformance"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

func (w *world) conformance(t testing.TB, file *spec.Spec) conformance.Sources {
	t.Helper()
	c := w.cluster(t, file)
	t.Cleanup(c.Close)
	d := c.Doctor()
	return conformance.Sources{Spec: d.Spec, Kube: d.Kube, Root: d.Root, HasDriver: d.HasDriver}
}

func results(r conformance.Report) map[string]conformance.Result {
	out := map[string]conformance.Result{}
	for _, f := range r.Findings {
		out[f.ID] = f.Result
	}
	return out
}

// TestConformance: on the example, each requirement has a result and evidence, and reading changes nothing. Pods
// show that the runtime class hands out all GPUs past Kubernetes, and go with their namespace.
func TestConformance(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		file := parse(t, replace(t, example(t, "eight-a100"), "nvidia:\n", "nvidia:\n  sharing: {strategy: time-slicing, replicas: 4}\n"))
		w.up(t, file)
		s := w.conformance(t, file)
		r, err := conformance.Check(t.Context(), s, nil)
		require.NoError(t, err)
		for _, f := range r.Findings {
			assert.NotEmpty(t, f.Evidence, f.ID)
			assert.Equal(t, f.Result == conformance.Passed || f.Result == conformance.NotApplicable, f.Do == "", "%s: %s", f.ID, f.Do)
		}
		assert.Equal(t, "1.36", r.Requirements)
		all := results(r)
		for id, want := range map[string]conformance.Result{
			"driver_runtime_management": conformance.Passed, "gpu_sharing": conformance.Passed, "virtualized_accelerator": conformance.Failed,
			"cluster_autoscaling": conformance.NotApplicable, "pod_autoscaling": conformance.Failed, "secure_accelerator_access": conformance.NotShown,
			"robust_controller": conformance.Failed, "gang_scheduling": conformance.Failed,
		} {
			assert.Equal(t, want, all[id], id)
		}
		assert.Empty(t, w.plan(t, file))

		seen, err := conformance.CheckIsolation(t.Context(), s)
		require.NoError(t, err)
		assert.Equal(t, conformance.Failed, seen.Result)
		const all4 = "wk-gpu1, wk-gpu2, wk-gpu3, wk-gpu4: a container that "
		assert.Equal(t, []string{all4 + "requests 1 nvidia.com/gpu sees 1 GPU", all4 + "requests none sees 0 GPUs",
			all4 + "requests none, and asks the runtime class nvidia for all by NVIDIA_VISIBLE_DEVICES, sees 2 GPUs",
			all4 + "requests 1 nvidia.com/gpu, and asks the runtime class nvidia for all by NVIDIA_VISIBLE_DEVICES, sees 2 GPUs"}, seen.Evidence)
		r, err = conformance.Check(t.Context(), s, &seen)
		require.NoError(t, err)
		assert.Equal(t, conformance.Failed, results(r)["secure_accelerator_access"])
		assert.Contains(t, missing(r), "secure_accelerator_access")
		left, err := w.api(t).List(t.Context(), "v1", "Namespace", "", "")
		require.NoError(t, err)
		for _, n := range left {
			assert.NotEqual(t, conformance.IsolationNamespace, n.GetName())
		}
	})
}

// TestConformanceGuarded: with nvidia.guard, pods that ask the runtime for all GPUs are refused, whether they request
// one or none; those of homelab go on, and the guard goes as it came.
func TestConformanceGuarded(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		open := example(t, "eight-a100")
		guarded := replace(t, open, "nvidia:\n", "nvidia:\n  guard: true\n")
		w.up(t, parse(t, open))
		file := parse(t, guarded)
		w.up(t, file)
		assert.Empty(t, w.plan(t, file))
		s := w.conformance(t, file)
		seen, err := conformance.CheckIsolation(t.Context(), s)
		require.NoError(t, err)
		const all4 = "wk-gpu1, wk-gpu2, wk-gpu3, wk-gpu4: a container that "
		const asks = ", and asks the runtime class nvidia for all by NVIDIA_VISIBLE_DEVICES, is refused"
		assert.Equal(t, []string{all4 + "requests 1 nvidia.com/gpu sees 1 GPU", all4 + "requests none sees 0 GPUs", all4 + "requests none" + asks, all4 + "requests 1 nvidia.com/gpu" + asks}, seen.Evidence)
		assert.Equal(t, conformance.Passed, seen.Result)
		w.moveIn(t, lodger("notebook", "wk-gpu2", 2))

		w.up(t, parse(t, open))
		seen, err = conformance.CheckIsolation(t.Context(), s)
		require.NoError(t, err)
		assert.Equal(t, conformance.Failed, seen.Result)
	})
}

func missing(r conformance.Report) (out []string) {
	for _, f := range r.Missing() {
		out = append(out, f.ID)
	}
	return out
}

// TestConformanceSpares: a node whose GPUs are all taken is not shown, and a namespace of others stays.
func TestConformanceSpares(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		file := parse(t, example(t, "eight-a100"))
		w.up(t, file)
		w.moveIn(t, lodger("notebook", "wk-gpu2", 2))
		s := w.conformance(t, file)
		seen, err := conformance.CheckIsolation(t.Context(), s)
		require.NoError(t, err)
		assert.Equal(t, conformance.Failed, seen.Result)
		assert.Contains(t, seen.Evidence[4], "wk-gpu2: a pod that requests 1 nvidia.com/gpu did not start: Unschedulable:")

		others := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: conformance.IsolationNamespace}}
		_, err = w.api(t).Apply(t.Context(), others)
		require.NoError(t, err)
		_, err = conformance.CheckIsolation(t.Context(), s)
		require.ErrorContains(t, err, "namespace homelab-conformance exists and is not of homelab")
		require.NoError(t, w.api(t).Get(t.Context(), others))
	})
}

// TestConformanceInterrupted: whenever it is interrupted, the namespace goes.
func TestConformanceInterrupted(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		file := parse(t, example(t, "eight-a100"))
		w.up(t, file)
		s := w.conformance(t, file)
		for _, after := range []time.Duration{0, time.Millisecond, time.Second, 7 * time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			_, err := conformance.CheckIsolation(ctx, s)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, after)
			left, err := w.api(t).List(t.Context(), "v1", "Namespace", "", "")
			require.NoError(t, err)
			for _, n := range left {
				assert.NotEqual(t, conformance.IsolationNamespace, n.GetName(), after)
			}
		}
	})
}
