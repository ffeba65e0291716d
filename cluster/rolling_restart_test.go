package cluster_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A lone server whose API is down cannot be drained, and is restarted all the same: that
// may be what helps.
func TestRestartOfALoneServerWhoseAPIIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		defer w.close()
		w.up(t, parse(t, oneDisk))
		time.Sleep(time.Minute)
		_, err := w.guests()["cp1"].AgentExec([]string{"systemctl", "stop", "k3s"}, nil)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		spec := parse(t, replace(t, oneDisk, "role: server,", "role: server, cores: 6,"))
		before := w.now()
		w.up(t, spec)
		assert.Equal(t, []string{"cp1"}, before.changes().Restarted)
		assert.Contains(t, w.output.String(), "cp1 is the only server and its API does not answer, so nothing can be drained; going on")
		time.Sleep(3 * time.Minute)
		assert.Empty(t, w.plan(t, spec))
	})
}

// Nodes that restart go one after the other, and none any more after one that did not
// come back well.
func TestNoFurtherRestartAfterOneThatWentBadly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.EightA100())
		defer w.close()
		text := example(t, "eight-a100")
		w.up(t, parse(t, text))
		time.Sleep(time.Minute)
		for name := range w.guests() {
			if name[:2] == "wk" {
				w.sim.SetGuestFaults(w.vm(t, name).ID, guest.Faults{DriverFailsToLoad: true})
			}
		}
		before := w.now()
		_, err := w.cluster(t, parse(t, replace(t, text, "memory: 128GiB", "memory: 96GiB"))).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "is not back as it was within 15m0s: Ready, with 0 of 2 GPUs\n  patience: 2 in cluster.yaml would double this limit")
		require.ErrorContains(t, err, "did not come back well: mend that first, then run it again")
		assert.Len(t, before.changes().Restarted, 1, "%v", before.changes().Restarted)
		cordoned := 0
		for _, n := range w.nodes(t) {
			if n.Cordoned {
				cordoned++
			}
		}
		assert.Equal(t, 1, cordoned, "it gets no pods until it is mended")
	})
}
