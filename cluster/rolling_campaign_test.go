package cluster_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// rolling is a change that goes round the workers of eight-a100.
type rolling struct {
	name          string
	before, after []string // what its file says, and says otherwise, in turn
}

func rollings() []rolling {
	const two, one = "gpus: {count: 2, model", "gpus: {count: 1, model"
	pair := func(third, fourth string) []string {
		return []string{"count: 4\n    addresses: [10.0.0.21-10.0.0.24]", "count: 2\n    addresses: [10.0.0.21-10.0.0.22]",
			"pools:\n", fmt.Sprintf("nodes:\n  wk-gpu3: {pool: wk-gpu, address: 10.0.0.23, gpus: {pci: [%s], model: null}}\n"+
				"  wk-gpu4: {pool: wk-gpu, address: 10.0.0.24, gpus: {pci: [%s], model: null}}\npools:\n", third, fourth)}
	}
	return []rolling{
		{name: "memory", after: []string{"memory: 128GiB", "memory: 96GiB"}},
		{name: "gpus", after: []string{two, one}},
		{name: "gpus up", before: []string{two, one}},
		{name: "k3s", after: []string{"k3s:\n", "k3s:\n  agent: {kubelet-arg: [max-pods=100]}\n"}},
		{name: "version", after: []string{"v1.36.5+k3s1", "v1.36.6+k3s1"}},
		{name: "driver", after: []string{"driver: {branch: auto}", "driver: {flavour: proprietary}"}},
		{name: "a card moves", before: pair("'81:00', 'a1:00'", "'c1:00'"), after: pair("'81:00'", "'c1:00', 'a1:00'")},
	}
}

// hurdle is something in the way of such a change, for as long as it goes on.
type hurdle struct {
	of     string // proxmox, kubernetes or guest
	target string // METHOD path with names in place of VMIDs, or the name of a worker
	fault  string
}

func (h hurdle) String() string { return h.of + " " + h.target + " " + h.fault }

// hurdles are faults at each change that the change asks of Proxmox and Kubernetes, as
// it was seen, and at each worker.
func hurdles(seen []hurdle) []hurdle {
	var out []hurdle
	for _, s := range seen {
		for _, fault := range []string{"500", "dropped"} {
			out = append(out, hurdle{s.of, s.target, fault})
		}
		if s.of == "proxmox" && strings.Contains(s.target, "/status/") {
			out = append(out, hurdle{s.of, s.target, "task"})
		}
	}
	for i := range 4 {
		for _, fault := range []string{"kubelet", "driver", "second card"} {
			out = append(out, hurdle{"guest", fmt.Sprintf("wk-gpu%d", i+1), fault})
		}
	}
	return out
}

// TestRollingCampaign has each request of a rolling change fail for as long as the change
// is tried: at no instant is more than one node away, and when nothing fails any more the change is made, again so.
func TestRollingCampaign(t *testing.T) {
	every := 29
	if *campaignRuns != "" && *campaignRuns != "sample" {
		every = 1
	}
	mine := share.Start(t, "hurdles in the way of rolling changes")
	runs, failed := 0, 0
	for _, r := range rollings() {
		text := example(t, "eight-a100")
		before, after := parse(t, strings.NewReplacer(r.before...).Replace(text)), parse(t, strings.NewReplacer(r.after...).Replace(text))
		var all []hurdle
		synctest.Test(t, func(t *testing.T) {
			x := newRound(t, before)
			defer x.close()
			require.NoError(t, x.try(t, after), r.name)
			require.NotEmpty(t, x.seen(), "%s asks nothing of anybody", r.name)
			all = hurdles(x.seen())
		})
		for i, offset := 0, runs; i < len(all); i += every {
			h := all[(i+offset)%len(all)]
			runs++
			if !mine.Next() {
				continue
			}
			t.Run(r.name+" "+h.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					x := newRound(t, before)
					defer x.close()
					x.hurdle(t, h)
					if x.try(t, after) != nil {
						failed++
					}
					x.clear(t, after)
					require.NoError(t, x.try(t, after))
					assert.LessOrEqual(t, len(x.most), 1, "away at once: %v", x.most)
					time.Sleep(time.Minute)
					for name, n := range x.nodes(t) {
						assert.True(t, n.Ready && !n.Cordoned, "%s: %s", name, n.Reason)
					}
					assert.Empty(t, x.plan(t, after))
				})
			})
		}
	}
	t.Logf("%d of the runs failed before what was in the way was gone", failed)
}

// round is a world in which a change goes round.
type round struct {
	*world
	mu    sync.Mutex
	asked map[hurdle]bool
	in    *hurdle // the way
	names *namer
	rule  *pvesim.Fault
	most  []string // the most nodes that were away at once
	stop  chan struct{}
	ended sync.WaitGroup
}

func newRound(t *testing.T, spec *spec.Spec) *round {
	x := &round{world: newWorld(t, pvesim.EightA100()), asked: map[hurdle]bool{}, names: &namer{}, stop: make(chan struct{})}
	x.rule = x.sim.Fail(pvesim.Rule{Times: -1, When: func(r pvesim.Request) bool { x.names.name(r); return false }})
	x.up(t, spec)
	time.Sleep(time.Minute)
	x.rule.Remove()
	x.kubeTap = func(next http.RoundTripper) http.RoundTripper {
		return tripper(func(r *http.Request) (*http.Response, error) { return x.toKubernetes(next, r) })
	}
	x.arm(pvesim.Rule{})
	client := x.api(t)
	x.ended.Go(func() {
		for {
			select {
			case <-x.stop:
				return
			case <-time.After(2 * time.Second):
				x.count(t.Context(), client)
			}
		}
	})
	return x
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (x *round) close() {
	close(x.stop)
	x.ended.Wait()
	x.world.close()
}

// arm has Proxmox fail by a rule at what is in the way, and notes what it is asked.
func (x *round) arm(rule pvesim.Rule) {
	rule.Times = -1
	rule.When = func(r pvesim.Request) bool {
		to := x.names.name(r)
		return to.mutating() && x.note("proxmox", to.method+" "+to.path)
	}
	x.rule = x.sim.Fail(rule)
}

// note keeps what was asked, and reports whether it is in the way.
func (x *round) note(of, target string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.asked[hurdle{of: of, target: target}] = true
	return x.in != nil && x.in.of == of && x.in.target == target
}

func (x *round) seen() []hurdle {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.SortedFunc(maps.Keys(x.asked), func(a, b hurdle) int { return strings.Compare(a.String(), b.String()) })
}

func (x *round) toKubernetes(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || !x.note("kubernetes", r.Method+" "+r.URL.Path) {
		return next.RoundTrip(r)
	}
	if x.in.fault == "dropped" {
		return nil, http.ErrServerClosed
	}
	rec := &http.Response{StatusCode: http.StatusInternalServerError, Status: "500 Internal Server Error", Request: r, Header: http.Header{}, Body: http.NoBody}
	return rec, nil
}

func (x *round) hurdle(t *testing.T, h hurdle) {
	x.mu.Lock()
	x.in = &h
	x.mu.Unlock()
	switch h.of {
	case "guest":
		x.sim.SetGuestFaults(x.vm(t, h.target).ID, guest.Faults{
			NodeNeverReady: h.fault == "kubelet", DriverFailsToLoad: h.fault == "driver", SecondGPUFails: h.fault == "second card"})
	case "proxmox":
		x.rule.Remove()
		x.arm(map[string]pvesim.Rule{
			"500": {Status: 500, Message: "got no worker upid - start worker failed"}, "dropped": {Drop: true}, "task": {TaskError: "QEMU exited with code 1"},
		}[h.fault])
	}
}

// clear takes away what is in the way, and mends what it has done to a machine.
func (x *round) clear(t *testing.T, spec *spec.Spec) {
	h := *x.in
	x.mu.Lock()
	x.in = nil
	x.mu.Unlock()
	if h.of != "guest" {
		return
	}
	x.sim.SetGuestFaults(x.vm(t, h.target).ID, guest.Faults{})
	time.Sleep(time.Minute) // servers may have gone round, too, and the API's address with them
	if n := x.nodes(t)[h.target]; n.Ready && !n.Cordoned {
		return // it was never that one's turn
	}
	c := x.cluster(t, spec)
	defer c.Close()
	cycle, err := c.NodeCycle(t.Context(), h.target, false)
	require.NoError(t, err)
	_, err = cycle.Run(t.Context(), x.listen(t))
	require.NoError(t, err)
}

func (x *round) try(t *testing.T, spec *spec.Spec) error {
	c := x.cluster(t, spec)
	defer c.Close()
	_, err := c.Up().Run(t.Context(), x.listen(t))
	return err
}

// count keeps which nodes are off, not Ready or cordoned, when that are the most so far.
func (x *round) count(ctx context.Context, client *kube.Client) {
	away := map[string]bool{}
	for _, vm := range x.sim.VMs() {
		if !vm.Running && (strings.HasPrefix(vm.Name, "wk") || strings.HasPrefix(vm.Name, "cp")) {
			away[vm.Name] = true
		}
	}
	nodes, err := client.Nodes(ctx)
	for _, n := range nodes {
		if err == nil && (!n.Ready || n.Cordoned) {
			away[n.Name] = true
		}
	}
	if len(away) > len(x.most) {
		x.most = slices.Sorted(maps.Keys(away))
	}
}
