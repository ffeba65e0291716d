package cluster_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A node whose cards another is to give back may be away itself, as people drain a node before
// its cards change: the one that gives does not wait for it, nor it for the other.
func TestCardsForANodeThatIsAway(t *testing.T) {
	for _, away := range []string{"cordoned", "off"} {
		t.Run(away, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, pvesim.EightA100())
				defer w.close()
				w.up(t, parse(t, gpuNodes("5", "3")))
				switch away {
				case "cordoned":
					require.NoError(t, w.verb(t, parse(t, gpuNodes("5", "3")), drained("gpu2")))
				case "off":
					w.switchOff(t, w.vm(t, "gpu2").ID)
					time.Sleep(2 * time.Minute) // Kubernetes knows it
				}
				then := parse(t, gpuNodes("3", "5"))
				w.up(t, then)
				if away == "off" {
					assert.Empty(t, w.plan(t, then))
				}
				for _, bus := range []string{"81", "a1", "c1", "e1", "61"} {
					assert.NotContains(t, w.vm(t, "gpu1").Config["hostpci0"]+w.vm(t, "gpu1").Config["hostpci1"]+w.vm(t, "gpu1").Config["hostpci2"], bus)
				}
			})
		})
	}
}

// Cards that another node has to give are no reason to destroy a node, and then to wait.
func TestReplaceWaitsForNobodysCards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.EightA100())
		defer w.close()
		w.up(t, parse(t, gpuNodes("5", "3")))
		w.sim.ForgetRequests()
		err := w.verb(t, parse(t, gpuNodes("3", "5")), replaced(t.Context(), "gpu2", false))
		require.ErrorContains(t, err, "gpu2 needs cards that gpu1 still has: run cluster:up first")
		for _, r := range w.sim.Requests() {
			assert.False(t, r.Mutating, r.Method+" "+r.Path)
		}
	})
}
