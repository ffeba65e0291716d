package converge_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
)

// shelf keeps a lease in memory.
type shelf struct {
	mu      sync.Mutex
	text    string
	version int
	there   bool
	locked  string
}

func (s *shelf) lock(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locked = why
}

func (s *shelf) content() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

// way is one run's way to the shelf.
type way struct {
	*shelf
	cut atomic.Pointer[func(ctx context.Context) error] // keeps a request, or its answer, from arriving
}

func (w *way) cutBy(cut func(context.Context) error) { w.cut.Store(&cut) }

func (w *way) mend() { w.cutBy(func(context.Context) error { return nil }) }

func (w *way) passes(ctx context.Context) error { return (*w.cut.Load())(ctx) }

func open(s *shelf) *way {
	w := &way{shelf: s}
	w.mend()
	return w
}

// hangs is a line that is dead.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (*way) String() string { return "the shelf" }

func ask[T any](ctx context.Context, w *way, do func() (T, error)) (out T, err error) {
	if err := w.passes(ctx); err != nil {
		return out, err
	}
	w.mu.Lock()
	out, err = do()
	w.mu.Unlock()
	return out, errors.Join(w.passes(ctx), err)
}

func (w *way) Read(ctx context.Context) (converge.LeaseRecord, error) {
	return ask(ctx, w, func() (converge.LeaseRecord, error) {
		if !w.there {
			return converge.LeaseRecord{}, converge.ErrNoLease
		}
		return converge.LeaseRecord{Text: w.text, Version: strconv.Itoa(w.version), Locked: w.locked}, nil
	})
}

func (w *way) Create(ctx context.Context, text string) error {
	_, err := ask(ctx, w, func() (int, error) {
		if w.there {
			return 0, converge.ErrLeaseExists
		}
		w.there, w.text, w.version = true, text, w.version+1
		return 0, nil
	})
	return err
}

func (w *way) Replace(ctx context.Context, over converge.LeaseRecord, text string) error {
	_, err := ask(ctx, w, func() (int, error) {
		if !w.there || over.Version != strconv.Itoa(w.version) || w.locked != "" {
			return 0, converge.ErrLeaseStale
		}
		w.text, w.version = text, w.version+1
		return 0, nil
	})
	return err
}

func (w *way) Remove(ctx context.Context, over converge.LeaseRecord) error {
	_, err := ask(ctx, w, func() (int, error) {
		switch {
		case !w.there:
			return 0, nil
		case over.Version != strconv.Itoa(w.version):
			return 0, converge.ErrLeaseStale
		case w.locked != "":
			return 0, away("locked")
		}
		w.there = false
		return 0, nil
	})
	return err
}

// away is a failure that passes.
type away string

func (a away) Error() string { return string(a) }
func (away) Transient() bool { return true }

func claim(holder string) converge.LeaseClaim {
	return converge.LeaseClaim{What: "cluster home", Holder: holder, Purpose: "cluster:up"}
}

func patient(converge.LeaseHolder) error { return nil }

func impatient(h converge.LeaseHolder) error {
	return &converge.LeaseHeldError{What: "cluster home", LeaseHolder: h}
}

// TestNeverTwo: runs come and go, requests and answers are lost, some runs die and some
// sleep; anyone who asks before it acts is alone, and every run that lives gets its turn.
func TestNeverTwo(t *testing.T) {
	for seed := range uint64(150) {
		synctest.Test(t, func(t *testing.T) {
			s := &shelf{}
			var all sync.WaitGroup
			var inside atomic.Int32
			var dead []func()
			for i := range 5 {
				r, w := rand.New(rand.NewPCG(seed, uint64(i))), open(s)
				var count atomic.Uint64
				line := func(ctx context.Context) error { // slow for all, and for some it breaks
					now := rand.New(rand.NewPCG(seed<<8|uint64(i), count.Add(1))) //nolint:gosec // small
					time.Sleep(time.Duration(now.IntN(1500)) * time.Millisecond)
					if i%2 == 0 && now.IntN(8) == 0 {
						return away("the line is cut")
					}
					return ctx.Err()
				}
				w.cutBy(line)
				all.Go(func() {
					time.Sleep(time.Duration(r.IntN(20)) * time.Second)
					held, l, err := converge.AcquireLease(t.Context(), w, claim(fmt.Sprint(i)), patient)
					if !assert.NoError(t, err, "seed %d", seed) {
						return
					}
					if i == 4 && seed%2 == 0 { // it dies
						w.cutBy(hangs)
						dead = append(dead, func() { w.mend(); _ = l.Release(t.Context()) })
						return
					}
					for range 1 + r.IntN(4) {
						if i == 3 { // it sleeps, or is cut off, for a while or for long
							w.cutBy(hangs)
							time.Sleep(time.Duration(r.IntN(60+int(seed%3)*120)) * time.Second) //nolint:gosec // small
							if r.IntN(2) == 0 {
								w.cutBy(line)
							}
						}
						ctx, cancel := context.WithTimeout(held, 5*time.Second)
						if l.Check(ctx) == nil {
							assert.EqualValues(t, 1, inside.Add(1), "seed %d", seed)
							time.Sleep(time.Duration(r.IntN(40)) * time.Second) // less than it takes to be given up
							inside.Add(-1)
						}
						cancel()
						w.cutBy(line)
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					_ = l.Release(ctx)
				})
			}
			all.Wait()
			for _, end := range dead {
				end()
			}
		})
	}
}

// TestALockIsNoSilence: while a backup locks the lease its holder cannot show that it lives,
// and is not taken for dead; nobody acts meanwhile.
func TestALockIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		held, l, err := converge.AcquireLease(t.Context(), open(s), claim("teacher"), patient)
		require.NoError(t, err)
		s.lock("backup")
		var second time.Duration
		begin := time.Now()
		done := make(chan error, 1)
		go func() {
			_, next, err := converge.AcquireLease(t.Context(), open(s), claim("student1"), patient)
			second = time.Since(begin)
			if err == nil {
				err = next.Release(t.Context())
			}
			done <- err
		}()
		time.Sleep(5 * time.Minute)
		require.ErrorContains(t, l.Check(t.Context()), "the shelf is locked (backup)")
		require.NoError(t, held.Err(), "nobody has taken over")
		s.lock("")
		time.Sleep(10 * time.Second)
		require.NoError(t, l.Check(t.Context()))
		s.lock("snapshot")
		time.AfterFunc(5*time.Second, func() { s.lock("") })
		require.NoError(t, l.Release(t.Context()), "it waits for the lock, too")
		require.NoError(t, <-done)
		assert.Greater(t, second, 5*time.Minute)

		_, l, err = converge.AcquireLease(t.Context(), open(s), claim("teacher"), patient)
		require.NoError(t, err)
		s.lock("suspended")
		begin = time.Now()
		_, _, err = converge.AcquireLease(t.Context(), open(s), claim("student1"), patient)
		require.ErrorContains(t, err, "the shelf is locked (suspended), for 10m")
		require.ErrorContains(t, err, "teacher since ")
		assert.InDelta(t, 10, time.Since(begin).Minutes(), 0.5)
		s.lock("")
		require.NoError(t, l.Release(t.Context()))
	})
}

// TestWhoeverWakesStopsAtOnce: within a second, and not when the next sign is due.
func TestWhoeverWakesStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		sleeps := open(s)
		held, _, err := converge.AcquireLease(t.Context(), sleeps, claim("teacher"), patient)
		require.NoError(t, err)
		awake := make(chan struct{})
		sleeps.cutBy(func(context.Context) error { <-awake; return nil })
		_, l, err := converge.AcquireLease(t.Context(), open(s), claim("student1"), patient)
		require.NoError(t, err)
		require.NoError(t, held.Err())
		close(awake)
		time.Sleep(time.Second)
		require.ErrorIs(t, context.Cause(held), converge.ErrLeaseLost)
		require.ErrorContains(t, context.Cause(held), "student1 since ")
		require.NoError(t, l.Release(t.Context()))
	})
}

// TestAskingDoesNotHang: one question that hangs holds nobody for longer than they have.
func TestAskingDoesNotHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(&shelf{})
		_, l, err := converge.AcquireLease(t.Context(), w, claim("teacher"), patient)
		require.NoError(t, err)
		w.cutBy(hangs)
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		require.ErrorIs(t, l.Check(ctx), context.DeadlineExceeded)
		assert.Equal(t, 3*time.Second, time.Since(begin))
		begin = time.Now()
		err = l.Check(t.Context())
		require.ErrorContains(t, err, "the shelf does not answer within 30s")
		assert.True(t, converge.IsTransient(err))
		assert.LessOrEqual(t, time.Since(begin), time.Minute, "no deadline of one's own is needed")
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, l.Release(ctx), "the lease of cluster home (the shelf) stays until the next run")
	})
}

// TestWhoWillNotWait: what is in the way is told, and the wait is over.
func TestWhoWillNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		_, l, err := converge.AcquireLease(t.Context(), open(s), claim("teacher"), patient)
		require.NoError(t, err)
		begin := time.Now()
		_, _, err = converge.AcquireLease(t.Context(), open(s), claim("student1"), impatient)
		var held *converge.LeaseHeldError
		require.ErrorAs(t, err, &held)
		assert.Equal(t, "teacher", held.Holder)
		assert.Zero(t, time.Since(begin))
		require.NoError(t, l.Release(t.Context()))
		_, l, err = converge.AcquireLease(t.Context(), open(s), claim("student1"), impatient)
		require.NoError(t, err)
		require.NoError(t, l.Release(t.Context()))
	})
}

// TestALeaseThatSaysNothing: one of which a run that died, or another owner's hand, has left a
// lease that names no run does not block forever: it expires like any other.
func TestALeaseThatSaysNothing(t *testing.T) {
	for _, text := range []string{"", "what somebody has written", "holder: teacher\nbeat: 3"} {
		synctest.Test(t, func(t *testing.T) {
			s := &shelf{there: true, text: text}
			begin := time.Now()
			_, _, err := converge.AcquireLease(t.Context(), open(s), claim("student1"), impatient)
			require.ErrorAs(t, err, new(*converge.LeaseHeldError))
			require.ErrorContains(t, err, "an unknown run changes cluster home")
			assert.Zero(t, time.Since(begin))
			_, l, err := converge.AcquireLease(t.Context(), open(s), claim("student1"), patient)
			require.NoError(t, err)
			assert.InDelta(t, 90, time.Since(begin).Seconds(), 10)
			require.NoError(t, l.Release(t.Context()))

			s.there, s.text = true, text
			s.lock("backup")
			_, _, err = converge.AcquireLease(t.Context(), open(s), claim("student1"), patient)
			require.ErrorContains(t, err, "the shelf is locked (backup), for 10m")
		})
	}
}

// remove deletes the lease by hand, as somebody does who believes that its holder has ended.
func (s *shelf) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.there = false
}

// A run whose lease somebody removes has stopped before another one begins, whenever that is: it
// begins nothing more once it asks, and what it is at ends soon. The other changes nothing until then.
func TestALeaseThatSomebodyRemoves(t *testing.T) {
	var longest time.Duration
	for at := 6 * time.Second; at < 30*time.Second; at += 130 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			s := &shelf{}
			slow := func(ctx context.Context) error { return converge.Pause(ctx, 150*time.Millisecond) }
			first, second := open(s), open(s)
			first.cutBy(slow)
			second.cutBy(slow)
			held, l, err := converge.AcquireLease(t.Context(), first, claim("teacher"), patient)
			require.NoError(t, err)
			var removed atomic.Pointer[time.Time]
			var stopped time.Time
			over := make(chan struct{})
			go func() { // one long act after another, each of which ends with its context
				defer close(over)
				for l.Check(held) == nil {
					if since := removed.Load(); since != nil { // the answer may have been on its way
						assert.LessOrEqual(t, time.Since(*since), 150*time.Millisecond, "removed after %s", at)
					}
					_ = converge.Pause(held, 11*time.Second)
				}
				stopped = time.Now()
			}()
			time.Sleep(at)
			s.remove()
			now := time.Now()
			removed.Store(&now)
			_, next, err := converge.AcquireLease(t.Context(), second, claim("student1"), patient)
			require.NoError(t, err)
			require.NoError(t, next.Check(t.Context()))
			select {
			case <-over:
			default:
				assert.Fail(t, "two at a time", "removed after %s", at)
			}
			<-over
			longest = max(longest, stopped.Sub(now))
			require.ErrorIs(t, context.Cause(held), converge.ErrLeaseLost)
			require.NoError(t, next.Release(t.Context()))
		})
	}
	assert.Less(t, longest, 5*time.Second)
	t.Logf("what it was at ended after %s at most", longest)
}

// A machine that was paused has a clock that stood still: its run is asked about the lease, and not
// about the time.
func TestWhoseClockStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		held, l, err := converge.AcquireLease(t.Context(), open(s), claim("teacher"), patient)
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		require.NoError(t, l.Check(t.Context()))
		s.mu.Lock()
		s.text, s.version = "holder: student1\nrun: another\nsince: 2031-01-01T00:00:00Z\nbeat: 7", s.version+1 // hours ahead
		s.mu.Unlock()
		require.ErrorIs(t, l.Check(t.Context()), converge.ErrLeaseLost)
		require.ErrorContains(t, context.Cause(held), "student1 since ")
		require.NoError(t, l.Release(t.Context()))
	})
}

// late is a way on which another run is always quicker.
type late struct{ *way }

func (late) Create(context.Context, string) error { return converge.ErrLeaseExists }

// TestWhoWillNotWaitForABeginner: another run is taking it at this moment, and has not yet
// said who it is.
func TestWhoWillNotWaitForABeginner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		_, _, err := converge.AcquireLease(t.Context(), late{open(&shelf{})}, claim("student1"), impatient)
		require.ErrorAs(t, err, new(*converge.LeaseHeldError))
		assert.Zero(t, time.Since(begin))
		_, _, err = converge.AcquireLease(t.Context(), late{open(&shelf{})}, claim("student1"), patient)
		require.ErrorContains(t, err, "another run is taking it, for 10m")
	})
}
