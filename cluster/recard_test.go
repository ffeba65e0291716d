package cluster_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A node gets fewer GPUs, and more again, by one restart, one node at a time; each is as
// well afterwards as the file asks.
func TestFewerGPUsAndMoreAgain(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		two := parse(t, example(t, "eight-a100"))
		one := parse(t, replace(t, example(t, "eight-a100"), "gpus: {count: 2, model", "gpus: {count: 1, model"))
		w.up(t, two)
		time.Sleep(time.Minute)
		for _, spec := range []struct {
			gpus int64
			up   func()
		}{{1, func() { w.up(t, one) }}, {2, func() { w.up(t, two) }}} {
			before := w.now()
			spec.up()
			assert.ElementsMatch(t, []string{"wk-gpu1", "wk-gpu2", "wk-gpu3", "wk-gpu4"}, before.changes().Restarted, "each once")
			time.Sleep(time.Minute)
			for name, n := range w.nodes(t) {
				if strings.HasPrefix(name, "wk") {
					assert.True(t, n.Ready && !n.Cordoned, "%s: %s", name, n.Reason)
					assert.Equal(t, spec.gpus, n.Count("nvidia.com/gpu"), name)
				}
			}
		}
		assert.Empty(t, w.plan(t, two))
	})
}

// Whatever fails while a node is down on purpose, the next one stays up.
func TestNoFurtherRestartAfterAFailedStart(t *testing.T) {
	for what, change := range map[string][2]string{
		"memory": {"memory: 128GiB", "memory: 96GiB"},
		"gpus":   {"gpus: {count: 2, model", "gpus: {count: 1, model"},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				text := example(t, "eight-a100")
				w.up(t, parse(t, text))
				time.Sleep(time.Minute)
				w.sim.Fail(pvesim.Rule{Method: http.MethodPost, Path: ".*/status/start", Times: -1, TaskError: "QEMU exited with code 1"})
				_, err := w.cluster(t, parse(t, replace(t, text, change[0], change[1]))).Up().Run(t.Context(), w.listen(t))
				require.ErrorContains(t, err, "QEMU exited with code 1")
				require.ErrorContains(t, err, "fix that first, then run it again")
				down := 0
				for _, n := range w.nodes(t) {
					if n.Cordoned {
						down++
					}
				}
				assert.Equal(t, 1, down, "one worker at most is away")
			})
		})
	}
}
