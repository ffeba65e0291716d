package converge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// heartbeat renews the lease until it ends, and looks in between whether it is still there. It reads the
// clock often: a process that was suspended for long may have lost the lease.
func (l *Lease) heartbeat(ctx context.Context) {
	defer close(l.done)
	failed, looked := time.Time{}, time.Now()
	for Pause(ctx, heartbeatTick) == nil {
		if time.Since(failed) < beatAgain || l.age() < beatTime && time.Since(looked) < watchTime {
			continue
		}
		ask := l.verify
		if l.age() >= beatTime {
			ask = func(ctx context.Context) error { return l.show(ctx, beatTime) }
		}
		looked = time.Now()
		err := l.askStore(ctx, ask)
		switch {
		case errors.Is(err, ErrLeaseLost):
			return
		case err != nil:
			failed = time.Now()
		}
	}
}

// age is the time since the last renewal.
func (l *Lease) age() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := time.Now().Round(0).Sub(l.renewed); d >= 0 {
		return d
	}
	return deadTime // the clock was put back
}

func (l *Lease) isLost() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// Check returns [ErrLeaseLost] when another run has taken over, or somebody has removed the lease. Call
// it before each change: it asks the store, for neither a clock nor the time since the last renewal
// can tell, as in a machine that was paused. After a sleep of this machine, or while the store did
// not answer, it also renews the lease. A lease that was made where there was none counts only
// when a run whose lease was removed must have noticed.
func (l *Lease) Check(ctx context.Context) error {
	if err := l.isLost(); err != nil {
		return err
	}
	if l.age() > oldTime {
		return l.askStore(ctx, func(ctx context.Context) error { return l.show(ctx, oldTime) })
	}
	if err := l.askStore(ctx, l.verify); err != nil || l.made.IsZero() {
		return err
	}
	if rest := settleTime - time.Since(l.made); rest > 0 {
		if err := Pause(ctx, rest); err != nil {
			return err
		}
		return l.askStore(ctx, l.verify)
	}
	return nil
}

// askStore asks the store, unless another goroutine of this run does.
func (l *Lease) askStore(ctx context.Context, what func(context.Context) error) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return l.askWithLimit(ctx, what)
}

// askWithLimit limits one request to the store: a dead connection may never answer.
func (l *Lease) askWithLimit(ctx context.Context, ask func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	err := ask(limited)
	if limited.Err() != nil && ctx.Err() == nil && errors.Is(err, limited.Err()) {
		return Transient(fmt.Errorf("%s does not answer within %s: %w", l.store, askTime, err))
	}
	return err
}

// verify checks that the lease is still this run's.
func (l *Lease) verify(ctx context.Context) error {
	_, err := l.read(ctx)
	return err
}

// read reads the lease, and ends the run if it is not this run's.
func (l *Lease) read(ctx context.Context) (LeaseRecord, error) {
	if err := l.isLost(); err != nil {
		return LeaseRecord{}, err
	}
	s, err := l.store.Read(ctx)
	f := fields(s.Text)
	switch {
	case errors.Is(err, ErrNoLease):
		return s, l.end(fmt.Errorf("%w: %s has been destroyed", ErrLeaseLost, l.store))
	case err == nil && f["run"] != l.nonce:
		return s, l.end(fmt.Errorf("%w: %s has taken over", ErrLeaseLost, parseHolder(f)))
	}
	return s, err
}

// show is one attempt to renew the lease: to raise its number.
func (l *Lease) show(ctx context.Context, older time.Duration) error {
	for l.isLost() == nil && l.age() >= older {
		s, err := l.read(ctx)
		if err == nil {
			err = l.lockedError(s)
		}
		if err != nil {
			return err
		}
		l.beat++
		asked := time.Now()
		if err := l.replace(ctx, s); !errors.Is(err, ErrLeaseStale) {
			return l.recordRenewal(asked, err)
		}
	}
	return l.isLost()
}

// graceTime is how long a request that changes the lease may still take when its run ends.
const graceTime = 3 * time.Second

// finishing returns a context that ends graceTime after ctx. A request that is cut off may be
// carried out later: it would make a lease that nobody removes, or change one between the removal's
// look and its request.
func finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		_ = Pause(late, graceTime)
		cancel()
	})
	return late, func() { stop(); cancel() }
}

// replace writes this run's lease over the one that was read.
func (l *Lease) replace(ctx context.Context, over LeaseRecord) error {
	ctx, done := finishing(ctx)
	defer done()
	return l.store.Replace(ctx, over, l.text())
}

// end ends the lease and all work under it.
func (l *Lease) end(why error) error {
	l.mu.Lock()
	l.lost = why
	l.mu.Unlock()
	l.lose(why)
	return why
}

// remove is one attempt to remove the lease.
func (l *Lease) remove(ctx context.Context) error {
	for l.isLost() == nil && ctx.Err() == nil {
		s, err := l.store.Read(ctx)
		switch f := fields(s.Text); {
		case errors.Is(err, ErrNoLease):
			return nil
		case err != nil:
			return err
		case f["run"] != l.nonce:
			return l.end(fmt.Errorf("%w: %s has taken over", ErrLeaseLost, parseHolder(f)))
		case s.Locked != "":
			return l.lockedError(s)
		}
		if err := l.store.Remove(ctx, s); !errors.Is(err, ErrLeaseStale) { // an earlier request of ours, or another run: look again
			return err
		}
	}
	return cmp.Or(l.isLost(), ctx.Err())
}

// removeTries is how many errors that do not pass by themselves end a Release. One lost answer, or
// one error of an overloaded host, would otherwise leave the lease to the others, who wait for it.
const removeTries = 3

// Release removes the lease, unless another run holds it.
func (l *Lease) Release(ctx context.Context) error {
	l.stop()
	<-l.done
	tries := 0
	rule := WaitRule{What: "releasing the right to change " + l.claim.What, Poll: removeAgain, Strict: true, OnChange: func(string) {}}
	err := Until(ctx, rule, func(ctx context.Context) (string, error) {
		err := l.askWithLimit(ctx, l.remove)
		if tries++; err != nil && tries < removeTries && !IsPermanent(err) && !errors.Is(err, ErrLeaseLost) {
			err = Transient(err)
		}
		return "", err
	})
	if err == nil || errors.Is(err, ErrLeaseLost) {
		return nil
	}
	return fmt.Errorf("the lease of %s (%s) stays until the next run, and others wait for it for %s: %w", l.claim.What, l.store, deadTime, err)
}
