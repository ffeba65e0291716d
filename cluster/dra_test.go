package cluster_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// devices are the ResourceSlices and the claims that there are.
func (w *world) devices(t testing.TB) (slices, claims int) {
	t.Helper()
	for _, what := range w.kube.Clusters()[0].Names("resourceslices.resource.k8s.io") {
		slices += strings.Count(what, "gpu.nvidia.com")
	}
	return slices, len(w.kube.Clusters()[0].Names("resourceclaims.resource.k8s.io"))
}

// From the device plugin to DRA and back: pods request GPUs as before, gpu:verify computes on each, and neither comes
// while pods hold GPUs that the other has given out.
func TestLifeWithDRA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		plugin := parse(t, withPlatform(t, "one-gpu", ""))
		w.up(t, plugin)
		file := parse(t, withPlatform(t, "one-gpu", "nvidia: {stack: dra}\n"))
		objects := w.api(t)
		holds := func(name string) {
			_, err := objects.Apply(t.Context(), requesting(name, nvidia.Resource, 1))
			require.NoError(t, err)
			time.Sleep(time.Minute)
		}
		refused := func(to *spec.Spec) {
			c := w.cluster(t, to)
			defer c.Close()
			plan, err := c.Up().Plan(t.Context())
			require.NoError(t, err)
			require.ErrorContains(t, plan.Err(), "nvidia.stack changes, and GPUs are in use by default/user0")
		}
		holds("user0")
		refused(file)
		require.NoError(t, objects.Delete(t.Context(), requesting("user0", nvidia.Resource, 1)))
		time.Sleep(time.Minute)

		assert.Equal(t, []string{"device-plugin", "objects/dra-driver"}, changedSteps(w.up(t, file))[:2])
		assert.Empty(t, w.offering(t))
		assert.Empty(t, w.plan(t, file), "the second time there is nothing to do")
		holds("user0")
		holds("user1")
		running, said := w.pods(t, "default")
		assert.Equal(t, 1, running)
		require.Len(t, said, 1)
		assert.Contains(t, said[0], "1 cannot allocate all claims")
		refused(plugin)
		slices, claims := w.devices(t)
		assert.Equal(t, [2]int{1, 1}, [2]int{slices, claims})
		for _, name := range []string{"user0", "user1"} {
			require.NoError(t, objects.Delete(t.Context(), requesting(name, nvidia.Resource, 1)))
		}
		time.Sleep(time.Minute)

		c := w.cluster(t, file)
		graph, v := c.GPUVerify(cluster.VerifyQuick, 0)
		_, err := graph.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.True(t, v.Results()[0].Passed)
		c.Close()

		time.Sleep(time.Minute)
		plan := strings.Join(w.plan(t, plugin), "\n")
		assert.Contains(t, plan, "part/dra-driver")
		w.up(t, plugin)
		assert.Equal(t, []string{"nvidia-device-plugin/nvidia-device-plugin"}, w.offering(t))
		slices, claims = w.devices(t)
		assert.Zero(t, slices+claims)
		assert.Empty(t, w.plan(t, plugin))

		operator := parse(t, withOperator(t, "one-gpu", ""))
		w.up(t, operator)
		w.up(t, file)
		assert.Empty(t, w.offering(t))
		assert.Empty(t, w.plan(t, file))
		w.up(t, operator)
		assert.Equal(t, []string{"gpu-operator/nvidia-device-plugin-daemonset"}, w.offering(t))
		slices, _ = w.devices(t)
		assert.Zero(t, slices)
		assert.Empty(t, w.plan(t, operator))
	})
}
