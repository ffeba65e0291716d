package cluster_test

import (
	"context"
	"fmt"
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
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// bystander is somebody with Proxmox's web interface open, who has nothing to do with
// us: it asks for a host's VMs again and again.
type bystander struct {
	w    *world
	idle time.Duration // an answer while nobody else asks
	mu   sync.Mutex
	// waits are how long answers took, by when they were asked for.
	waits map[time.Time]time.Duration
}

// ask asks once, and says how long it took.
func (b *bystander) ask(t testing.TB) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://pve1/api2/json/nodes/pve1/qemu", nil)
	require.NoError(t, err)
	id, secret := b.w.sim.Token()
	req.Header.Set("Authorization", "PVEAPIToken="+id+"="+secret)
	asked := time.Now()
	res, err := b.w.sim.Client().Do(req)
	if err != nil {
		return // the world has ended
	}
	_ = res.Body.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waits == nil {
		b.waits = map[time.Time]time.Duration{}
	}
	b.waits[asked] = time.Since(asked)
}

// watch asks twice a second, each time without waiting for the answer before, until
// ctx ends.
func (b *bystander) watch(ctx context.Context, t testing.TB) {
	var asking sync.WaitGroup
	defer asking.Wait()
	tick := time.NewTicker(497 * time.Millisecond) // in step with nobody
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			asking.Go(func() { b.ask(t) })
		}
	}
}

// between are the waits of that time, in order.
func (b *bystander) between(from, to time.Time) (out []time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at, d := range b.waits {
		if !at.Before(from) && at.Before(to) {
			out = append(out, d)
		}
	}
	slices.Sort(out)
	return out
}

func median(sorted []time.Duration) time.Duration { return sorted[len(sorted)/2] }

// booting is the time in which guests boot: from the first start of a node's VM until
// the last one could be logged in to.
func booting(report *converge.Report) (from, to time.Time) {
	for _, s := range report.Steps {
		if kind, _, _ := strings.Cut(s.Step, "/"); kind == "vm" && (from.IsZero() || s.Started.Before(from)) {
			from = s.Started
		} else if kind == "guest" && s.Ended.After(to) {
			to = s.Ended
		}
	}
	return from, to
}

// besideSites does something at sites of several sizes with a bystander. what names the cases of the campaign.
func besideSites(t *testing.T, what string, do func(t *testing.T, spec *spec.Spec, b *bystander)) {
	mine := share.Start(t, what)
	for _, nodes := range []int{7, 30, 100} {
		if !mine.Next() {
			continue
		}
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spec, model := sized(t, nodes)
				w := newWorld(t, model)
				b := &bystander{w: w}
				b.ask(t)
				b.idle = median(b.between(time.Time{}, time.Now().Add(time.Hour)))
				do(t, spec, b)
			})
		})
	}
}

// TestBystander: whoever else uses the host notices nothing of our guests' booting.
func TestBystander(t *testing.T) {
	besideSites(t, "clusters with a bystander, by size", func(t *testing.T, spec *spec.Spec, b *bystander) {
		ctx, stop := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() { b.watch(ctx, t) })
		report := b.w.up(t, spec)
		stop()
		watching.Wait()
		waits := b.between(booting(report))
		t.Logf("%d nodes: idle %s, while guests boot median %s, one in a hundred %s, worst %s, of %d", len(spec.Nodes),
			b.idle, median(waits), waits[len(waits)*99/100], waits[len(waits)-1], len(waits))
		assert.LessOrEqual(t, median(waits), b.idle*3/2)
	})
}

// TestPlanWhileGuestsBoot: looking at a site whose guests do not answer takes no longer than it must,
// and holds nobody else up: no agent is asked of a guest that accepts no connection, and one a host of
// those that do.
func TestPlanWhileGuestsBoot(t *testing.T) {
	for _, tt := range []struct {
		name   string
		faults guest.Faults
		age    time.Duration
		most   time.Duration
		asked  int // agents a plan
	}{
		{"no sign of life", guest.Faults{NeverBoots: true}, 20 * time.Second, 2 * time.Second, 0},
		{"no sign of life for long", guest.Faults{NeverBoots: true}, 5 * time.Minute, 2 * time.Second, 0},
		{"SSH is there and the agents are silent", guest.Faults{AgentNeverAnswers: true}, 20 * time.Second, 5 * time.Second, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spec, model := sized(t, 7)
				w := newWorld(t, model)
				ctx, stop := context.WithCancel(t.Context())
				c := w.cluster(t, spec)
				w.sim.Fail(pvesim.Rule{Method: http.MethodPost, Path: ".*/status/start", Skip: 1, Times: -1, Guest: &tt.faults})
				up := make(chan error, 1)
				go func() { _, err := c.Up().Run(ctx, w.listen(t)); up <- err }()
				for running(w) < 7 {
					time.Sleep(time.Second)
				}
				time.Sleep(tt.age)
				stop()
				<-up
				c.Close()
				time.Sleep(time.Minute) // what was handed on is done
				w.sim.ForgetRequests()
				var took []time.Duration
				b := &bystander{w: w}
				for range 20 {
					begun := time.Now()
					w.plan(t, spec)
					took = append(took, time.Since(begun))
					b.ask(t)
				}
				asked := 0
				for _, r := range w.sim.Requests() {
					if strings.Contains(r.Path, "/agent/") {
						asked++
					}
				}
				slices.Sort(took)
				waits := b.between(time.Time{}, time.Now())
				t.Logf("20 plans: median %s, worst %s, %d agent calls; a bystander meanwhile: median %s, worst %s", median(took), took[19], asked, median(waits), waits[19])
				assert.LessOrEqual(t, median(took), tt.most)
				assert.LessOrEqual(t, asked, 20*tt.asked)
			})
		})
	}
}

// TestBystanderOfSilentGuests: an up waits for guests that never answer, and five people plan, each in a
// process of their own: others who use the host notice neither.
func TestBystanderOfSilentGuests(t *testing.T) {
	besideSites(t, "sites with silent guests, by size", func(t *testing.T, spec *spec.Spec, b *bystander) {
		w, nodes := b.w, len(spec.Nodes)
		ctx, stop := context.WithCancel(t.Context())
		c := w.cluster(t, spec)
		w.sim.Fail(pvesim.Rule{Method: http.MethodPost, Path: ".*/status/start", Skip: 1, Times: -1, Guest: &guest.Faults{NeverBoots: true}})
		up := make(chan error, 1)
		go func() { _, err := c.Up().Run(ctx, nil); up <- err }()
		for running(w) < min(nodes, 7) {
			time.Sleep(time.Second)
		}
		time.Sleep(4 * time.Minute)
		from := time.Now()
		watching, end := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { b.watch(watching, t) })
		took := w.plansOfFive(t, spec)
		time.Sleep(20 * time.Second)
		end()
		all.Wait()
		stop()
		<-up
		c.Close()
		waits := b.between(from, time.Now())
		t.Logf("%d nodes: idle %s; beside an up that waits and 20 plans of five people: median %s, p90 %s, worst %s, of %d; a plan: median %s, worst %s", nodes,
			b.idle, median(waits), waits[len(waits)*9/10], waits[len(waits)-1], len(waits), median(took), took[len(took)-1])
		assert.LessOrEqual(t, median(waits), b.idle*3/2)
		assert.LessOrEqual(t, waits[len(waits)*9/10], b.idle*2)
		if nodes == 7 {
			assert.LessOrEqual(t, took[len(took)-1], 2*time.Second)
		}
	})
}

// plansOfFive are 20 plans of five people, and how long they took, in order.
func (w *world) plansOfFive(t *testing.T, spec *spec.Spec) (took []time.Duration) {
	var people sync.WaitGroup
	var mu sync.Mutex
	for i := range 5 {
		people.Go(func() {
			time.Sleep(time.Duration(i) * 370 * time.Millisecond) // nobody types at the very same moment
			for range 4 {
				begun := time.Now()
				w.plan(t, spec)
				mu.Lock()
				took = append(took, time.Since(begun))
				mu.Unlock()
				time.Sleep(3 * time.Second)
			}
		})
	}
	people.Wait()
	slices.Sort(took)
	return took
}

// running counts the nodes' VMs that run.
func running(w *world) (n int) {
	for _, vm := range w.sim.VMs() {
		if vm.Running {
			n++
		}
	}
	return n
}
