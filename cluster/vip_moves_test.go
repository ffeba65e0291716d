package cluster_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// The server that holds the API's address loses its power just when the agents join, and when
// their Nodes are awaited. Another server takes the address over; the joins and the
// client go on, in the same run.
func TestAgentsJoinWhileTheVIPMoves(t *testing.T) {
	for _, when := range []string{"k3s/wk-gpu1", "node/wk-gpu1"} {
		t.Run(when, func(t *testing.T) {
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				spec := parse(t, example(t, "eight-a100"))
				holder := func() string {
					m, ok := w.sim.Network().Host(spec.K3s.VIP).(*guest.Machine)
					require.True(t, ok, "nobody has the address")
					return strings.TrimSpace(ask(t, m, "hostname"))
				}
				var once sync.Once
				var first string
				back := make(chan struct{})
				lose := func() {
					defer close(back)
					first = holder()
					m := w.guests()[first]
					m.Kill()
					time.Sleep(2 * time.Minute)
					assert.NotEqual(t, first, holder(), "another server has the address")
					assert.NoError(t, m.Boot(t.Context()))
				}
				c := w.cluster(t, spec)
				defer c.Close()
				say := w.listen(t)
				_, err := c.Up().Run(t.Context(), func(e converge.Event) {
					say(e)
					if e.Step == when && e.Kind == converge.Acting {
						once.Do(func() { go lose() })
					}
				})
				<-back
				require.NoError(t, err)
				time.Sleep(2 * time.Minute)
				nodes := w.nodes(t)
				for _, n := range spec.Nodes {
					assert.True(t, nodes[n.Name].Ready, "%s: %s", n.Name, nodes[n.Name].Reason)
				}
				assert.Empty(t, w.plan(t, spec))
				assert.NotContains(t, ask(t, w.guests()["cp2"], "k3s", "token", "list"), "homelab:", "the join tokens are revoked")
			})
		})
	}
}
