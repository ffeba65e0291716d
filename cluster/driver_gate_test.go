package cluster_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// Pods that hold GPUs have the time of k3s.upgrade to end before another driver, another toolkit and
// another layout of their node, too. Until then nothing changes there, and no other node waits.
func TestPodsWithGPUsHoldUpTheirNode(t *testing.T) {
	for name, x := range map[string]struct {
		change []string // of the file
		by     string   // on the node, in place of the file
		keeps  string
	}{
		"driver":  {change: []string{"driver: {branch: auto}", "driver: {flavour: proprietary}"}, keeps: "its driver"},
		"toolkit": {by: "apt-get install -y --allow-change-held-packages nvidia-container-toolkit=1.20.0-1 nvidia-container-toolkit-base=1.20.0-1 libnvidia-container-tools=1.20.0-1 libnvidia-container1=1.20.0-1", keeps: "its driver"},
		"MIG":     {change: []string{"gpus: {count: 2, model: A100}", "gpus: {count: 2, model: A100, sharing: {strategy: mig, layouts: [{gpus: [1], profiles: {3g.20gb: 2}}]}}"}, keeps: "its GPUs as they are divided"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				text := example(t, "eight-a100")
				w.up(t, parse(t, text))
				time.Sleep(time.Minute)
				after := parse(t, strings.NewReplacer(x.change...).Replace(text))
				if x.by != "" {
					for _, n := range after.GPUNodes() {
						ask(t, w.guests()[n.Name], "sh", "-c", x.by)
					}
				}
				busy := lodger("training", "wk-gpu1", 1)
				pod := w.moveIn(t, busy)
				for _, it := range w.looks(t, after).Items {
					for _, cost := range it.Costs {
						assert.NotContains(t, converge.LossTexts(cost.Users), "pod default/"+pod+" (1 GPU)", "%s: it goes on", it.Step)
						assert.Contains(t, cost.Reason, "; waits up to 1h for pods that hold GPUs, and does not end them")
					}
				}
				before, packages := w.now(), ask(t, w.guests()["wk-gpu1"], "dpkg-query", "-W")
				begun := time.Now()
				err := w.tries(t, after)
				require.ErrorContains(t, err, "wk-gpu1 keeps "+x.keeps+", because pods hold its GPUs after 1h: pod default/"+pod+" (1 GPU), of Deployment training")
				assert.GreaterOrEqual(t, time.Since(begun), time.Hour)
				assert.Contains(t, w.output.String(), "wk-gpu1 waits for pods that hold GPUs: pod default/"+pod+" (1 GPU), of Deployment training; until Jan 1 ")
				assert.ElementsMatch(t, []string{"wk-gpu2", "wk-gpu3", "wk-gpu4"}, before.changes().Restarted, "nobody waits for wk-gpu1")
				assert.Equal(t, pod, w.running(t, busy), "it is the same pod")
				assert.Equal(t, packages, ask(t, w.guests()["wk-gpu1"], "dpkg-query", "-W"), "nothing was installed")
				assert.NotContains(t, w.smi(t, "wk-gpu1"), "MIG")
				assert.False(t, w.nodes(t)["wk-gpu1"].Cordoned)

				// It ends by itself while the next run waits.
				done := make(chan error, 1)
				go func() { done <- w.tries(t, after) }()
				time.Sleep(20 * time.Minute)
				require.NoError(t, w.api(t).Delete(t.Context(), busy))
				require.NoError(t, <-done)
				assert.Contains(t, before.changes().Restarted, "wk-gpu1")
				node, _ := after.Node("wk-gpu1")
				for resource, count := range offer.GPUsOf(node).Resources {
					assert.EqualValues(t, count, w.nodes(t)["wk-gpu1"].Count(resource))
				}
				assert.Empty(t, w.plan(t, after))
			})
		})
	}
}

// The file may have them evicted, and then it says when.
func TestADriverEvictsPodsWithGPUs(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		text := replace(t, example(t, "eight-a100"), "k3s:\n", "k3s:\n  upgrade: {gpuPods: evict, wait: 10m}\n")
		w.up(t, parse(t, text))
		time.Sleep(time.Minute)
		busy := lodger("training", "wk-gpu1", 2)
		pod := w.moveIn(t, busy)
		begun := time.Now()
		w.up(t, parse(t, replace(t, text, "driver: {branch: auto}", "driver: {flavour: proprietary}")))
		assert.GreaterOrEqual(t, time.Since(begun), 10*time.Minute)
		assert.Contains(t, w.output.String(), "at most, then they are evicted")
		assert.Contains(t, w.output.String(), "evicting the pods that hold GPUs of wk-gpu1, as k3s.upgrade says: pod default/"+pod+" (2 GPU)")
		assert.NotEqual(t, pod, w.running(t, busy))
	})
}

// What is only no longer held is held again, and nothing is upgraded by that.
func TestHoldsComeBackWithoutAnUpgrade(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, small)
		w.up(t, spec)
		node := w.guests()["gpu1"]
		held := ask(t, node, "apt-mark", "showhold")
		for _, name := range []string{"linux-generic", "linux-image-virtual", "linux-headers-generic", "nvidia-utils-580-server", "nvidia-container-toolkit"} {
			assert.Contains(t, strings.Split(strings.TrimSpace(held), "\n"), name)
		}
		before, packages := w.now(), ask(t, node, "dpkg-query", "-W")
		ask(t, node, "apt-mark", "unhold", "linux-generic", "linux-image-virtual", "nvidia-utils-580-server")
		assert.Contains(t, strings.Join(w.plan(t, spec), "\n"), "hold/linux-image-virtual: may change by itself → held")
		for _, it := range w.looks(t, spec).Items {
			assert.Empty(t, it.Costs, it.Step)
		}
		w.up(t, spec)
		assert.Equal(t, held, ask(t, node, "apt-mark", "showhold"))
		assert.Equal(t, packages, ask(t, node, "dpkg-query", "-W"))
		assert.Empty(t, before.changes().Restarted)

		// Another change of the file takes the node down, and its driver and its kernel stay.
		w.up(t, parse(t, replace(t, small, "memory: 32GiB", "memory: 16GiB")))
		assert.Equal(t, []string{"gpu1"}, before.changes().Restarted)
		assert.Equal(t, packages, ask(t, w.guests()["gpu1"], "dpkg-query", "-W"))
	})
}

// Where the archive cannot be reached, the node stays as it is, with its pods.
func TestADriverThatCannotBeFetchedDrainsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var net internet
		w := newWorldWith(t, pvesim.EightA100(), pvesim.Options{Internet: net.get})
		text := replace(t, small, "gpus: 1", "gpus: 2")
		w.up(t, parse(t, text))
		time.Sleep(time.Minute)
		calm := lodger("calm", "gpu1", 2)
		pod := w.moveIn(t, calm)
		before := w.now()
		net.off.Store(true)
		err := w.tries(t, parse(t, text+"nvidia: {driver: {flavour: proprietary}}\n"))
		require.ErrorContains(t, err, "gpu1 keeps its driver, and stays up: download NVIDIA driver 580-server: ")
		assert.Empty(t, before.changes().Restarted)
		assert.Equal(t, pod, w.running(t, calm))
		assert.False(t, w.nodes(t)["gpu1"].Cordoned)
	})
}
