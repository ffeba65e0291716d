package pvesim

import (
	"regexp"
	"slices"
)

// leanRequests is how many of them a lean Sim remembers.
const leanRequests = 1000

// Fault is a Rule in force.
type Fault struct {
	s     *state
	rule  Rule
	path  *regexp.Regexp
	seen  int
	hits  int
	ended bool
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
func (s *state) faultFor(r Request) *Fault {
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

// fail puts a rule in force.
func (s *state) fail(r Rule) *Fault {
	if r.Times == 0 {
		r.Times = 1
	}
	f := &Fault{s: s, rule: r, path: regexp.MustCompile("^(?:" + r.Path + ")$")}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, f)
	return f
}
