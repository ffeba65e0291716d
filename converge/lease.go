package converge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// LeaseClaim says who wants to change something, and why.
type LeaseClaim struct {
	What    string // what is changed, as in "cluster a100"
	Holder  string // for people: user@machine
	Purpose string // for people: cluster:up

	// Process identifies this process among all others, on all machines; empty: unknown.
	// Dead reports that the process of another claim has certainly ended.
	Process string
	Dead    func(process string) bool
}

// LeaseHolder is a lease that another run holds.
type LeaseHolder struct {
	Holder  string // empty: unknown; the lease may be new or incomplete
	Purpose string
	Since   time.Time // by the holder's clock
}

// String names the holder: teacher@desk since 17:02 (cluster:up).
func (h LeaseHolder) String() string {
	if h.Holder == "" {
		return "an unknown run"
	}
	return fmt.Sprintf("%s since %s (%s)", h.Holder, h.Since.Local().Format("15:04"), h.Purpose)
}

// LeaseHeldError says that another run is changing what this one wants to change.
type LeaseHeldError struct {
	What string
	LeaseHolder
}

// Error names the holder.
func (e *LeaseHeldError) Error() string { return fmt.Sprintf("%s changes %s", e.LeaseHolder, e.What) }

// Transient is true: the other run will end.
func (e *LeaseHeldError) Transient() bool { return true }

// ErrLeaseLost says that another run has taken over, or that somebody has removed the lease.
var ErrLeaseLost = errors.New("this run no longer has the right to change the cluster")

const (
	// beatTime is how often a holder renews the lease, and beatAgain how soon it asks again after a
	// failed attempt. After deadTime without a renewal, as measured by the waiting run's own clock,
	// another run takes over. If the last renewal is older than oldTime, the holder checks
	// the lease before it changes anything.
	beatTime  = 20 * time.Second
	beatAgain = 5 * time.Second
	deadTime  = 90 * time.Second
	oldTime   = 45 * time.Second

	// watchTime is how often a holder looks whether somebody has removed its lease, which it cannot
	// know otherwise, and settleTime how long after that a run may still be at work that has found
	// no lease: a run that makes one changes nothing before.
	watchTime  = 2 * time.Second
	settleTime = 5 * time.Second

	// askTime bounds one request to the store.
	askTime = 30 * time.Second

	// heartbeatTick is how soon a suspended holder notices that time has passed.
	heartbeatTick = time.Second

	// removeAgain is how soon a removal that failed is tried again.
	removeAgain = 500 * time.Millisecond

	pollTime = 5 * time.Second

	// awayTime is how long the store may be unavailable or locked before a waiting run gives
	// up.
	awayTime = 10 * time.Minute
)

// Lease is the right to change something. One run holds it at a time.
type Lease struct {
	store LeaseStore
	claim LeaseClaim
	nonce string
	since time.Time
	made  time.Time     // when it was made, if there was none
	turn  chan struct{} // has one token while the store is asked

	mu      sync.Mutex
	beat    int
	renewed time.Time // by the wall clock, so that a suspended machine notices
	lost    error

	lose context.CancelCauseFunc
	stop func()
	done chan struct{}
}

// AcquireLease waits until no other run holds the lease, and takes it. It calls waiting with the
// holder whenever that changes; an error of waiting ends the wait. The returned context ends
// with [ErrLeaseLost] when another run has taken over.
func AcquireLease(ctx context.Context, store LeaseStore, claim LeaseClaim, waiting func(LeaseHolder) error) (context.Context, *Lease, error) {
	l := &Lease{store: store, claim: claim, nonce: rand.Text(), since: time.Now(), turn: make(chan struct{}, 1), done: make(chan struct{})}
	w := &observedLease{waiting: waiting}
	rule := WaitRule{What: "the right to change " + claim.What, Poll: pollTime, Strict: true}
	err := Until(ctx, rule, func(ctx context.Context) (string, error) {
		return "", w.giveUp(l.askWithLimit(ctx, func(ctx context.Context) error { return l.tryAcquire(ctx, w) }))
	})
	if err != nil && w.last != nil && w.last.Holder != "" && !errors.As(err, new(*LeaseHeldError)) { // whatever came in between, this is why there was a wait
		err = errors.Join(&LeaseHeldError{claim.What, *w.last}, err)
	}
	if err != nil && !errors.As(err, new(*WaitError)) {
		err = fmt.Errorf("%s: %w", rule.What, err)
	}
	if err != nil {
		return ctx, nil, err
	}
	held, lose := context.WithCancelCause(ctx)
	beats, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.lose, l.stop = lose, stop
	go l.heartbeat(beats)
	return held, l, nil
}

// fields are the lines "name: value" of a lease.
func fields(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			out[k] = v
		}
	}
	return out
}

func parseHolder(f map[string]string) LeaseHolder {
	since, _ := time.Parse(time.RFC3339, f["since"])
	return LeaseHolder{Holder: f["holder"], Purpose: f["purpose"], Since: since}
}

// text is the lease, for people and for other runs.
func (l *Lease) text() string {
	return strings.Join([]string{
		"holder: " + l.claim.Holder, "since: " + l.since.UTC().Format(time.RFC3339), "purpose: " + l.claim.Purpose,
		"process: " + l.claim.Process, "run: " + l.nonce, "beat: " + strconv.Itoa(l.beat),
	}, "\n")
}

// tryAcquire makes one attempt to take the lease. A transient error says what to wait for.
func (l *Lease) tryAcquire(ctx context.Context, w *observedLease) error {
	for ctx.Err() == nil {
		s, err := l.store.Read(ctx)
		switch {
		case errors.Is(err, ErrNoLease):
			if err := l.create(ctx); !errors.Is(err, ErrLeaseExists) {
				return err
			}
			if err := w.waiting(LeaseHolder{}); err != nil {
				return Permanent(err)
			}
			return Transient(errors.New("another run is taking it"))
		case err != nil:
			return err
		}
		f := fields(s.Text)
		asked := time.Now()
		if f["run"] == l.nonce { // the answer to our own request was lost: it is as old as it may be
			l.made = asked
			return l.recordRenewal(asked.Add(-oldTime), nil)
		}
		if w.holderEnded(s, f, l.claim) {
			if err := l.replace(ctx, s); !errors.Is(err, ErrLeaseStale) {
				return l.recordRenewal(asked, err)
			}
			continue // another run was quicker
		}
		return w.report(f, l.lockedError(s), l.claim.What)
	}
	return ctx.Err()
}

// lockedError is the error for a lease that cannot be written for a while.
func (l *Lease) lockedError(s LeaseRecord) error {
	if s.Locked == "" {
		return nil
	}
	return Transient(fmt.Errorf("%s is locked (%s)", l.store, s.Locked))
}

// create creates the lease, unless it exists.
func (l *Lease) create(ctx context.Context) error {
	ctx, done := finishing(ctx)
	defer done()
	asked := time.Now()
	err := l.store.Create(ctx, l.text())
	if err == nil {
		l.made = time.Now()
		return l.recordRenewal(asked, nil)
	}
	if s, lookErr := l.store.Read(ctx); lookErr == nil && fields(s.Text)["run"] == l.nonce {
		l.made = time.Now()
		return l.recordRenewal(asked, nil) // its answer was lost
	}
	return err
}

// recordRenewal records that the lease was renewed, not before asked.
func (l *Lease) recordRenewal(asked time.Time, err error) error {
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.renewed = asked.Round(0)
	}
	return err
}
