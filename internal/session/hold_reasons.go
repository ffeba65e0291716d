package session

import (
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/cps-gpu/homelab/converge"
)

// A run that has not got a right says after waitSilence what it waits for, and again each
// waitRepeat.
const (
	waitSilence = 5 * time.Second
	waitRepeat  = time.Minute
)

// reasons prints why a run waits for a right. The holder is printed elsewhere.
type reasons struct {
	say  func(format string, args ...any)
	what string // the right

	mu   sync.Mutex
	told map[string]bool
	last string      // what the run waits for
	next *time.Timer // says that; nil: the wait is over
}

// reportReasons prints why a run waits for a right, until end is called.
func (r *leaseHold) reportReasons(t *heldLease) *reasons {
	w := &reasons{say: r.s.Printf, what: "the right to change " + t.what, told: map[string]bool{}, last: t.store.String() + " does not answer yet"}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = time.AfterFunc(waitSilence, w.tell)
	return w
}

// listen prints each reason once, and then from time to time. Reasons that differ only in numbers,
// such as ports of connections, count as the same.
func (w *reasons) listen(u converge.ProgressUpdate) {
	reason, waits := strings.CutPrefix(u.Message, w.what+": ")
	if !waits {
		return
	}
	same := strings.Map(func(c rune) rune {
		if unicode.IsDigit(c) {
			return -1
		}
		return c
	}, reason)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.next == nil:
	case strings.HasSuffix(reason, strings.TrimPrefix(w.what, "the right to change")): // its holder
		w.next.Stop()
	case w.told[same]:
		w.last = reason
	default:
		w.told[same], w.last = true, reason
		w.next.Reset(0)
	}
}

// tell prints what the run waits for, and will do so again.
func (w *reasons) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next != nil {
		w.say("Waiting for %s: %s", w.what, w.last)
		w.next.Reset(waitRepeat)
	}
}

// end ends the wait.
func (w *reasons) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next.Stop()
	w.next = nil
}
