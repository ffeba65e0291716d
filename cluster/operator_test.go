package cluster_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// withOperator is an example with the GPU operator, and more settings of nvidia.
func withOperator(t *testing.T, name, more string) string {
	t.Helper()
	return withPlatform(t, name, "nvidia: {stack: operator"+more+"}\n")
}

// offering are the DaemonSets of device plugins, by namespace and name.
func (w *world) offering(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, what := range w.stands(t) {
		if strings.HasPrefix(what, "daemonsets.apps ") && strings.Contains(what, "device-plugin") {
			out = append(out, strings.TrimPrefix(what, "daemonsets.apps "))
		}
	}
	return out
}

// From one line in the file to GPUs that can be requested, and back to the device plugin. Only one
// of the two offers the GPUs.
func TestLifeWithTheOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		plugin := parse(t, withPlatform(t, "one-gpu", ""))
		w.up(t, plugin)
		assert.Equal(t, []string{"nvidia-device-plugin/nvidia-device-plugin"}, w.offering(t))

		operator := parse(t, withOperator(t, "one-gpu", ""))
		assert.Equal(t, []string{"device-plugin", "chart/gpu-operator"}, first(changedSteps(w.up(t, operator)), 2))
		assert.Equal(t, []string{"gpu-operator/nvidia-device-plugin-daemonset"}, w.offering(t))
		assert.Empty(t, w.plan(t, operator), "the second time there is nothing to do")

		plan := strings.Join(w.plan(t, plugin), "\n")
		assert.Contains(t, plan, "part/gpu-operator: release gpu-operator/gpu-operator → (none)")
		w.up(t, plugin)
		assert.Equal(t, []string{"nvidia-device-plugin/nvidia-device-plugin"}, w.offering(t))
		class := &nodev1.RuntimeClass{TypeMeta: metav1.TypeMeta{APIVersion: "node.k8s.io/v1", Kind: "RuntimeClass"}, ObjectMeta: metav1.ObjectMeta{Name: "nvidia"}}
		require.NoError(t, w.api(t).Get(t.Context(), class), "the operator takes its class with it, and K3s brings it back only when a server starts")
		assert.Empty(t, class.OwnerReferences)
		assert.Empty(t, w.plan(t, plugin))
	})
}

// A run that dies at any request to Kubernetes while the stack changes leaves nothing that the next
// does not finish, and never two plugins that offer the same cards.
func TestCrashWhileTheStackChanges(t *testing.T) {
	plugin, operator := parse(t, withPlatform(t, "one-gpu", "")), parse(t, withOperator(t, "one-gpu", ""))
	dra := parse(t, withPlatform(t, "one-gpu", "nvidia: {stack: dra}\n"))
	for _, x := range []struct {
		name         string
		before, then *spec.Spec
	}{
		{"to the operator", plugin, operator}, {"to the device plugin", operator, plugin},
		{"to DRA", plugin, dra}, {"from DRA", dra, plugin},
	} {
		var want, requests []string
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, pvesim.OneGPU())
			w.up(t, x.before)
			requests = w.platformWrites(t, x.then)
			want = w.stands(t)
		})
		require.Greater(t, len(requests), 3)
		mine := share.Start(t, "deaths on the way "+x.name)
		for n := 1; n <= len(requests); n++ {
			if !mine.Next() {
				continue
			}
			t.Run(fmt.Sprintf("%s %d %s", x.name, n, requests[n-1]), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, pvesim.OneGPU())
					w.up(t, x.before)
					if !w.dies(t, x.then, n, n%2 == 0) {
						t.Skip("it was done by then")
					}
					assert.LessOrEqual(t, w.plugins(), 1)
					w.kubeTap = func(next http.RoundTripper) http.RoundTripper {
						return asked{next, func(*http.Request) { assert.LessOrEqual(t, w.plugins(), 1) }}
					}
					w.up(t, x.then)
					assert.Equal(t, want, w.stands(t))
					assert.Empty(t, w.plan(t, x.then))
				})
			})
		}
	}
}

// plugins is how many pods of device plugins and DRA drivers there are.
func (w *world) plugins() (n int) {
	for _, name := range w.kube.Clusters()[len(w.kube.Clusters())-1].Names("pods") {
		if strings.Contains(name, "device-plugin") || strings.Contains(name, addon.DRADriverName) {
			n++
		}
	}
	return n
}

// The operator brings driver and toolkit: the machines have neither, and K3s restarts once to find
// the runtime.
func TestOperatorBringsTheDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		spec := parse(t, withOperator(t, "one-gpu", ", driver: {mode: operator, branch: 580-server}"))
		report := w.up(t, spec)
		for _, n := range spec.GPUNodes() {
			assert.Contains(t, changedSteps(report), "runtime/"+n.Name)
			config := content(t, w.guests()[n.Name], "/var/lib/rancher/k3s/agent/etc/containerd/config.toml")
			assert.Contains(t, config, "/usr/local/nvidia/toolkit/nvidia-container-runtime")
			_, has := report.Step("driver/" + n.Name)
			assert.False(t, has, "no driver of the machine's own")
		}
		assert.Empty(t, w.plan(t, spec))

		// After a boot the containers bring the driver again; K3s finds the runtime by itself.
		w.reboot(t, "gpu1")
		time.Sleep(2 * time.Minute)
		assert.Empty(t, w.plan(t, spec))
	})
}

// Another driver of the operator comes to one node after the other, through the same gate as another
// version of K3s: the operator itself ends no pods.
func TestAnotherDriverOfTheOperatorWaitsForPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.EightA100())
		text := replace(t, withPlatform(t, "eight-a100", ""), "driver: {branch: auto}", "stack: operator\n  driver: {mode: operator, branch: 580-server}")
		w.up(t, parse(t, text))
		time.Sleep(time.Minute)
		busy := lodger("training", "wk-gpu1", 1)
		pod := w.moveIn(t, busy)
		after := parse(t, replace(t, text, "branch: 580-server", "branch: 595-server"))
		asked := 0
		for _, it := range w.looks(t, after).Items {
			for _, cost := range it.Costs {
				asked++
				assert.Equal(t, "the GPU operator's driver 595.91.07 is loaded by a restart; waits up to 1h for pods that hold GPUs, and does not end them", cost.Reason)
				assert.NotContains(t, converge.LossTexts(cost.Users), "pod default/"+pod+" (1 GPU)")
			}
		}
		assert.Equal(t, 4, asked)
		before := w.now()
		err := w.tries(t, after)
		require.ErrorContains(t, err, "wk-gpu1 keeps its driver, because pods hold its GPUs after 1h: pod default/"+pod)
		assert.Equal(t, pod, w.running(t, busy))
		assert.ElementsMatch(t, []string{"wk-gpu2", "wk-gpu3", "wk-gpu4"}, before.changes().Restarted)
		version := func(name string) string { return ask(t, w.guests()[name], "cat", "/proc/driver/nvidia/version") }
		assert.Contains(t, version("wk-gpu1"), "  580.126.20 ")
		assert.Contains(t, version("wk-gpu2"), "  595.91.07 ")

		require.NoError(t, w.api(t).Delete(t.Context(), busy))
		time.Sleep(time.Minute)
		w.up(t, after)
		assert.Contains(t, version("wk-gpu1"), "  595.91.07 ")
		assert.EqualValues(t, 2, w.nodes(t)["wk-gpu1"].Count("nvidia.com/gpu"))
		assert.Empty(t, w.plan(t, after))
	})
}

// A machine with a driver of its own is not left with two.
func TestOperatorsDriverBesideAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		w.up(t, parse(t, withPlatform(t, "one-gpu", "")))
		_, err := w.cluster(t, parse(t, withOperator(t, "one-gpu", ", driver: {mode: operator}"))).Up().Run(t.Context(), w.listen(t))
		assert.ErrorContains(t, err, "gpu1 has a driver of its own (linux-modules-nvidia-580-server-open-")
		assert.ErrorContains(t, err, "homelab node:replace -node=gpu1 recreates the machine without it, or write mode: prebuilt")
	})
}

// N7: a driver with prebuilt modules does not exist for every kernel.
func TestNoDriverContainerForTheKernel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		spec := parse(t, withOperator(t, "one-gpu", ", driver: {mode: operator}, values: {driver: {usePrecompiled: true}}"))
		_, err := w.cluster(t, spec).Up().Run(t.Context(), w.listen(t))
		require.Error(t, err)
		for _, n := range spec.GPUNodes() {
			assert.ErrorContains(t, err, "runtime/"+n.Name)
		}
		assert.ErrorContains(t, err, "NVIDIA has no driver container for the kernel of")
	})
}

// N5: a taint of one's own is tolerated by everything that makes GPUs allocatable.
func TestOperatorToleratesTaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		text := withOperator(t, "one-gpu", "")
		spec := parse(t, replace(t, text, "gpus: 1}", "gpus: 1, taints: [dedicated=research:NoSchedule]}"))
		w.up(t, spec) // waits until all GPUs are allocatable
		sets, err := w.api(t).List(t.Context(), "apps/v1", "DaemonSet", "gpu-operator", "")
		require.NoError(t, err)
		require.NotEmpty(t, sets)
		for _, set := range sets {
			assert.Contains(t, fmt.Sprint(set.Object), "dedicated", set.GetName())
		}
	})
}

// Ways of sharing are configurations of the operator's plugin: the file's own is the default, and
// nodes with another are labelled. What a change ends is in the plan.
func TestSharingWithTheOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		w.up(t, parse(t, withOperator(t, "one-gpu", ", sharing: {strategy: mps, replicas: 2}")))
		own := replace(t, withOperator(t, "one-gpu", ", sharing: {strategy: mps, replicas: 2}"), "gpus: 1}", "gpus: {count: 1, sharing: {strategy: time-slicing, replicas: 4}}}")
		w.up(t, parse(t, own)) // waits for four
		assert.Equal(t, "time-slicing-4", w.nodes(t)["gpu1"].Labels["nvidia.com/device-plugin.config"])
		assert.Empty(t, w.plan(t, parse(t, own)))
		none := parse(t, withOperator(t, "one-gpu", ""))
		w.up(t, none)
		assert.NotContains(t, w.nodes(t)["gpu1"].Labels, "nvidia.com/device-plugin.config")
		assert.EqualValues(t, 1, w.nodes(t)["gpu1"].Count("nvidia.com/gpu"))
	})
}

// Raw values reach the release, over ours. The operator has an exporter: no other is installed.
func TestValuesOfTheOperator(t *testing.T) {
	s := parse(t, withOperator(t, "one-gpu", ", values: {dcgmExporter: {serviceMonitor: {interval: 30s}}}")+"monitoring: {}\n")
	pieces, err := platform.Pieces(s, false)
	require.NoError(t, err)
	var names []string
	for _, p := range pieces {
		names = append(names, p.Name)
		if p.Name == addon.GPUOperatorName {
			monitor := p.Release.Values["dcgmExporter"].(map[string]any)["serviceMonitor"].(map[string]any)
			assert.Equal(t, "30s", monitor["interval"])
			assert.Equal(t, true, monitor["enabled"])
		}
	}
	assert.Contains(t, names, "gpu-dashboard")
	assert.NotContains(t, names, "dcgm-exporter")
}

func first(all []string, n int) []string { return all[:min(n, len(all))] }
