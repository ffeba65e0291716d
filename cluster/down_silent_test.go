package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/consent"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// TestDownOfSilentGuests: whose work ends cannot be seen where no guest answers. That is found out once,
// and not at all if nobody asks.
func TestDownOfSilentGuests(t *testing.T) {
	mine := share.Of(t, "sites of silent guests that go, by size")
	for _, nodes := range []int{7, 30, 100} {
		if !mine.Next() {
			continue
		}
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			least := downOf(t, nodes, guest.Faults{}, true)
			unasked := downOf(t, nodes, guest.Faults{NeverBoots: true}, true)
			asked := downOf(t, nodes, guest.Faults{NeverBoots: true}, false)
			t.Logf("%d nodes: down of guests that answer %s; of silent ones with -yes %s, with a question %s", nodes, least, unasked, asked)
			assert.LessOrEqual(t, unasked, least*12/10)
			assert.LessOrEqual(t, asked, least*12/10+15*time.Second, "its limit, for each of plan, plan under the lease, and run")
		})
	}
}

// downOf is how long a plan and a run of Down take, as cluster:down makes them, with all VMs running.
func downOf(t *testing.T, nodes int, faults guest.Faults, yes bool) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		spec, model := sized(t, nodes)
		w := newWorld(t, model)
		defer w.close()
		w.sim.Fail(pvesim.Rule{Method: http.MethodPost, Path: ".*/status/start", Skip: 1, Times: -1, Guest: &faults})
		ctx, stop := context.WithCancel(t.Context())
		c := w.cluster(t, spec)
		up := make(chan error, 1)
		go func() { _, err := c.Up().Run(ctx, nil); up <- err }()
		for running(w) < nodes {
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Minute)
		stop()
		<-up
		c.Close()
		time.Sleep(time.Minute)
		c = w.cluster(t, spec)
		defer c.Close()
		begun := time.Now()
		agreed := &consent.Agreement{Everything: true}
		build := func() *converge.Graph {
			g, err := c.Down(t.Context())
			require.NoError(t, err)
			g.NoCosts, g.May = yes, agreed.May
			return g
		}
		_, err := build().Plan(t.Context())
		require.NoError(t, err)
		if !yes {
			_, err := build().Plan(t.Context())
			require.NoError(t, err)
		}
		_, err = build().Run(t.Context(), nil)
		require.NoError(t, err)
		took = time.Since(begun)
	})
	return took
}
