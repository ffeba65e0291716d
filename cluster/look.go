package cluster

import (
	"context"
	"sync"
	"time"
)

// fresh is how long one look at a list serves all who ask for it. It is short
// enough that nobody acts on old news, and long enough that the steps of a graph,
// which all begin at once, share one request.
const fresh = 2 * time.Second

// look is a read shared by those who need it at about the same time.
type look[T any] struct {
	read func(context.Context) (T, error)

	mu    sync.Mutex
	at    time.Time
	value T
	wait  chan struct{} // not nil while somebody reads
	gen   int           // counts forget, so that a read begun before it is not kept
}

func newLook[T any](read func(context.Context) (T, error)) *look[T] { return &look[T]{read: read} }

// get returns a value at most [fresh] old. Errors are not kept.
func (l *look[T]) get(ctx context.Context) (T, error) {
	for {
		l.mu.Lock()
		if !l.at.IsZero() && time.Since(l.at) < fresh {
			defer l.mu.Unlock()
			return l.value, nil
		}
		wait := l.wait
		if wait == nil {
			return l.fetch(ctx) // unlocks
		}
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			var zero T
			return zero, ctx.Err()
		case <-wait:
		}
	}
}

// fetch reads with l.mu held on entry, not while reading.
func (l *look[T]) fetch(ctx context.Context) (T, error) {
	done, gen := make(chan struct{}), l.gen
	l.wait = done
	l.mu.Unlock()
	value, err := l.read(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wait = nil
	close(done)
	if err == nil && gen == l.gen {
		l.value, l.at = value, time.Now()
	}
	return value, err
}

// forget makes the next get read: something was changed.
func (l *look[T]) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at, l.gen = time.Time{}, l.gen+1
}
