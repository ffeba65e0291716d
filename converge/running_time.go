package converge

import (
	"context"
	"sync"
	"time"
)

// tick is how often running time is counted, for limits that are long enough.
const tick = 5 * time.Second

// WithRunningTimeout limits ctx to an amount of running time: time in which the program was stopped or its
// machine slept does not count, except for at most one twentieth of limit, or five seconds.
// When the limit is over, the context's cause is cause.
func WithRunningTimeout(ctx context.Context, limit time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	c := &clock{left: limit, every: max(min(limit/20, tick), time.Millisecond), from: time.Now()}
	c.over = func() { end(cause) }
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step = min(c.every, c.left)
	c.timer = time.AfterFunc(c.step, c.add)
	return ctx, func() {
		end(nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.timer.Stop()
		c.left = 0
	}
}

// clock counts the time in which the program runs.
type clock struct {
	mu          sync.Mutex
	left, every time.Duration
	step        time.Duration // the timer's duration
	from        time.Time     // when it was set
	timer       *time.Timer
	over        func()
}

// add counts the time since its last call.
func (c *clock) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left <= 0 {
		return
	}
	now := time.Now()
	c.left -= runningTime(now.Sub(c.from), c.step)
	if c.left <= 0 {
		c.over()
		return
	}
	c.from, c.step = now, min(c.every, c.left)
	c.timer.Reset(c.step)
}

// runningTime is the running time within the time that passed while waiting for a timer: if the timer
// took twice as long as set, the program was stopped.
func runningTime(gone, timer time.Duration) time.Duration {
	if gone > 2*timer {
		return timer
	}
	return gone
}
