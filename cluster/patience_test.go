package cluster_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// TestPatience: a host on which booting takes longer than a step waits for is given
// longer, and the failure says how.
func TestPatience(t *testing.T) {
	slow := guest.Faults{NeverBoots: true}
	for patience, limit := range map[int]string{0: "not there after 10m:", 3: "not there after 30m:"} {
		synctest.Test(t, func(t *testing.T) {
			spec, model := sized(t, 5)
			spec.Patience = patience
			w := newWorld(t, model)
			w.sim.Fail(pvesim.Rule{Path: ".*/status/start", Skip: 1, Times: -1, Guest: &slow})
			c := w.cluster(t, spec)
			defer c.Close()
			_, err := c.Up().Run(t.Context(), w.listen(t))
			require.ErrorContains(t, err, limit)
			require.ErrorContains(t, err, "no answer within")
			require.ErrorContains(t, err, "in cluster.yaml would double this limit")
		})
	}
}
