package pvesim

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
)

// Rule makes something go wrong. It says which requests it is for (all that is
// set must hold), which of those by number, and what happens to them.
//
// Without After the host does nothing and only the rule's effect is seen; with
// After the work is done, and what is lost or replaced is the answer.
type Rule struct {
	Method   string             // GET, POST, …; empty is any
	Path     string             // a regular expression over the whole path below /api2/json; empty is any
	Mutating bool               // only what is neither GET nor a login
	When     func(Request) bool // further conditions

	Skip  int // the first so many matches pass unharmed
	Times int // so many are hit after that; 0 is one, negative is all

	After bool // the work is done all the same

	Delay   time.Duration     // before anything else; from 30 s on the proxy gives up with 596 while the work goes on
	Drop    bool              // the connection ends without an answer
	Status  int               // answered with this status …
	Message string            // … this text in status line and body …
	Errors  map[string]string // … and these errors by parameter
	Body    *string           // the raw body with Status, where Message would not do
	Data    json.RawMessage   // answered 200 with this as "data": null for a lost UPID, a field of the wrong type

	TaskError    string        // the request's task fails with this, under HTTP 200; with [Killed], its process dies
	TaskWarnings int           // its task does its work and ends with "WARNINGS: n"
	TaskDelay    time.Duration // its task takes this much longer

	Guest *guest.Faults // for the guest that the request's task starts
}

// Request is one request as it was served.
type Request struct {
	Time     time.Time
	Method   string
	Path     string     // below /api2/json, decoded
	Route    string     // the method in the schema's terms: GET /nodes/{node}/qemu; empty where there is none
	Params   url.Values // without secrets
	User     string     // user or token
	Status   int        // 0 for a dropped connection
	Message  string     // of an error
	Mutating bool       // neither GET nor a login
	Faulted  bool       // a Rule had a hand in it
}

// leanRequests is how many of them a lean Sim remembers.
const leanRequests = 1000

// Fault is a Rule in force.
type Fault struct {
	s     *Sim
	rule  Rule
	path  *regexp.Regexp
	seen  int
	hits  int
	ended bool
}

// Fail puts a rule in force. Of several rules that match a request the one that
// came first counts. It panics when Path is not a regular expression.
func (s *Sim) Fail(r Rule) *Fault {
	if r.Times == 0 {
		r.Times = 1
	}
	f := &Fault{s: s, rule: r, path: regexp.MustCompile("^(?:" + r.Path + ")$")}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, f)
	return f
}

// Hits returns how often the rule has had its effect.
func (f *Fault) Hits() int {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	return f.hits
}

// Remove takes the rule out of force.
func (f *Fault) Remove() {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.ended = true
	f.s.rules = slices.DeleteFunc(f.s.rules, func(o *Fault) bool { return o == f })
}

func (f *Fault) matches(r Request) bool {
	return (f.rule.Method == "" || f.rule.Method == r.Method) &&
		(f.rule.Path == "" || f.path.MatchString(r.Path)) &&
		(!f.rule.Mutating || r.Mutating) &&
		(f.rule.When == nil || f.rule.When(r))
}

// faultFor returns the rule that this request falls under, and counts.
func (s *Sim) faultFor(r Request) *Fault {
	var hit *Fault
	for _, f := range s.rules {
		if !f.matches(r) {
			continue
		}
		f.seen++
		due := f.seen > f.rule.Skip && (f.rule.Times < 0 || f.hits < f.rule.Times)
		if due && hit == nil {
			f.hits++
			hit = f
		}
	}
	return hit
}

// Requests returns what has been asked so far, in order of arrival.
func (s *Sim) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Request, len(s.requests))
	for i, r := range s.requests {
		out[i] = *r
	}
	return out
}

// ForgetRequests empties the list of requests.
func (s *Sim) ForgetRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}
