package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// killed runs up and kills it at its n-th request that changes something on a host.
func (w *world) killed(t testing.TB, spec *spec.Spec, n int, before bool) {
	t.Helper()
	ctx, blow := context.WithCancel(t.Context())
	defer blow()
	f := &fuse{next: w.sim.Client().Transport, n: n, before: before, writes: true, blow: blow}
	c := w.clusterOver(t, spec, f)
	defer c.Close()
	_, err := c.Up().Run(ctx, w.listen(t))
	require.ErrorIs(t, err, context.Canceled, "it was to die")
	time.Sleep(processStart)
}

// A host shows a VMID that is used again with the name of the machine that had it, for
// up to ten seconds: who looks by name then makes every machine a second time.
func TestVMIDsUsedAgainAreNotTakenForOthers(t *testing.T) {
	mine := share.Start(t, "lives of VMIDs used again")
	for life := range 20 {
		if !mine.Next() {
			continue
		}
		t.Run(fmt.Sprint(life), func(t *testing.T) {
			t.Parallel()
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				untouched := w.inventory()
				spec := parse(t, example(t, "eight-a100"))
				w.up(t, spec)
				want := w.inventory()
				first, last := 0, 0 // among what changes something
				for _, r := range w.sim.Requests() {
					if r.Mutating {
						last++
						if first == 0 && path.Base(r.Path) == "clone" {
							first = last
						}
					}
				}
				random := rand.New(rand.NewPCG(uint64(life), 2))
				w.down(t, spec)
				time.Sleep(time.Duration(random.IntN(240)) * time.Second)
				w.killed(t, spec, first+random.IntN(last-first), random.IntN(2) == 0)
				time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)

				w.up(t, spec)
				assert.Equal(t, want, w.inventory())
				assert.Empty(t, w.plan(t, spec))
				w.down(t, spec)
				assert.Equal(t, untouched, w.inventory())
			})
		})
	}
}

// A world in which machines are there twice, as an older version may have left it, is
// said as a whole before anything is changed, and down takes it away.
func TestDoubledMachinesAreSaidAndCanGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := pvesim.OneGPU()
		w := newWorld(t, model)
		untouched := w.inventory()
		spec := parse(t, lab(example(t, "one-gpu")))
		w.up(t, spec)
		for _, id := range []int{140, 141} { // and one that has lost its name
			double := pvesim.VM{ID: id, Node: "pve1", Config: map[string]string{
				"memory": "1024", "tags": fmt.Sprintf("homelab;homelab-one-gpu;homelab-one-gpu_%d_0a0b0c0d", id),
				"smbios1": "uuid=0a0b0c0d-0000-4000-8000-000000000000", "scsi0": fmt.Sprintf("vmdata:vm-%d-disk-0,size=8G", id),
			}}
			if id == 140 {
				double.Name = "gpu1"
			}
			w.sim.AddVM(double)
		}
		before := w.now()
		c := w.cluster(t, spec)
		plan, err := c.Up().Plan(t.Context())
		require.NoError(t, err)
		assert.ErrorContains(t, plan.Err(), "machines of this cluster exist twice, and which of them are in use is unknown:\n"+
			"  gpu1: VM 102 on pve1 (runs), VM 140 on pve1 (off)\n")
		assert.ErrorContains(t, plan.Err(), "qm stop VMID; qm destroy VMID --purge")
		assert.Equal(t, changes{}, before.changes())

		down, err := c.Down(t.Context())
		require.NoError(t, err)
		report, err := down.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		var steps []string
		for _, s := range report.Steps {
			steps = append(steps, s.Step)
		}
		assert.Subset(t, steps, []string{"vm/gpu1@102", "vm/gpu1@140", "vm/@141"})
		assert.Equal(t, untouched, w.inventory())
	})
}
