package wait

import (
	"context"
	"sync"
	"time"
)

// tick is how often running time is added up, for limits that are long enough for that.
const tick = 5 * time.Second

// Within bounds ctx by a time in which the program runs: time in which it was stopped,
// or its machine slept, does not count, but for one twentieth of limit at most, or five
// seconds. The cause of the context, once it is over, is cause.
func Within(ctx context.Context, limit time.Duration, cause error) (context.Context, context.CancelFunc) {
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
	step        time.Duration // that timer was set to
	from        time.Time     // when it was
	timer       *time.Timer
	over        func()
}

// add counts what has gone by since the last time.
func (c *clock) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left <= 0 {
		return
	}
	now := time.Now()
	c.left -= ran(now.Sub(c.from), c.step)
	if c.left <= 0 {
		c.over()
		return
	}
	c.from, c.step = now, min(c.every, c.left)
	c.timer.Reset(c.step)
}

// ran is how much of what went by while a timer was waited for the program has run: a
// timer that comes twice as late as it should comes after a stop.
func ran(gone, timer time.Duration) time.Duration {
	if gone > 2*timer {
		return timer
	}
	return gone
}
