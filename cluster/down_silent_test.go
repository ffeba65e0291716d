package cluster_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// TestDownOfSilentGuests: whose work ends cannot be seen where no guest answers. That is found out soon, for
// each of plan, plan under the lease, and run, and not at all if nobody asks.
func TestDownOfSilentGuests(t *testing.T) {
	mine := share.Start(t, "sites of silent guests that go, by size")
	for _, nodes := range []int{7, 30, 100} {
		if !mine.Next() {
			continue
		}
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			least := downOf(t, nodes, unheard{yes: true})
			for _, s := range []unheard{
				{name: "never booted, with -yes", guests: guest.Faults{NeverBoots: true}, yes: true},
				{name: "never booted, with a question", guests: guest.Faults{NeverBoots: true}},
				{name: "no packet comes back, with a question", unreachable: true},
				{name: "the SSH servers refuse, with a question", guests: guest.Faults{SSHRefuses: true}},
			} {
				took := downOf(t, nodes, s)
				t.Logf("%d nodes: down of guests that answer %s; %s: %s, %.2f times as long", nodes, least, s.name, took, took.Seconds()/least.Seconds())
				assert.LessOrEqual(t, took, least*12/10, s.name)
			}
		})
	}
}

// unheard is why guests do not answer, and whether somebody asks whose work ends.
type unheard struct {
	name        string
	guests      guest.Faults
	unreachable bool // they run, and nothing from them arrives here
	yes         bool
}

// downOf is how long a plan and a run of Down take, as cluster:down makes them, with all VMs running.
func downOf(t *testing.T, nodes int, s unheard) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		spec, model := sized(t, nodes)
		w := newWorld(t, model)
		w.sim.Fail(pvesim.Rule{Method: http.MethodPost, Path: ".*/status/start", Skip: 1, Times: -1, Guest: &s.guests})
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
		if s.unreachable {
			w.dial = func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
		}
		c = w.cluster(t, spec)
		defer c.Close()
		begun := time.Now()
		agreed := &converge.Agreement{Everything: true}
		build := func() *converge.Graph {
			g, err := c.Down(t.Context())
			require.NoError(t, err)
			g.NoCosts, g.Approve = s.yes, agreed.Approve
			return g
		}
		_, err := build().Plan(t.Context())
		require.NoError(t, err)
		if !s.yes {
			_, err := build().Plan(t.Context())
			require.NoError(t, err)
		}
		_, err = build().Run(t.Context(), nil)
		require.NoError(t, err)
		took = time.Since(begun)
	})
	return took
}
