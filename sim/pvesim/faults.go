package pvesim

import (
	"cmp"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/fault"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

type (
	// Rule makes something go wrong. It says which requests it is for (all that is
	// set must hold), which of those by number, and what happens to them.
	//
	// Without After the host does nothing and only the rule's effect is seen; with
	// After the work is done, and what is lost or replaced is the answer.
	Rule = fault.Rule
	// Fault is a [Rule] in force.
	Fault = world.Fault
	// Request is one request as it was served.
	Request = fault.Request
)

// Killed is the exit status of a task whose process died. As the TaskError of a
// [Rule] it leaves behind what the request had prepared, such as the empty and
// locked configuration of a machine that was to be created.
const Killed = fault.Killed

// Fail puts a rule in force. Of several rules that match a request the one that
// came first counts. It panics when Path is not a regular expression, or can match
// no path of the API. In a test use [Sim.Expect], which notices a rule that no
// request met.
func (s *Sim) Fail(r Rule) *Fault { return s.state.Inject(r) }

// TB is the part of testing.TB that [Sim.Expect] needs.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
}

// Expect puts a rule in force as [Sim.Fail] does, and fails the test at its end if
// no request met the rule.
func (s *Sim) Expect(t TB, r Rule) *Fault {
	t.Helper()
	f := s.Fail(r)
	t.Cleanup(func() {
		if f.Hits() == 0 {
			t.Errorf("pvesim: no request met the rule %s %s", cmp.Or(r.Method, "*"), cmp.Or(r.Path, ".*"))
		}
	})
	return f
}

// Requests returns what has been asked so far, in order of arrival.
func (s *Sim) Requests() []Request {
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	out := make([]Request, len(s.state.Requests))
	for i, r := range s.state.Requests {
		out[i] = *r
	}
	return out
}

// ForgetRequests empties the list of requests.
func (s *Sim) ForgetRequests() {
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	s.state.Requests = nil
}
