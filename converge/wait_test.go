package converge_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
)

func ExampleUntil() {
	looks := 0
	err := converge.Until(context.Background(), converge.WaitRule{What: "waiting for the lamp", Limit: time.Minute, Poll: time.Millisecond},
		func(context.Context) (missing string, err error) {
			if looks++; looks < 3 {
				return "it is dark", nil
			}
			return "", nil
		})
	fmt.Println(looks, err)
	// Output: 3 <nil>
}

// answer is what one look says.
type answer struct {
	missing string
	err     error
}

type refused struct{ passing bool }

// allowed is as errors of Proxmox and Kubernetes are: it could be for good, and is not.
type allowed struct{ within error }

func (allowed) Error() string   { return "503" }
func (allowed) Permanent() bool { return false }
func (a allowed) Unwrap() error { return a.within }

func (refused) Error() string     { return "connection refused\nby the firewall" }
func (r refused) Transient() bool { return r.passing }

func TestUntil(t *testing.T) {
	fuse := errors.New("fuse blown")
	for name, tt := range map[string]struct {
		looks  []answer // the last one forever
		limit  time.Duration
		late   string
		hint   string
		strict bool
		want   string
		is     error
		said   []string
		after  time.Duration
	}{
		"there":              {looks: []answer{{}}},
		"soon":               {looks: []answer{{"dark", nil}, {"dim", nil}, {"dim", nil}, {}}, said: []string{"lamp: dark", "lamp: dim"}, after: 3 * time.Second},
		"what passes":        {looks: []answer{{"", refused{true}}, {}}, said: []string{"lamp: connection refused"}, after: time.Second},
		"what nobody knows":  {looks: []answer{{"", fuse}, {}}, said: []string{"lamp: fuse blown"}, after: time.Second},
		"for good":           {looks: []answer{{"dark", nil}, {"", converge.Permanent(fuse)}}, want: "fuse blown", is: fuse, said: []string{"lamp: dark"}, after: time.Second},
		"strict":             {looks: []answer{{"", refused{true}}, {"", fuse}}, strict: true, want: "fuse blown", is: fuse, said: []string{"lamp: connection refused"}, after: time.Second},
		"too late":           {looks: []answer{{"dark", nil}}, limit: 10 * time.Second, want: "lamp: not within 10s: dark", said: []string{"lamp: dark"}, after: 10 * time.Second},
		"too late, said why": {looks: []answer{{"dark", nil}}, limit: 10 * time.Second, late: "fuse blown", hint: "look at it", want: "fuse blown within 10s: dark\n  look at it", said: []string{"lamp: dark"}, after: 10 * time.Second},
		"too late, with the last error": {looks: []answer{{"dark", nil}, {"", refused{true}}}, limit: 10 * time.Second, late: "fuse blown",
			want: "fuse blown within 10s: connection refused\nby the firewall", is: refused{true}, said: []string{"lamp: dark", "lamp: connection refused"}, after: 10 * time.Second},
		"interrupted": {looks: []answer{{"", refused{true}}}, want: "lamp: connection refused\nby the firewall: context canceled",
			is: context.Canceled, said: []string{"lamp: connection refused"}, after: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Hour, cancel)
				var said []string
				ctx = converge.WithProgress(ctx, func(u converge.ProgressUpdate) { said = append(said, u.Message) })
				start, i := time.Now(), 0
				err := converge.Until(ctx, converge.WaitRule{What: "lamp", Limit: tt.limit, TimeoutText: tt.late, Hint: tt.hint, Strict: tt.strict, Poll: time.Second}, func(context.Context) (string, error) {
					a := tt.looks[min(i, len(tt.looks)-1)]
					i++
					return a.missing, a.err
				})
				assert.Equal(t, tt.after, time.Since(start))
				assert.Equal(t, tt.said, said)
				if tt.want == "" {
					assert.NoError(t, err)
					return
				}
				require.EqualError(t, err, tt.want)
				if tt.is != nil {
					assert.ErrorIs(t, err, tt.is)
				}
				assert.False(t, converge.IsTransient(err), "its time is over")
			})
		})
	}
}

// A look that the end of the wait cuts short says nothing; what the one before has seen counts.
func TestTheLastWordIsOfAWholeLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		err := converge.Until(t.Context(), converge.WaitRule{What: "lamp", Limit: 10 * time.Second}, func(ctx context.Context) (string, error) {
			if looks++; looks == 1 {
				return "dark", nil
			}
			<-ctx.Done()
			return "", ctx.Err()
		})
		assert.EqualError(t, err, "lamp: not within 10s: dark")
	})
}

// What goes wrong in a look in which the wait ends is no less wrong for that.
func TestAnErrorAtTheEndIsKept(t *testing.T) {
	full := errors.New("no space left on device")
	for what, wrong := range map[string]func(ctx context.Context) error{
		"alone":           func(context.Context) error { return full },
		"within another":  func(context.Context) error { return fmt.Errorf("lamp.conf: %w", full) },
		"before its time": func(context.Context) error { return converge.Transient(full) },
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			looks := 0
			err := converge.Until(ctx, converge.WaitRule{What: "lamp", Strict: true}, func(ctx context.Context) (string, error) {
				if looks++; looks == 1 {
					return "dark", nil
				}
				<-ctx.Done()
				return "", wrong(ctx)
			})
			require.ErrorIs(t, err, full, what)
			assert.ErrorIs(t, err, context.DeadlineExceeded, what)
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	late := errors.New("not within 30s")
	cancel(late)
	for _, end := range []error{nil, context.Canceled, &net.OpError{Op: "dial", Net: "tcp", Err: net.ErrClosed}, fmt.Errorf("get: %w", errors.Join(full, late))} {
		assert.True(t, converge.CutShort(ctx, end), "%v", end)
		assert.False(t, converge.CutShort(t.Context(), end), "%v", end)
	}
	assert.False(t, converge.CutShort(ctx, full))
	assert.NoError(t, converge.Besides(fmt.Errorf("a: %w", errors.Join(context.Canceled, fmt.Errorf("b: %w", context.DeadlineExceeded)))))
	assert.NoError(t, converge.Besides(nil))
	assert.Error(t, converge.Besides(errors.Join(context.Canceled, full)))
}

// What was seen before the wait is not checked again at once.
func TestSeenAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := converge.Until(t.Context(), converge.WaitRule{What: "lamp", Last: "dark", Poll: time.Second}, func(context.Context) (string, error) { return "", nil })
		require.NoError(t, err)
		assert.Equal(t, time.Second, time.Since(start))
	})
}

// A limit is as long as it says, whatever its length, and leaves nothing behind.
func TestWithinIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		why := errors.New("too late")
		for range 200 {
			limit := time.Duration(r.Int64N(int64(20 * time.Minute)))
			start := time.Now()
			ctx, cancel := converge.WithRunningTimeout(t.Context(), limit, why)
			<-ctx.Done()
			require.Equal(t, limit, time.Since(start))
			require.Equal(t, why, context.Cause(ctx))
			cancel()

			ctx, cancel = converge.WithRunningTimeout(t.Context(), limit+time.Second, why)
			cancel()
			require.Equal(t, context.Canceled, context.Cause(ctx))
		}
	})
}

func TestKinds(t *testing.T) {
	fuse := errors.New("fuse blown")
	assert.NoError(t, converge.Permanent(nil))
	assert.NoError(t, converge.Transient(nil))
	assert.ErrorIs(t, converge.Transient(fuse), fuse)
	for _, tt := range []struct {
		err                error
		passing, permanent bool
	}{
		{fuse, false, false},
		{refused{true}, true, false},
		{refused{false}, false, false},
		{fmt.Errorf("a: %w", refused{true}), true, false},
		{errors.Join(refused{true}, refused{true}), true, false},
		{errors.Join(refused{true}, fuse), false, false},
		{converge.Permanent(refused{true}), false, true},
		{converge.Transient(fuse), true, false},
		{fmt.Errorf("a: %w", converge.Transient(fuse)), true, false},
		{converge.Transient(converge.Permanent(fuse)), false, true},
		{fmt.Errorf("a: %w", converge.Permanent(fuse)), false, true},
		{allowed{}, false, false},
		{errors.Join(allowed{}, converge.Permanent(fuse)), false, true},
		{errors.Join(converge.Permanent(fuse), allowed{}), false, true},
		{errors.Join(refused{true}, fmt.Errorf("b: %w", errors.Join(allowed{}, converge.Permanent(fuse)))), false, true},
		{allowed{within: converge.Permanent(fuse)}, false, true},
	} {
		assert.Equal(t, tt.passing, converge.IsTransient(tt.err), "%v", tt.err)
		assert.Equal(t, tt.permanent, converge.IsPermanent(tt.err), "%v", tt.err)
	}
}
