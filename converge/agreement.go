package converge

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
)

// Agreement records what the user has agreed to. The zero Agreement agrees to nothing. It is safe
// for concurrent use once its fields are set.
type Agreement struct {
	Everything bool // all costs of any kind
	Restarts   bool // everything that stops and starts again
	// Destroy is what may be destroyed, by name, and stopped before that. If things of several
	// sorts bear a name, it agrees to none of them; "node:NAME" and "part:NAME" say which one is meant.
	Destroy []string
	Logins  bool // a login on machines that accept none of this run's keys

	mu    sync.Mutex
	shown map[thing]*contents
	sorts map[string]string // what a name in Destroy means, by name; several: nothing
}

// thing is what a cost is about: a machine or a part, and not another one of the same name.
type thing struct{ name, sort, id string }

// contents is what the user agreed to of a thing: what happens to it, and what was in it then.
type contents struct {
	kinds  map[CostKind]bool
	losses map[string]bool
}

func thingOf(c Cost) thing { return thing{c.Machine, c.Object, c.Identity} }

// identity is what makes a loss the same one when it is seen again. What could not be seen is one
// loss, whatever the reason.
func identity(l Loss) string {
	if l.Unknown {
		return "unknown"
	}
	return "of " + cmp.Or(l.ID, l.Text)
}

// Agree adds the costs that the user has seen and accepted: what happens to these things, with
// what is in them, and nothing else. Consent to destroy a thing includes consent to stop it.
func (a *Agreement) Agree(costs ...Cost) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shown == nil {
		a.shown = map[thing]*contents{}
	}
	for _, c := range costs {
		have := a.shown[thingOf(c)]
		if have == nil {
			have = &contents{map[CostKind]bool{}, map[string]bool{}}
			a.shown[thingOf(c)] = have
		}
		have.kinds[c.Kind] = true
		for _, l := range slices.Concat(c.Holds, c.Users) {
			have.losses[identity(l)] = true
		}
	}
}

// lacks returns the part of a cost that the user has not agreed to. If that is only something in
// a thing, the rest of its contents is left out.
func (a *Agreement) lacks(c Cost) (Cost, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	have := a.shown[thingOf(c)]
	switch {
	case a.Everything, c.Kind == CostLogin && a.Logins, c.Kind == CostStop && a.Restarts, c.Kind != CostLogin && a.named(c):
		return c, false
	case have == nil && a.another(c):
		c.Reason = strings.TrimPrefix(c.Reason+"; not the one that was shown: it has its name", "; ")
		return c, true
	case have == nil, !have.kinds[c.Kind] && (c.Kind == CostLogin || !have.kinds[CostDestroy]):
		return c, true
	}
	was := func(l Loss) bool { return l.Counted || have.losses[identity(l)] }
	c.Holds, c.Users = slices.DeleteFunc(slices.Clone(c.Holds), was), slices.DeleteFunc(slices.Clone(c.Users), was)
	return c, len(c.Holds)+len(c.Users) > 0
}

// covers reports whether the user agreed to what happens to a thing, whatever is in it.
func (a *Agreement) covers(c Cost) bool {
	c.Holds, c.Users = nil, nil
	_, lacks := a.lacks(c)
	return !lacks
}

// another reports whether another thing of this name and sort was shown.
func (a *Agreement) another(c Cost) bool {
	for t := range a.shown {
		if t.name == c.Machine && t.sort == c.Object {
			return true
		}
	}
	return false
}

// several marks a name of things of several sorts.
const several = ", "

// named reports whether Destroy names a thing. A name alone means what bore it first: what comes
// later with the same name is something else.
func (a *Agreement) named(c Cost) bool {
	if c.Object != "" && slices.Contains(a.Destroy, c.Object+":"+c.Machine) {
		return true
	}
	if !slices.Contains(a.Destroy, c.Machine) {
		return false
	}
	a.bear(c)
	return a.sorts[c.Machine] == c.Object
}

// bear notes what a name means.
func (a *Agreement) bear(c Cost) {
	if a.sorts == nil {
		a.sorts = map[string]string{}
	}
	if _, known := a.sorts[c.Machine]; !known {
		a.sorts[c.Machine] = c.Object
	}
}

// Ambiguous returns the names in Destroy that things of several sorts bear.
func (a *Agreement) Ambiguous() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.Destroy), func(name string) bool { return a.sorts[name] != several })
}

// NotAgreed returns the costs of a plan that the user has not agreed to, in the order of the plan.
func (a *Agreement) NotAgreed(p *Plan) []Cost {
	var out []Cost
	a.mu.Lock()
	for _, it := range p.Items {
		for _, c := range it.Costs {
			if c.Kind != CostDestroy {
				continue
			}
			if a.bear(c); a.sorts[c.Machine] != c.Object {
				a.sorts[c.Machine] = several
			}
		}
	}
	a.mu.Unlock()
	for _, it := range p.Items {
		out = append(out, a.lacking(it.Costs)...)
	}
	return out
}

func (a *Agreement) lacking(costs []Cost) (out []Cost) {
	for _, c := range costs {
		if rest, lacks := a.lacks(c); lacks {
			out = append(out, rest)
		}
	}
	return out
}

// Approve is for [Graph.Approve]. It returns nil if the user agreed to all costs of a change, and a
// [*RefusedError] otherwise.
func (a *Agreement) Approve(_ context.Context, it Item) error {
	lacking := a.lacking(it.Costs)
	if len(lacking) == 0 {
		return nil
	}
	unseen := !slices.ContainsFunc(lacking, func(c Cost) bool {
		return !a.covers(c) || slices.ContainsFunc(slices.Concat(c.Holds, c.Users), func(l Loss) bool { return !l.Unknown })
	})
	return &RefusedError{Step: it.Step, Costs: lacking, unseen: unseen}
}

// RefusedError reports a change that was not made, because the user has not agreed to its costs.
type RefusedError struct {
	Step  string
	Costs []Cost // those without consent

	unseen bool
}

// Error says what would have happened to what, and what to do.
func (e *RefusedError) Error() string {
	return "not done, since nobody has agreed to it: " + strings.Join(DescribeCosts(e.Costs...), "; ") + "\n  run it again, and it asks"
}

// Transient is true if all that the user has not agreed to is what could not be seen.
func (e *RefusedError) Transient() bool { return e.unseen }

// DescribeCosts says for each cost what happens to what, why, and what is lost with it, each once.
func DescribeCosts(costs ...Cost) []string {
	var out []string
	for _, c := range costs {
		text := c.String()
		if c.Reason != "" {
			text += " (" + c.Reason + ")"
		}
		lost := slices.DeleteFunc(slices.Concat(c.Holds, c.Users), func(l Loss) bool { return l.Counted })
		if len(lost) > 0 {
			text += ", and with it " + strings.Join(LossTexts(lost), ", ")
		}
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// Names returns how Destroy names what these costs destroy. They are of a plan, in which things of
// several sorts may have one name.
func (a *Agreement) Names(costs ...Cost) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	for _, c := range costs {
		if c.Kind == CostDestroy {
			names = append(names, a.nameAmong(c, costs))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// nameAmong is how Destroy names a thing, if something of another sort may have the same name.
func (a *Agreement) nameAmong(c Cost, costs []Cost) string {
	namesake := func(o Cost) bool {
		return o.Kind == CostDestroy && o.Machine == c.Machine && o.Object != c.Object
	}
	if c.Object != "" && (a.sorts[c.Machine] == several || slices.ContainsFunc(costs, namesake)) {
		return c.Object + ":" + c.Machine
	}
	return c.Machine
}
