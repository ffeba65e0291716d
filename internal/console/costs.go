package console

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/cps-gpu/homelab/converge"
)

// Costs prints what changes would cost: a paragraph for each machine or part, destroyed ones
// first. Those with equal costs share a paragraph.
func (c *Console) Costs(costs []converge.Cost) {
	_, _ = io.WriteString(c.Talk, c.costs(c.talk, costs))
}

func (c *Console) costs(to face, costs []converge.Cost) string {
	var all []folded[converge.Cost]
	each := merged(costs)
	for _, cost := range each {
		name := c.line(cost.Machine)
		if slices.ContainsFunc(each, func(o converge.Cost) bool {
			return o.Machine == cost.Machine && o.Sort != cost.Sort && o.Kind != converge.Enters && cost.Kind != converge.Enters
		}) {
			name = strings.TrimSpace(cost.Sort + " " + name)
		}
		all = append(all, folded[converge.Cost]{[]string{name}, cost})
	}
	slices.SortStableFunc(all, func(a, b folded[converge.Cost]) int { return strings.Compare(string(a.what.Kind), string(b.what.Kind)) })
	groups := fold(all, func(x converge.Cost) string {
		return strings.Join([]string{string(x.Kind), x.Why, x.Away, strings.Join(converge.Texts(x.Holds), "\n"), strings.Join(converge.Texts(x.Users), "\n")}, "\x00")
	})
	var out strings.Builder
	for _, g := range groups {
		head := costHead(g)
		if g.what.Why != "" {
			head += ": " + c.line(g.what.Why)
		}
		for _, line := range wrap(head, 0, to.width()) {
			out.WriteString(to.paint.loss(g.what.Kind, line) + "\n")
		}
		c.costList(&out, to, "with", converge.Texts(g.what.Holds))
		c.costList(&out, to, "ends", converge.Texts(g.what.Users))
	}
	return out.String()
}

// merged combines the costs of several steps into one for each machine or part: all reasons,
// and the worst kind. A login is kept apart from what happens to the machine.
func merged(costs []converge.Cost) []converge.Cost {
	type matter struct {
		of, sort string
		enters   bool
	}
	var out []converge.Cost
	at := map[matter]int{}
	for _, cost := range costs {
		about := matter{cost.Machine, cost.Sort, cost.Kind == converge.Enters}
		i, ok := at[about]
		if !ok {
			at[about] = len(out)
			out = append(out, cost)
			continue
		}
		have := &out[i]
		switch {
		case cost.Why == "" || have.Why == cost.Why:
		case have.Why == "":
			have.Why = cost.Why
		default:
			have.Why += "; " + cost.Why
		}
		if cost.Kind == converge.Destroys {
			have.Kind = cost.Kind
		}
		if have.Away = cmp.Or(have.Away, cost.Away); have.Kind == converge.Destroys {
			have.Away = ""
		}
		have.Holds, have.Users = union(have.Holds, cost.Holds), union(have.Users, cost.Users)
	}
	return out
}

func union(a, b []converge.Loss) []converge.Loss {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// costHead names what happens, and to which machines or parts.
func costHead(g folded[converge.Cost]) string {
	if len(g.names) == 1 || g.what.Kind == converge.Enters {
		return converge.Cost{Machine: several(g.names), Kind: g.what.Kind, Away: g.what.Away}.String()
	}
	head := several(g.names) + " are "
	switch {
	case g.what.Kind == converge.Destroys:
		return head + "destroyed"
	case g.what.Away == "":
		return head + "stopped"
	}
	return head + "stopped for " + g.what.Away + " each"
}

// costList prints what is lost, or whose work ends.
func (c *Console) costList(out *strings.Builder, to face, label string, what []string) {
	if len(what) == 0 {
		return
	}
	const indent = "    "
	at := len(indent) + runewidth.StringWidth(label) + 2
	words := make([]string, len(what))
	for i, w := range what {
		words[i] = c.line(w)
	}
	for i, line := range wrap(strings.Join(words, ", "), at, to.width()) {
		if i == 0 {
			out.WriteString(indent + to.paint.faint(label) + "  " + line + "\n")
		} else {
			out.WriteString(strings.Repeat(" ", at) + line + "\n")
		}
	}
}

// loss highlights what is destroyed or stopped.
func (p paint) loss(k converge.CostKind, line string) string {
	if k == converge.Destroys {
		return p.sgr("1;31", line)
	}
	return p.sgr("1;33", line)
}
