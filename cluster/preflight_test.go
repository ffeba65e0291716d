package cluster_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox/preflight"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// lookups are the requests of a run that are not about one VM.
func (w *world) lookups() (paths []string, vms int) {
	for _, r := range w.sim.Requests() {
		if strings.Contains(r.Path, "/qemu/") {
			vms++
		} else {
			paths = append(paths, r.Method+" "+r.Path)
		}
	}
	return paths, vms
}

// TestALookThatFindsNothingIsCheap: once every machine is there and runs, the hosts are
// asked what they always were: their storages, beside all VMs and the version.
func TestALookThatFindsNothingIsCheap(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, small)
		w.up(t, spec)
		w.sim.ForgetRequests()
		w.up(t, spec)
		paths, _ := w.lookups()
		for _, p := range paths {
			for _, never := range []string{"/access/permissions", "/network", "/status", "/time", "/token"} {
				assert.False(t, strings.HasSuffix(p, never), p)
			}
		}
		assert.LessOrEqual(t, len(paths), 8, "%s", strings.Join(paths, "\n"))
	})
}

// TestAllThatIsWrongIsToldAtOnce: nothing is changed, and nobody mends one thing to
// meet the next.
func TestAllThatIsWrongIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := pvesim.OneGPU()
		model.Hosts[0].NoIOMMU = true
		model.Hosts[0].Memory = 24 * pvesim.GiB
		w := newWorld(t, model)
		w.sim.Revoke("VM.Clone")
		c := w.cluster(t, parse(t, strings.Replace(small, "storage: vmdata", "storage: fast", 1)))
		_, err := c.Up().Run(t.Context(), w.listen(t))
		var refused *preflight.RefusedError
		require.ErrorAs(t, err, &refused)
		ids := map[string]bool{}
		for _, f := range refused.Findings {
			ids[f.ID] = true
		}
		assert.Equal(t, map[string]bool{"PX1": true, "PX3": true, "PX21": true, "storage": true}, ids, "%s", err)
		assert.Empty(t, w.mutations())
	})
}

// TestAHostThatIsOffIsToldOnce: all else that is not known of it is no news.
func TestAHostThatIsOffIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := pvesim.TwoHosts()
		model.Hosts[1].Offline = true
		w := newWorld(t, model)
		c := w.cluster(t, parse(t, strings.Replace(small, "{endpoint: lab}", "{endpoint: lab, host: pve2}", 1)))
		_, err := c.Up().Run(t.Context(), w.listen(t))
		require.Error(t, err)
		assert.Equal(t, 1, strings.Count(err.Error(), "pve2 is offline"), "%s", err)
	})
}

// TestHostWarningsAreKept: what may work is said, and hinders nothing.
func TestHostWarningsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := pvesim.OneGPU()
		model.Hosts[0].ClockOffset = 2 * time.Minute
		w := newWorld(t, model)
		c := w.cluster(t, parse(t, small))
		_, err := c.Up().Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		warnings, _ := c.HostWarnings()
		require.Len(t, warnings, 1)
		assert.Equal(t, "clock", warnings[0].ID)
		assert.Contains(t, w.output.String(), "warning: the clock of pve1 is 2m0s ahead")
	})
}

// TestHostCheckOfExamples: each example fits the hardware that it is for.
func TestHostCheckOfExamples(t *testing.T) {
	for name, model := range map[string]pvesim.Model{"one-gpu": pvesim.OneGPU(), "eight-a100": pvesim.EightA100()} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, model, func(t *testing.T, w *world) {
				c := w.cluster(t, parse(t, lab(example(t, name))))
				report, err := c.HostCheck(t.Context(), nil)
				require.NoError(t, err)
				require.NoError(t, report.Err())
				for _, f := range report.WithVerdict(preflight.Warning) {
					assert.Equal(t, "PX21 vmdata", f.ID+" "+f.Subject, "%s", f) // of the disks of eight-a100, as its file says
				}
				assert.Empty(t, w.mutations())
			})
		})
	}
}
