package world

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/fault"
)

// LeanRequests is how many of them a lean Sim remembers.
const LeanRequests = 1000

// Fault is a Rule in force.
type Fault struct {
	s    *State
	Rule fault.Rule
	path *regexp.Regexp
	seen int
	hits int
}

// Hits returns how often the rule has had its effect.
func (f *Fault) Hits() int {
	f.s.Mu.Lock()
	defer f.s.Mu.Unlock()
	return f.hits
}

// Remove takes the rule out of force.
func (f *Fault) Remove() {
	f.s.Mu.Lock()
	defer f.s.Mu.Unlock()
	f.s.rules = slices.DeleteFunc(f.s.rules, func(o *Fault) bool { return o == f })
}

func (f *Fault) matches(r fault.Request) bool {
	return (f.Rule.Method == "" || f.Rule.Method == r.Method) &&
		(f.Rule.Path == "" || f.path.MatchString(r.Path)) &&
		(!f.Rule.Mutating || r.Mutating) &&
		(f.Rule.When == nil || f.Rule.When(r))
}

// FaultFor returns the rule that this request falls under, and counts.
func (s *State) FaultFor(r fault.Request) *Fault {
	var hit *Fault
	for _, f := range s.rules {
		if !f.matches(r) {
			continue
		}
		f.seen++
		due := f.seen > f.Rule.Skip && (f.Rule.Times < 0 || f.hits < f.Rule.Times)
		if due && hit == nil {
			f.hits++
			hit = f
		}
	}
	return hit
}

// Inject puts a rule in force. It panics if the rule's path does not compile, or begins with
// what no path of the API begins with: such a rule would never have an effect.
func (s *State) Inject(r fault.Rule) *Fault {
	if r.Times == 0 {
		r.Times = 1
	}
	f := &Fault{s: s, Rule: r, path: regexp.MustCompile("^(?:" + r.Path + ")$")}
	if begin, _ := f.path.LiteralPrefix(); !slices.ContainsFunc(roots(), func(root string) bool {
		return strings.HasPrefix(root+"/", begin) || strings.HasPrefix(begin, root+"/")
	}) {
		panic(fmt.Sprintf("pvesim: no request has a path that matches %q, which is compared with the whole path below /api2/json: write %q", r.Path, ".*"+r.Path))
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.rules = append(s.rules, f)
	return f
}

// roots returns the first parts of all paths of the API.
func roots() []string {
	return []string{"/access", "/cluster", "/nodes", "/pools", "/storage", "/version"}
}
