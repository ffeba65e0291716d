package session

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// TestWhoDoesNotWaitWhileARetryGoesOn: the refusal is the error, whatever was under way.
func TestWhoDoesNotWaitWhileARetryGoesOn(t *testing.T) {
	inSite(t, func(t *testing.T, w *site) {
		other := w.theirs("one")
		there := false
		err := w.do(one, Options{}, func(s *Session, ctx context.Context) error {
			var g converge.Graph
			g.Add(&converge.Resource[bool]{
				ID: "away", Observe: func(context.Context) (bool, error) { return false, soon{} }, Diff: func(bool) converge.Diff { return nil },
				Apply: func(context.Context, bool) error { return nil },
			})
			setting(&g, "work", &there, nil, g.Add(&converge.Resource[bool]{
				ID: "before", Observe: func(context.Context) (bool, error) { time.Sleep(10 * time.Second); return true, nil },
				Diff: func(bool) converge.Diff { return nil }, Apply: func(context.Context, bool) error { return nil },
			}))
			_, err := s.run(ctx, &g, &converge.Agreement{}, false, true)
			return err
		})
		assert.Equal(t, refused, code(err))
		require.ErrorContains(t, err, "nothing was changed: the right to change cluster one: teacher@desk since ")
		require.ErrorContains(t, err, "✗ away\n  it comes back")
		assert.False(t, there)
		require.NoError(t, other.Release(t.Context()))
	})
}

// soon is what goes by itself.
type soon struct{}

func (soon) Error() string   { return "it comes back" }
func (soon) Transient() bool { return true }

// TestWhoIsInterruptedInAVerb: Ctrl-C and -timeout are said, wherever a verb is by then.
func TestWhoIsInterruptedInAVerb(t *testing.T) {
	for want, limit := range map[int]func(context.Context) (context.Context, context.CancelFunc){
		1: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Minute)
		},
		130: func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, end := context.WithCancel(ctx)
			time.AfterFunc(time.Minute, end)
			return ctx, end
		},
	} {
		says := map[int]string{1: "timed out (-timeout)", 130: "interrupted; "}[want]
		inSite(t, func(t *testing.T, w *site) {
			there := false
			verb := func(hangs int) error {
				return w.do(one, Options{}, func(s *Session, ctx context.Context) error {
					ctx, end := limit(ctx)
					defer end()
					builds := 0
					return s.runConfirmed(ctx, func(ctx context.Context) (*converge.Graph, error) {
						if builds++; builds == hangs {
							<-ctx.Done()
							return nil, ctx.Err()
						}
						var g converge.Graph
						setting(&g, "work", &there, nil)
						return &g, nil
					}, Change{})
				})
			}
			other := w.theirs("one")
			err := verb(0)
			assert.Equal(t, want, code(err))
			require.ErrorContains(t, err, says)
			require.ErrorContains(t, err, "teacher@desk since ")
			require.NoError(t, other.Release(t.Context()))
			for hangs := range 2 {
				err := verb(1 + hangs)
				assert.Equal(t, want, code(err))
				require.ErrorContains(t, err, says)
			}
			assert.False(t, there)
		})
	}
}

// gone is a store that does not answer at first.
type gone struct {
	converge.LeaseStore
	asked int
}

func (g *gone) Read(ctx context.Context) (converge.LeaseRecord, error) {
	if g.asked++; g.asked <= 10 {
		return converge.LeaseRecord{}, away(g.asked)
	}
	return g.LeaseStore.Read(ctx)
}

type away int

func (a away) Error() string {
	return "host pve" + map[bool]string{true: "1", false: "2, port 900"}[a < 5] + string(rune('0'+a%10)) + " does not answer"
}
func (away) Transient() bool { return true }

// TestAWaitSaysWhy: what keeps a run from its lease is said, each reason once.
func TestAWaitSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := pvesim.New(pvesim.OneGPU(), pvesim.Options{})
		defer sim.Close()
		s, talk := atDesk(t, sim)
		_, right := s.hold(t.Context(), false)
		right.on[0].store = &gone{LeaseStore: right.on[0].store}
		require.NoError(t, right.acquire(t.Context()))
		right.release(t.Context())
		assert.Equal(t, 2, strings.Count(talk.String(), "Waiting for the right to change cluster lab1: host pve"), talk.String())
		assert.Contains(t, talk.String(), "port 9005 does not answer\n")
	})
}

// hung is a store whose machine accepts connections, and does not answer for two minutes.
type hung struct{ converge.LeaseStore }

func (h hung) Read(ctx context.Context) (converge.LeaseRecord, error) {
	if time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) < 2*time.Minute {
		<-ctx.Done()
		return converge.LeaseRecord{}, ctx.Err()
	}
	return h.LeaseStore.Read(ctx)
}

// TestAStoreThatHangsIsNamed: within seconds, and again.
func TestAStoreThatHangsIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := pvesim.New(pvesim.OneGPU(), pvesim.Options{})
		defer sim.Close()
		s, talk := atDesk(t, sim)
		_, right := s.hold(t.Context(), false)
		right.on[0].store = hung{right.on[0].store}
		began, first := time.Now(), make(chan string)
		go func() {
			time.Sleep(6 * time.Second)
			first <- talk.String()
		}()
		taken := make(chan error)
		go func() { taken <- right.acquire(t.Context()) }()
		assert.Contains(t, <-first, "Waiting for the right to change cluster lab1: VM 936906479 (homelab-lab1-lease) does not answer yet\n")
		require.NoError(t, <-taken)
		assert.Less(t, time.Since(began), 160*time.Second)
		right.release(t.Context())
		assert.Equal(t, 3, strings.Count(talk.String(), "Waiting for the right"), talk.String())
	})
}

// TestAnInterruptedRunGivesItsLeaseBack: one signal, at any request for the lease, and an error of an
// overloaded host at any of them: the lease is gone when the command has ended.
func TestAnInterruptedRunGivesItsLeaseBack(t *testing.T) {
	ofLease := func(r pvesim.Request) bool {
		return strings.Contains(r.Path, "/qemu/9") || r.Method == http.MethodPost && strings.HasSuffix(r.Path, "/qemu")
	}
	for name, fault := range map[string]pvesim.Rule{
		"signal":           {},
		"signal, slow":     {Delay: 900 * time.Millisecond},
		"500":              {Status: http.StatusInternalServerError, Message: "can't lock file '/var/lock/qemu-server/lock-900000123.conf' - got timeout"},
		"500, carried out": {Status: http.StatusInternalServerError, Message: "got no worker upid - start worker failed", After: true},
		"no answer":        {Drop: true, After: true},
	} {
		for n := range 16 {
			synctest.Test(t, func(t *testing.T) {
				sim := pvesim.New(pvesim.OneGPU(), pvesim.Options{})
				defer sim.Close()
				s, talk := atDesk(t, sim)
				ctx, interrupt := context.WithCancel(t.Context())
				fault.Skip, fault.Times = n, 1
				met := sim.Fail(func() pvesim.Rule {
					rule, seen := fault, 0
					rule.When = func(r pvesim.Request) bool {
						if !ofLease(r) {
							return false
						}
						if seen++; seen == n+1 && fault.Status == 0 && !fault.Drop {
							interrupt()
						}
						return true
					}
					return rule
				}())
				time.AfterFunc(time.Minute, interrupt) // as it is renewed
				var done atomic.Bool
				var inside atomic.Int32
				begun := time.Now()
				_, err := s.run(ctx, slow(&done, &inside, t), &converge.Agreement{}, false, false)
				require.Error(t, err)
				took := time.Since(begun)
				time.Sleep(5 * time.Second) // what was handed on is done
				assert.Empty(t, sim.VMs(), "%s at request %d (met %d), after %s: %s", name, n, met.Hits(), took, talk)
			})
		}
	}
}
