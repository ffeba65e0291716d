package converge

import (
	"context"
	"sync/atomic"
)

// gate stays closed until Before has returned: no step acts on an earlier observation.
type gate struct {
	before  func(context.Context) error
	cancel  context.CancelCauseFunc // of the run
	taken   atomic.Bool             // a goroutine calls before
	opened  chan struct{}           // closed when it has returned
	refused error                   // what it returned; to be read once opened, or when the run is over
}

func newGate(before func(context.Context) error, cancel context.CancelCauseFunc) *gate {
	g := &gate{before: before, cancel: cancel, opened: make(chan struct{})}
	if before == nil {
		close(g.opened)
	}
	return g
}

// isOpen reports whether later observations may be acted on.
func (g *gate) isOpen() bool {
	select {
	case <-g.opened:
		return g.refused == nil
	default:
		return false
	}
}

// pass calls Before, or waits for the goroutine that does. If Before refuses, the run is
// over.
func (g *gate) pass(ctx context.Context) error {
	if g.taken.CompareAndSwap(false, true) {
		if g.refused = g.before(ctx); g.refused != nil {
			g.cancel(g.refused)
		}
		close(g.opened)
	}
	select {
	case <-g.opened:
	case <-ctx.Done():
	}
	return ctx.Err()
}
