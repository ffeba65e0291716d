package faults

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cps-gpu/homelab/internal/share"
)

// ErrInjected is the error of a request that is lost.
var ErrInjected = errors.New("injected fault")

// Kind says how a request fails.
type Kind string

// The kinds.
const (
	Lost     Kind = "lost"        // it does not arrive
	Unheard  Kind = "unheard"     // it is carried out, and the answer does not arrive
	Refused  Kind = "refused"     // it arrives, and the answer is no
	CutShort Kind = "cut short"   // half of the answer arrives, as if it were whole
	Outage   Kind = "outage from" // it is lost, and all that follow are
)

// Faults has the faults of one run.
type Faults struct {
	mu       sync.Mutex
	kind     Kind
	at       int // the number of the request that fails, from 1; 0: none does
	seen     []string
	programs *programs // programs of scripts, whose calls count instead; nil: none
}

// begin resets the count, and fails request at.
func (f *Faults) begin(t testing.TB, at int) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen, f.at = nil, at
	if f.programs != nil {
		f.programs.set(t, f.kind, at)
	}
}

// take counts a request, and returns how it fails; "" if it does not.
func (f *Faults) take(what string) Kind {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, what)
	n := len(f.seen)
	if f.at == 0 || n < f.at || n > f.at && f.kind != Outage {
		return ""
	}
	if f.kind == Outage {
		return Lost
	}
	return f.kind
}

// requests returns the number of requests so far.
func (f *Faults) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.programs != nil {
		return f.programs.calls()
	}
	return slices.Clone(f.seen)
}

// Case is an operation on a world of its own.
type Case struct {
	// Do is the operation. All its requests go through the Faults of its world.
	Do func() error
	// Done says what the operation should have done and did not; "" for nothing. It is called
	// whenever Do returned nil. May be nil.
	Done func() string
	// Failed says what is wrong after Do has failed, such as an incomplete object; "" for
	// nothing. May be nil.
	Failed func(err error) string
	// Again runs after a failure, without faults; nil means Do. It must succeed.
	Again func() error
	// Told reports whether an error contains its cause; nil: it wraps ErrInjected, or repeats
	// its text.
	Told func(err error) bool
	// Patient says that the operation retries, so it may succeed despite a fault.
	Patient bool
	// Harmless are parts of the names of requests whose failure does not fail the operation.
	Harmless []string
}

// Each runs a case without faults, and then once for every request and kind. world creates a
// new world whose requests go through f, and calls use with the case; it may do so in a
// testing/synctest bubble.
func Each(t *testing.T, kinds []Kind, world func(t *testing.T, f *Faults, use func(*testing.T, Case))) {
	t.Helper()
	all := &Faults{}
	world(t, all, func(t *testing.T, c Case) {
		all.begin(t, 0) // without the requests that created the world
		if err := c.Do(); err != nil {
			t.Fatalf("undisturbed: %v", err)
		}
		c.checkDone(t, "undisturbed")
	})
	n := len(all.requests())
	if n == 0 {
		t.Fatal("no request went through the faults")
	}
	for _, kind := range kinds {
		mine := share.Start(t, "fault: "+string(kind))
		for i := 1; i <= n && !t.Failed(); i++ { // one is enough to read
			if !mine.Next() {
				continue
			}
			f := &Faults{kind: kind}
			world(t, f, func(t *testing.T, c Case) {
				f.begin(t, i)
				c.judge(t, f, i)
			})
		}
	}
	t.Logf("%d requests, failed as %v", n, kinds)
}

// judge runs the operation with a fault at request i, and checks the result.
func (c Case) judge(t *testing.T, f *Faults, i int) {
	t.Helper()
	err := c.Do()
	what, kind := "none", f.kind
	if seen := f.requests(); len(seen) >= i {
		what = seen[i-1]
	}
	where := fmt.Sprintf("%s request %d, %s", kind, i, what)
	harmless := what == "none" || slices.ContainsFunc(c.Harmless, func(part string) bool { return strings.Contains(what, part) })
	f.begin(t, 0)
	switch {
	case err == nil:
		if !c.Patient && !harmless {
			t.Errorf("%s: it is called a success", where)
		}
		c.checkDone(t, where)
		return
	case kind != CutShort && !c.told(err):
		t.Errorf("%s: the cause is lost: %v", where, err)
	}
	if c.Failed != nil {
		if wrong := c.Failed(err); wrong != "" {
			t.Errorf("%s: after %v: %s", where, err, wrong)
		}
	}
	again := c.Again
	if again == nil {
		again = c.Do
	}
	if err := again(); err != nil {
		t.Errorf("%s: doing it again: %v", where, err)
		return
	}
	c.checkDone(t, where+", and again")
}

func (c Case) told(err error) bool {
	if c.Told != nil {
		return c.Told(err)
	}
	return errors.Is(err, ErrInjected) || strings.Contains(err.Error(), ErrInjected.Error())
}

func (c Case) checkDone(t *testing.T, where string) {
	t.Helper()
	if c.Done == nil {
		return
	}
	if missing := c.Done(); missing != "" {
		t.Errorf("%s: it is called a success, and %s", where, missing)
	}
}
