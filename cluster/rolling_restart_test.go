package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A lone server whose API is down cannot be drained, and is restarted all the same: that
// may be what helps.
func TestRestartOfALoneServerWhoseAPIIsDown(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.up(t, parse(t, oneDisk))
		time.Sleep(time.Minute)
		_, err := w.guests()["cp1"].AgentExec([]string{"systemctl", "stop", "k3s"}, nil)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		spec := parse(t, replace(t, oneDisk, "role: server,", "role: server, cores: 6,"))
		before := w.now()
		w.up(t, spec)
		assert.Equal(t, []string{"cp1"}, before.changes().Restarted)
		assert.Contains(t, w.output.String(), "cp1 is the only server and its API does not answer, so it continues without a drain")
		time.Sleep(3 * time.Minute)
		assert.Empty(t, w.plan(t, spec))
	})
}

// Nodes that restart go one after the other, and none any more after one that did not
// come back well.
func TestNoFurtherRestartAfterOneThatWentBadly(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
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
		require.ErrorContains(t, err, "has not recovered within 15m0s: Ready, with 0 of 2 GPUs\n  patience: 2 in cluster.yaml would double this limit")
		require.ErrorContains(t, err, "did not become healthy: fix that first, then run it again")
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

// What a node went down for is looked at before the next one goes: that all of its cards
// are up, and the driver that it was to load, also where Kubernetes does not count them.
func TestNoFurtherRestartAfterGPUsThatDoNotComeUp(t *testing.T) {
	const two, one = "gpus: {count: 2, model", "gpus: {count: 1, model"
	const open, closed = "driver: {branch: auto}", "driver: {flavour: proprietary}"
	for name, x := range map[string]struct {
		before, after []string
		ill           bool // the fault is there before
		fault         guest.Faults
		want          string
	}{
		"a card more":                 {[]string{two, one}, nil, false, guest.Faults{SecondGPUFails: true}, "gpus: 1 → 2"},
		"another driver":              {nil, []string{open, closed}, false, guest.Faults{DriverFailsToLoad: true}, "driver: not loaded → 580-server (needs a restart)"},
		"another driver, none worked": {nil, []string{open, closed}, true, guest.Faults{DriverFailsToLoad: true}, "driver: not loaded → 580-server (needs a restart)"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				text := example(t, "eight-a100")
				w.up(t, parse(t, strings.NewReplacer(x.before...).Replace(text)))
				time.Sleep(time.Minute)
				for i := range 4 {
					name := fmt.Sprintf("wk-gpu%d", i+1)
					if w.sim.SetGuestFaults(w.vm(t, name).ID, x.fault); x.ill {
						w.reboot(t, name)
					}
				}
				before := w.now()
				_, err := w.cluster(t, parse(t, strings.NewReplacer(x.after...).Replace(text))).Up().Run(t.Context(), w.listen(t))
				require.ErrorContains(t, err, x.want)
				assert.ErrorContains(t, err, "did not become healthy: fix that first, then run it again")
				assert.Len(t, before.changes().Restarted, 1, "%v", before.changes().Restarted)
			})
		})
	}
}
