package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/nvidia/check"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// verifyAll verifies at the full level.
func (w *world) verifyAll(t testing.TB, spec *spec.Spec) ([]check.Check, error) {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	graph, v := c.GPUVerify(cluster.VerifyFull, 0)
	_, err := graph.Run(t.Context(), w.listen(t))
	require.NoError(t, v.Clean(t.Context()))
	return v.Checks(), err
}

func verdicts(all []check.Check, name string) map[string]check.Verdict {
	out := map[string]check.Verdict{}
	for _, c := range all {
		if c.Name == name {
			out[c.Subject()] = c.Verdict
		}
	}
	return out
}

// A healthy node passes every check, and the verification leaves nothing behind.
func TestVerifyFull(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		all, err := w.verifyAll(t, spec)
		require.NoError(t, err)
		for _, name := range []string{check.Compute, check.PCIe, check.ECC, check.Clocks} {
			assert.Len(t, verdicts(all, name), 8, name)
		}
		for _, name := range []string{check.Xid, check.OverRequest, check.Reload} {
			assert.Len(t, verdicts(all, name), 4, name)
		}
		for _, c := range all {
			if c.Node != "all nodes" { // for which no image is named
				assert.Equal(t, check.Passed, c.Verdict, "%+v", c)
			}
		}
		assert.Empty(t, w.plan(t, spec))
		jobs, err := w.api(t).List(t.Context(), "batch/v1", "Job", "nvidia-device-plugin", "")
		require.NoError(t, err)
		assert.Empty(t, jobs)
	})
}

// Containers of a node lose their GPUs when systemd reloads its units (failure N4): found, and
// named with its cure, on that node alone.
func TestVerifyFindsLostGPUs(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		w.sim.SetGuestFaults(w.vm(t, "wk-gpu3").ID, guest.Faults{LosesGPUsOnReload: true})
		all, err := w.verifyAll(t, spec)
		require.ErrorContains(t, err, "keep/wk-gpu3: wk-gpu3: keep: a container loses its GPU when systemd reloads its units, after ")
		require.ErrorContains(t, err, "s: Failed to initialize NVML: Unknown Error: the container runtime must inject devices by CDI")
		assert.Equal(t, map[string]check.Verdict{"wk-gpu1": check.Passed, "wk-gpu2": check.Passed, "wk-gpu3": check.Failed, "wk-gpu4": check.Passed}, verdicts(all, check.Reload))
	})
}

// On a node where another pod computes, the verification does nothing that could end it.
func TestVerifySparesOthers(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, replace(t, example(t, "eight-a100"), "nvidia:\n", "nvidia:\n  sharing: {strategy: time-slicing, replicas: 4}\n"))
		w.up(t, spec)
		w.moveIn(t, lodger("notebook", "wk-gpu2", 1))
		all, err := w.verifyAll(t, spec)
		require.NoError(t, err)
		assert.Equal(t, map[string]check.Verdict{"wk-gpu1": check.Passed, "wk-gpu2": check.Skipped, "wk-gpu3": check.Passed, "wk-gpu4": check.Passed}, verdicts(all, check.Reload))
		assert.Len(t, verdicts(all, check.OverRequest), 4, "nine shares of eight are refused")
		assert.NotContains(t, ask(t, w.guests()["wk-gpu2"], "journalctl", "-n", "50"), "Reloading")
	})
}

// A node that does not answer is a row, not a hole.
func TestVerifyNamesSilentNodes(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		w.byHand(t, spec, "wk-gpu4", "stop")
		all, err := w.verifyAll(t, spec)
		require.Error(t, err)
		assert.Equal(t, check.Failed, verdicts(all, check.Compute)["wk-gpu4"])
		assert.Equal(t, check.Skipped, verdicts(all, check.Report)["wk-gpu4"])
		assert.Len(t, verdicts(all, check.Compute), 7)
	})
}
