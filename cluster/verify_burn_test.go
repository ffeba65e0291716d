package cluster_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/bench"
	"github.com/cps-gpu/homelab/nvidia/check"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// withImages is the example with images to measure in.
func withImages(t testing.TB, more ...string) *spec.Spec {
	text := replace(t, example(t, "eight-a100"), "nvidia:\n", "nvidia:\n  verify: {images: {pytorch: registry.lan/pytorch:2.8.0, tensorflow: registry.lan/tensorflow:2.19.0-gpu}}\n")
	for i := 0; i+1 < len(more); i += 2 {
		text = replace(t, text, more[i], more[i+1])
	}
	return parse(t, text)
}

// prove verifies at a level.
func (w *world) prove(t testing.TB, spec *spec.Spec, level cluster.VerifyLevel) (*cluster.Verification, error) {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	graph, v := c.GPUVerify(level, 5*time.Minute)
	_, err := graph.Run(t.Context(), w.listen(t))
	require.NoError(t, v.Clean(t.Context()))
	assert.Empty(t, w.ours(t), "nothing is left")
	return v, err
}

// ours are the Jobs and Services of verifications.
func (w *world) ours(t testing.TB) []string {
	t.Helper()
	var out []string
	for _, kind := range [][2]string{{"batch/v1", "Job"}, {"v1", "Service"}} {
		found, err := w.api(t).List(context.WithoutCancel(t.Context()), kind[0], kind[1], "nvidia-device-plugin", bench.Selector())
		require.NoError(t, err)
		for _, u := range found {
			out = append(out, kind[1]+" "+u.GetName())
		}
	}
	return out
}

// measured are the checks of a name, by subject.
func measured(v *cluster.Verification, name bench.Kind) map[string]check.Check {
	out := map[string]check.Check{}
	for _, c := range v.Checks() {
		if c.Name == string(name) {
			out[c.Subject()] = c
		}
	}
	return out
}

// Everything is measured where images are named, and each check has its measures.
func TestVerifyMeasures(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := withImages(t)
		w.up(t, spec)
		v, err := w.prove(t, spec, cluster.VerifyFull)
		require.NoError(t, err)
		for kind, want := range map[bench.Kind]int{bench.PyTorch: 8, bench.TensorFlow: 8, bench.Peers: 8, bench.AllReduce: 4, bench.AcrossNodes: 1, bench.Burn: 0} {
			all := measured(v, kind)
			assert.Len(t, all, want, kind)
			for subject, c := range all {
				assert.Equal(t, check.Passed, c.Verdict, "%s: %+v", subject, c)
				assert.NotEmpty(t, c.Measures, subject)
			}
		}
		c := measured(v, bench.Peers)["wk-gpu1 GPU 0"]
		assert.Equal(t, "21.8 GB/s with GPU 1 (PHB, PCIe generation 4, x16)", c.Detail)
		assert.Equal(t, []check.Measure{{Name: "peer-to-peer", Value: 21.8, Unit: "GB/s"}}, c.Measures)
		assert.NotEmpty(t, c.UUID)
	})
}

// Without an image, what needs one is skipped, and the row says which key names it.
func TestVerifyFullWithoutImages(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		v, err := w.prove(t, spec, cluster.VerifyFull)
		require.NoError(t, err)
		for kind, key := range map[bench.Kind]string{bench.PyTorch: "pytorch", bench.TensorFlow: "tensorflow"} {
			c := measured(v, kind)["all nodes"]
			assert.Equal(t, check.Skipped, c.Verdict)
			assert.Contains(t, c.Detail, "nvidia.verify.images."+key+" names no image")
		}
		for _, kind := range []bench.Kind{bench.Peers, bench.AllReduce, bench.AcrossNodes} {
			assert.Empty(t, measured(v, kind), kind)
		}
		assert.NotContains(t, strings.Join(w.kubeMutations(), "\n"), "gpu-bench")
	})
}

// What goes wrong under load is found on its GPU alone.
func TestVerifyBurn(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		w.sim.SetGuestFaults(w.vm(t, "wk-gpu1").ID, guest.Faults{ThrottlesOnLoad: true})
		w.sim.SetGuestFaults(w.vm(t, "wk-gpu2").ID, guest.Faults{SlowLink: true})
		w.sim.SetGuestFaults(w.vm(t, "wk-gpu3").ID, guest.Faults{ComputesWrong: true})
		w.sim.SetGuestFaults(w.vm(t, "wk-gpu4").ID, guest.Faults{XidUnderLoad: true})
		begin := time.Now()
		v, err := w.prove(t, spec, cluster.VerifyBurn)
		assert.Greater(t, time.Since(begin), 5*time.Minute)
		require.ErrorContains(t, err, "burn/wk-gpu3: wk-gpu3 GPU 1: 3 numbers were wrong: do not trust this card")
		require.ErrorContains(t, err, "burn/wk-gpu4: wk-gpu4: during the load: Xid 48 of GPU 0000:")
		all := measured(v, bench.Burn)
		for subject, want := range map[string]string{
			"wk-gpu1 GPU 0": "warning: slowed by heat or power in 71 % of the time, at up to 93 °C: look at air flow and power",
			"wk-gpu1 GPU 1": "passed: 232.4 TFLOP/s, 64 °C", "wk-gpu2 GPU 0": "passed: 231.4 TFLOP/s, 64 °C", "wk-gpu3 GPU 0": "passed: 231.4 TFLOP/s, 64 °C",
		} {
			assert.Equal(t, want, string(all[subject].Verdict)+": "+all[subject].Detail, subject)
		}
		assert.Equal(t, check.Measure{Name: "burn temperature", Value: 93, Unit: "°C", Less: true}, all["wk-gpu1 GPU 0"].Measures[2])
		slow := measured(v, bench.Peers)["wk-gpu2 GPU 0"]
		assert.Equal(t, check.Warning, slow.Verdict)
		assert.Equal(t, "1.9 GB/s with GPU 1 (PHB, PCIe generation 4, x16), below 6.3: look at slot, riser and NVLink bridge", slow.Detail)
		assert.Equal(t, check.Warning, measured(v, bench.AllReduce)["wk-gpu2"].Verdict)
		assert.Equal(t, check.Skipped, measured(v, bench.AcrossNodes)["all nodes"].Verdict, "nodes that failed are not tested further, which is said")
		assert.Equal(t, check.Skipped, measured(v, bench.Peers)["wk-gpu3"].Verdict)
		passed := 0
		for _, r := range v.Results() {
			passed += count(r.Passed)
			assert.Equal(t, "NVIDIA A100-PCIE-40GB", r.Name)
		}
		assert.Equal(t, 7, passed)
	})
}

// GPUs of others are never taken: they are rows, and what is free is tested.
func TestVerifyBurnBesideOthers(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		one := w.moveIn(t, lodger("notebook", "wk-gpu2", 1))
		two := w.moveIn(t, lodger("training", "wk-gpu3", 2))
		v, err := w.prove(t, spec, cluster.VerifyBurn)
		require.NoError(t, err)
		all := measured(v, bench.Burn)
		assert.Equal(t, check.Check{Node: "wk-gpu2", GPU: check.WholeNode, Name: "burn", Verdict: check.Skipped, Detail: "1 GPU is in use by default/" + one + ", not tested"}, all["wk-gpu2"])
		assert.Equal(t, check.Passed, all["wk-gpu2 GPU 0"].Verdict)
		assert.Equal(t, "2 GPUs are in use by default/"+two+", not tested", all["wk-gpu3"].Detail)
		assert.Len(t, v.Results(), 5)
		assert.Equal(t, check.Skipped, measured(v, bench.Peers)["wk-gpu2"].Verdict, "one GPU has no peer")
		for _, pod := range []string{one, two} {
			p, err := w.api(t).PodState(t.Context(), "default", pod)
			require.NoError(t, err)
			assert.EqualValues(t, "Running", p.Phase, pod)
		}
	})
}

// After Ctrl-C nothing is left. The next run lets what a killed one has started compute to its end,
// since it may be somebody else's, and then removes it.
func TestVerifyBurnInterrupted(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		c := w.cluster(t, spec)
		defer c.Close()
		interrupted := func() *cluster.Verification {
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
			defer stop()
			graph, v := c.GPUVerify(cluster.VerifyBurn, 5*time.Minute)
			_, err := graph.Run(ctx, w.listen(t))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Len(t, w.ours(t), 4, "all nodes compute")
			return v
		}
		v := interrupted()
		assert.Equal(t, check.Skipped, measured(v, bench.Burn)["wk-gpu1"].Verdict)
		require.NoError(t, v.Clean(t.Context()))
		assert.Empty(t, w.ours(t))

		interrupted() // and killed before it could clean
		began := time.Now()
		_, err := w.prove(t, spec, cluster.VerifyBurn)
		require.NoError(t, err)
		assert.Greater(t, time.Since(began), 8*time.Minute, "3 that were left, and 5 of its own")
	})
}

// A silent node and a node without room are rows, not holes.
func TestVerifyBurnOfSilentNodes(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		w.byHand(t, spec, "wk-gpu4", "stop")
		v, err := w.prove(t, spec, cluster.VerifyBurn)
		require.ErrorContains(t, err, "burn/wk-gpu4: wk-gpu4: the node is not ready: ")
		assert.Equal(t, check.Failed, measured(v, bench.Burn)["wk-gpu4"].Verdict)
		assert.Contains(t, measured(v, bench.Peers)["wk-gpu4"].Detail, "no result: its step failed, or one before it")
		assert.Len(t, v.Results(), 6)
	})
}

// A pod that never starts ends with its Job's time limit, and the row says what it waited for.
func TestVerifyBurnThatNeverStarts(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		require.NoError(t, w.verb(t, spec, drainState("wk-gpu1")))
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "wk-gpu2"}}}
		require.NoError(t, w.api(t).Get(t.Context(), u))
		require.NoError(t, unstructured.SetNestedSlice(u.Object, []any{map[string]any{"key": "keep", "value": "off", "effect": "NoSchedule"}}, "spec", "taints"))
		_, err := w.api(t).WithFieldManager("someone").ServerSideApply(t.Context(), u)
		require.NoError(t, err)
		v, err := w.prove(t, spec, cluster.VerifyBurn)
		require.ErrorContains(t, err, "burn/wk-gpu2: wk-gpu2: the job did not end in time: DeadlineExceeded: Job was active longer than specified deadline; it waited: Unschedulable: ")
		assert.Contains(t, measured(v, bench.Burn)["wk-gpu2"].Detail, "had untolerated taint(s)")
		assert.Equal(t, "drained and gets no pods: run homelab node:uncordon -node=wk-gpu1, then verify again", measured(v, bench.Burn)["wk-gpu1"].Detail)
		assert.Len(t, v.Results(), 4)
	})
}

// Whatever request of Kubernetes is refused, there is a row for each GPU or node, and nothing is left.
func TestVerifyBurnRefused(t *testing.T) {
	for name, at := range map[string]func(*http.Request) bool{
		"jobs cannot be made": func(r *http.Request) bool {
			return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/jobs/")
		},
		"jobs cannot be read": func(r *http.Request) bool {
			return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/jobs/gpu-verify-burn-wk-gpu2")
		},
		"last words are not there": func(r *http.Request) bool {
			return strings.Contains(r.URL.Query().Get("labelSelector"), "job-name=gpu-verify-burn-wk-gpu2")
		},
		"leftovers are not listed": func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/services") },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				spec := parse(t, example(t, "eight-a100"))
				w.up(t, spec)
				w.kubeTap = func(next http.RoundTripper) http.RoundTripper { return refusing{next, at} }
				c := w.cluster(t, spec)
				defer c.Close()
				graph, v := c.GPUVerify(cluster.VerifyBurn, time.Minute)
				_, err := graph.Run(t.Context(), w.listen(t))
				require.Error(t, err)
				_ = v.Clean(t.Context())
				w.kubeTap = nil
				assert.Empty(t, w.ours(t))
				require.NotEmpty(t, measured(v, bench.Burn)["wk-gpu2"].Detail)
			})
		})
	}
}

// refusing refuses some requests.
type refusing struct {
	next http.RoundTripper
	at   func(*http.Request) bool
}

func (r refusing) RoundTrip(q *http.Request) (*http.Response, error) {
	if !r.at(q) {
		return r.next.RoundTrip(q)
	}
	return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: q,
		Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"forbidden","reason":"Forbidden","code":403}`))}, nil
}
