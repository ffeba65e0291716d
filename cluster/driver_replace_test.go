package cluster_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// With upgrade: replace another driver comes with another machine from a new template, one node after
// the other, with the same time for pods that hold GPUs, and only after consent to destroy.
func TestADriverComesWithAnotherMachine(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		text := example(t, "eight-a100")
		w.up(t, parse(t, text))
		time.Sleep(time.Minute)
		after := parse(t, replace(t, text, "driver: {branch: auto}", "driver: {flavour: proprietary, upgrade: replace}"))
		busy := lodger("training", "wk-gpu1", 1)
		pod := w.moveIn(t, busy)
		old := map[string]string{}
		for name := range w.guests() {
			old[name] = w.vm(t, name).Config["smbios1"]
		}

		plan := w.looks(t, after)
		for _, it := range plan.Items {
			for _, cost := range it.Costs {
				assert.Equal(t, converge.CostDestroy, cost.Kind)
				assert.Equal(t, "NVIDIA's driver 580-server is loaded by a restart, with the newest kernel of its series: its machine is recreated from the template of the file; "+
					"waits up to 1h for pods that hold GPUs, and does not end them", cost.Reason)
			}
		}
		c := w.cluster(t, after)
		up := c.Up()
		up.Approve = (&converge.Agreement{Restarts: true}).Approve
		_, err := up.Run(t.Context(), w.listen(t))
		c.Close()
		require.ErrorAs(t, err, new(*converge.RefusedError), "a restart is less than this")
		for name := range w.guests() {
			assert.Equal(t, old[name], w.vm(t, name).Config["smbios1"])
		}

		err = w.tries(t, after)
		require.ErrorContains(t, err, "wk-gpu1 keeps its machine, because pods hold its GPUs after 1h: pod default/"+pod)
		assert.Equal(t, pod, w.running(t, busy))
		for name := range w.guests() {
			kept := name == "wk-gpu1" || strings.HasPrefix(name, "cp")
			assert.Equal(t, kept, old[name] == w.vm(t, name).Config["smbios1"], name)
		}
		for _, name := range []string{"wk-gpu2", "wk-gpu3", "wk-gpu4"} {
			assert.NotContains(t, ask(t, w.guests()[name], "cat", "/proc/driver/nvidia/version"), "Open Kernel Module", name)
			assert.EqualValues(t, 2, w.nodes(t)[name].Count("nvidia.com/gpu"))
			assert.False(t, w.nodes(t)[name].Cordoned)
		}
		baked := strings.Index(w.output.String(), "template/pve1: done")
		assert.Positive(t, baked)
		assert.Less(t, baked, strings.Index(w.output.String(), "draining wk-gpu"), "the template is there before the first node is drained")

		require.NoError(t, w.api(t).Delete(t.Context(), busy))
		time.Sleep(time.Minute)
		w.up(t, after)
		time.Sleep(time.Minute)
		assert.Empty(t, w.plan(t, after))
	})
}

// A new machine that is not well stops the others, and the message says how to go on and back.
func TestASickNewMachineStopsTheOthers(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		text := example(t, "eight-a100")
		w.up(t, parse(t, text))
		time.Sleep(time.Minute)
		for _, n := range parse(t, text).GPUNodes() { // by their VMIDs, which new machines get again
			w.sim.SetGuestFaults(w.vm(t, n.Name).ID, guest.Faults{SecondGPUFails: true})
		}
		before := w.now()
		err := w.tries(t, parse(t, replace(t, text, "driver: {branch: auto}", "driver: {flavour: proprietary}")))
		require.ErrorContains(t, err, "did not become healthy: fix that first, then run it again")
		assert.ErrorContains(t, err, "\n  to go on: fix that, then run homelab cluster:up again: it goes on with wk-gpu")
		assert.ErrorContains(t, err, "\n  to go back: write the earlier branch under nvidia.driver")
		assert.Len(t, before.changes().Restarted, 1)
		cordoned := slices.DeleteFunc([]string{"wk-gpu1", "wk-gpu2", "wk-gpu3", "wk-gpu4"}, func(name string) bool { return !w.nodes(t)[name].Cordoned })
		assert.Len(t, cordoned, 1, "it takes no pods")
	})
}

// A machine that is recreated divides its GPUs before it joins again; where the file says nothing else
// of its disks, data keeps a machine in its place.
func TestARecreatedMachineDividesItsGPUs(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		text := replace(t, small, "gpus: 1}", "gpus: {count: 1, sharing: {strategy: mig, layouts: [{profiles: {3g.20gb: 2}}]}}}")
		text = replace(t, text, "nodes:\n", "nodes:\n  gpu2: {role: agent, address: 10.0.0.22, cores: 8, memory: 32GiB, gpus: 1, disks: {data: {size: 10GiB, mount: /data}}}\n")
		w.up(t, parse(t, text))
		time.Sleep(time.Minute)
		one, two := w.vm(t, "gpu1").Config["smbios1"], w.vm(t, "gpu2").Config["smbios1"]
		after := parse(t, text+"nvidia: {driver: {flavour: proprietary, upgrade: replace}}\n")
		w.up(t, after)
		assert.NotEqual(t, one, w.vm(t, "gpu1").Config["smbios1"])
		assert.Equal(t, two, w.vm(t, "gpu2").Config["smbios1"], "it has data")
		for _, name := range []string{"gpu1", "gpu2"} {
			assert.NotContains(t, ask(t, w.guests()[name], "cat", "/proc/driver/nvidia/version"), "Open Kernel Module", name)
		}
		assert.Equal(t, map[string]int64{"nvidia.com/gpu": 2}, w.offers(t)["gpu1"])
		assert.Empty(t, w.plan(t, after))
	})
}
