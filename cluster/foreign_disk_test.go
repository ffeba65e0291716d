package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A disk that somebody has hung on a machine of ours bears no serial of the file's. It goes
// with the machine, so whoever is asked reads its name, and node:replace refuses.
func TestADiskThatSomebodyAddedIsNamed(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		text := lab(example(t, "one-gpu"))
		spec := parse(t, text)
		w.up(t, spec)
		machine := w.vm(t, "gpu1")
		storage, _, _ := strings.Cut(machine.Config["scsi0"], ":")
		w.set(t, machine.ID, fmt.Sprintf(`{"scsi9":"%s:1"}`, storage))
		time.Sleep(time.Minute)
		const words = "disk scsi9 (1GiB), which the file does not name"

		var no *cluster.RefusedError
		require.ErrorAs(t, w.verb(t, spec, replacements(t.Context(), "gpu1", false)), &no)
		assert.Contains(t, no.Error(), "what is on "+words+" would be destroyed with its machine")

		c := w.cluster(t, spec)
		forced, err := c.NodeReplace(t.Context(), "gpu1", true)
		require.NoError(t, err)
		down, err := c.Down(t.Context())
		require.NoError(t, err)
		gone := replace(t, text, "  gpu: {count: 1, addresses: [192.168.1.71], gpus: 1}\n", "")
		for what, g := range map[string]*converge.Graph{"replace": forced, "down": down, "up": w.cluster(t, parse(t, gone)).Up()} {
			plan, err := g.Plan(t.Context())
			require.NoError(t, err, what)
			var holds []string
			for _, it := range plan.Items {
				for _, cost := range it.Costs {
					if cost.Machine == "gpu1" && cost.Kind == converge.CostDestroy {
						holds = append(holds, converge.LossTexts(cost.Holds)...)
					}
				}
			}
			assert.Equal(t, []string{words}, holds, what)
		}
	})
}
