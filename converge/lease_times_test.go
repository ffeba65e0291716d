package converge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
)

// diary is a way that notes what is asked, and when.
type diary struct {
	*way
	begin time.Time
	mu    sync.Mutex
	noted []string
	fails func(what string) error // in place of an answer; nil: none
	slow  atomic.Int64            // how long a renewal takes, as a time.Duration
}

func diaryOf(s *shelf) *diary { return &diary{way: open(s), begin: time.Now()} }

func (d *diary) note(what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.noted = append(d.noted, fmt.Sprintf("%s %s", what, time.Since(d.begin)))
	if d.fails == nil {
		return nil
	}
	return d.fails(what)
}

// take returns what was noted since it was last called.
func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.noted
	d.noted = nil
	return out
}

func (d *diary) failing(how func(what string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails = how
}

func (d *diary) Read(ctx context.Context) (converge.LeaseRecord, error) {
	if err := d.note("look"); err != nil {
		return converge.LeaseRecord{}, err
	}
	return d.way.Read(ctx)
}

func (d *diary) Create(ctx context.Context, text string) error {
	if err := d.note("make"); err != nil {
		return err
	}
	return d.way.Create(ctx, text)
}

func (d *diary) Replace(ctx context.Context, over converge.LeaseRecord, text string) error {
	if err := d.note("renew"); err != nil {
		return err
	}
	time.Sleep(time.Duration(d.slow.Load()))
	return d.way.Replace(ctx, over, text)
}

func (d *diary) Remove(ctx context.Context, over converge.LeaseRecord) error {
	if err := d.note("remove"); err != nil {
		return err
	}
	return d.way.Remove(ctx, over)
}

// A holder looks every 2 s and renews every 20 s. After a failure it asks every 5 s, and no sooner.
func TestWhenAHolderAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := diaryOf(&shelf{})
		_, l, err := converge.AcquireLease(t.Context(), d, claim("teacher"), patient)
		require.NoError(t, err)
		time.Sleep(60*time.Second + time.Millisecond)
		want := []string{"look 0s", "make 0s"}
		for at := 2 * time.Second; at <= time.Minute; at += 2 * time.Second {
			want = append(want, fmt.Sprintf("look %s", at))
			if at%(20*time.Second) == 0 {
				want = append(want, fmt.Sprintf("renew %s", at))
			}
		}
		assert.Equal(t, want, d.take())
		assert.Contains(t, d.content(), "beat: 3")

		d.failing(func(string) error { return errors.New("no route to host") })
		time.Sleep(45*time.Second - 2*time.Millisecond) // the last renewal is 45 s old less a moment
		assert.Equal(t, []string{"look 1m2s", "look 1m7s", "look 1m12s", "look 1m17s", "look 1m22s", "look 1m27s", "look 1m32s", "look 1m37s", "look 1m42s"}, d.take())
		d.failing(nil)
		time.Sleep(time.Millisecond)
		require.NoError(t, l.Check(t.Context()))
		assert.Equal(t, []string{"look 1m45s"}, d.take(), "it is not too old yet")
		time.Sleep(time.Millisecond)
		d.slow.Store(int64(99 * time.Millisecond))
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { assert.NoError(t, l.Check(t.Context())) })
		}
		both.Wait()
		assert.Equal(t, []string{"look 1m45.001s", "renew 1m45.001s"}, d.take(), "once")
		require.NoError(t, l.Release(t.Context()))
		assert.Equal(t, []string{"look 1m45.1s", "remove 1m45.1s"}, d.take())
	})
}

// A renewal is due between two looks, too.
func TestARenewalBetweenTwoLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := diaryOf(&shelf{})
		_, l, err := converge.AcquireLease(t.Context(), d, claim("teacher"), patient)
		require.NoError(t, err)
		d.failing(func(string) error { return errors.New("no route to host") })
		time.Sleep(46 * time.Second)
		d.failing(nil)
		require.NoError(t, l.Check(t.Context()))
		d.take()
		time.Sleep(20*time.Second + time.Millisecond)
		asked := d.take()
		assert.Equal(t, []string{"look 1m5s", "look 1m6s", "renew 1m6s"}, asked[len(asked)-3:])
		require.NoError(t, l.Release(t.Context()))
	})
}

// Who makes a lease where there is none looks again when a run that has lost one must have noticed.
func TestWhoMakesALeaseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := diaryOf(&shelf{})
		_, l, err := converge.AcquireLease(t.Context(), d, claim("teacher"), patient)
		require.NoError(t, err)
		d.take()
		require.NoError(t, l.Check(t.Context()))
		assert.Equal(t, 5*time.Second, time.Since(d.begin))
		assert.Equal(t, []string{"look 0s", "look 2s", "look 4s", "look 5s"}, d.take())
		require.NoError(t, l.Check(t.Context()))
		assert.Equal(t, []string{"look 5s"}, d.take(), "it has waited")
		require.NoError(t, l.Release(t.Context()))

		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, l, err = converge.AcquireLease(t.Context(), open(&shelf{}), claim("teacher"), patient)
		require.NoError(t, err)
		require.ErrorIs(t, l.Check(ctx), context.DeadlineExceeded)
		require.NoError(t, l.Release(t.Context()))

		s := &shelf{}
		_, l, err = converge.AcquireLease(t.Context(), open(s), claim("teacher"), patient)
		require.NoError(t, err)
		go func() {
			time.Sleep(4500 * time.Millisecond) // after its look at 4 s
			s.remove()
		}()
		require.ErrorIs(t, l.Check(t.Context()), converge.ErrLeaseLost)
		require.NoError(t, l.Release(t.Context()))

		d = diaryOf(&shelf{})
		held, l, err := converge.AcquireLease(t.Context(), d, claim("teacher"), patient)
		require.NoError(t, err)
		d.remove()
		<-held.Done()
		d.take()
		require.NoError(t, l.Release(t.Context()))
		assert.Empty(t, d.take(), "what is lost is not asked about")
	})
}

// A silent holder's lease is taken over after 90 s of silence, to the second, and a beat begins them again.
func TestWhenASilentHolderIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, other := range []string{"", "beat: 8", "run: third\nbeat: 7"} {
			s := &shelf{there: true, text: "holder: teacher\nrun: another\nbeat: 7"}
			begin, want := time.Now(), 90*time.Second
			if other != "" {
				want += 30 * time.Second
				go func() {
					time.Sleep(29 * time.Second)
					s.mu.Lock()
					defer s.mu.Unlock()
					s.text, s.version = "holder: teacher\nrun: another\n"+other, s.version+1
				}()
			}
			_, l, err := converge.AcquireLease(t.Context(), open(s), claim("student1"), patient)
			require.NoError(t, err)
			assert.Equal(t, want, time.Since(begin), other)
			require.NoError(t, l.Release(t.Context()))
		}
	})
}

// A removal that fails is tried three times, unless it fails for good.
func TestHowOftenARemovalIsTried(t *testing.T) {
	for _, x := range []struct {
		fails, tries int
		err          error
		released     bool
	}{
		{1, 2, errors.New("no route to host"), true}, {2, 3, errors.New("no route to host"), true}, {9, 3, errors.New("no route to host"), false},
		{9, 1, converge.Permanent(errors.New("forbidden")), false}, {9, 1, fmt.Errorf("%w: gone", converge.ErrLeaseLost), true},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := diaryOf(&shelf{})
			_, l, err := converge.AcquireLease(t.Context(), d, claim("teacher"), patient)
			require.NoError(t, err)
			left := x.fails
			d.failing(func(what string) error {
				if what != "remove" || left == 0 {
					return nil
				}
				left--
				return x.err
			})
			d.take()
			err = l.Release(t.Context())
			removes := slices.DeleteFunc(d.take(), func(line string) bool { return line[:4] == "look" })
			assert.Len(t, removes, x.tries, "%+v", x)
			assert.Equal(t, time.Duration(x.tries-1)*500*time.Millisecond, time.Since(d.begin), "%+v", x)
			if x.released {
				require.NoError(t, err, "%+v", x)
			} else {
				require.ErrorIs(t, err, x.err)
				require.ErrorContains(t, err, "the lease of cluster home (the shelf) stays until the next run, and others wait for it for 1m30s")
			}
		})
	}
}
