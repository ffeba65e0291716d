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

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/proxmox/pvesim"
)

// killed runs up and kills it at its n-th request that changes something on a host.
func (w *world) killed(t testing.TB, spec *cluster.Spec, n int, before bool) {
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
	for life := range 20 {
		t.Run(fmt.Sprint(life), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, pvesim.EightA100())
				defer w.close()
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
				time.Sleep(time.Duration(random.IntN(12000)) * time.Millisecond)

				w.up(t, spec)
				assert.Equal(t, want, w.inventory())
				assert.Empty(t, w.plan(t, spec))
				w.down(t, spec)
				assert.Equal(t, untouched, w.inventory())
			})
		})
	}
}
