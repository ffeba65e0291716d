package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// No other node goes down for a card while the node that gets it is away: that is refused, with the
// ways to do it.
func TestCardsForANodeThatIsAway(t *testing.T) {
	for _, away := range []string{"cordoned", "off"} {
		t.Run(away, func(t *testing.T) {
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				w.up(t, parse(t, gpuNodes("5", "3")))
				switch away {
				case "cordoned":
					require.NoError(t, w.verb(t, parse(t, gpuNodes("5", "3")), drainState("gpu2")))
				case "off":
					w.switchOff(t, w.vm(t, "gpu2").ID)
					time.Sleep(2 * time.Minute) // Kubernetes knows it
				}
				then := parse(t, gpuNodes("3", "5"))
				before := w.now()
				c := w.cluster(t, then)
				_, err := c.Up().Run(t.Context(), w.listen(t))
				c.Close()
				require.ErrorContains(t, err, "gpu2 gets cards of gpu1, and no other node goes down while it is not healthy: gpu2: ")
				require.ErrorContains(t, err, "start or uncordon it first, or remove gpus from gpu2 in the file, run cluster:up, add them again and run it again")
				assert.Empty(t, before.changes().Restarted)
				w.up(t, parse(t, gpuNodes("3", "0")))
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
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		w.up(t, parse(t, gpuNodes("5", "3")))
		w.sim.ForgetRequests()
		err := w.verb(t, parse(t, gpuNodes("3", "5")), replacements(t.Context(), "gpu2", false))
		require.ErrorContains(t, err, "gpu2 needs cards that gpu1 still has: run cluster:up first")
		for _, r := range w.sim.Requests() {
			assert.False(t, r.Mutating, r.Method+" "+r.Path)
		}
	})
}
