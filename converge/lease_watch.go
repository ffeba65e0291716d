package converge

import (
	"errors"
	"fmt"
	"time"
)

// observedLease is what a waiting run has seen of a lease.
type observedLease struct {
	run, beat string
	at        time.Time // time of the last change; zero: not seen yet
	told      string    // the run that was reported to waiting
	waiting   func(LeaseHolder) error
	last      *LeaseHolder
	away      time.Time // since when the store has not answered or was locked; zero: it answers
}

// holderEnded reports whether the holder has ended. While the lease is locked, the holder cannot
// renew it, so its silence means nothing.
func (w *observedLease) holderEnded(s LeaseRecord, f map[string]string, mine LeaseClaim) bool {
	if w.at.IsZero() || w.run != f["run"] || w.beat != f["beat"] || s.Locked != "" {
		w.run, w.beat, w.at = f["run"], f["beat"], time.Now()
	}
	switch p := f["process"]; {
	case s.Locked != "":
		return false
	case p != "" && mine.Dead != nil && mine.Dead(p):
		return true
	}
	return time.Since(w.at) >= deadTime
}

// report reports a holder, once, and returns what to wait for.
func (w *observedLease) report(f map[string]string, locked error, what string) error {
	held := parseHolder(f)
	if w.run == "" { // it is being made, or was never, or somebody has written there: it is watched as any other
		held = LeaseHolder{}
	}
	if w.last == nil || w.told != w.run {
		w.told = w.run
		if err := w.waiting(held); err != nil {
			return Permanent(err)
		}
	}
	w.last = &held
	if locked != nil {
		return locked
	}
	return &LeaseHeldError{what, held}
}

// giveUp ends a wait without a known holder after a long time: the store does not answer, or
// the lease stays locked.
func (w *observedLease) giveUp(err error) error {
	var held *LeaseHeldError
	if err == nil || errors.As(err, &held) || !IsTransient(err) {
		w.away = time.Time{}
		return err
	}
	w.at = time.Time{} // its holder may not be able to check either
	if w.away.IsZero() {
		w.away = time.Now()
	}
	if gone := time.Since(w.away); gone >= awayTime {
		return Permanent(fmt.Errorf("%w, for %s now", err, gone.Round(time.Second)))
	}
	return err
}
