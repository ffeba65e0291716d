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
	var all []group[converge.Cost]
	each := mergeCosts(costs)
	for _, cost := range each {
		name := c.line(cost.Machine)
		if slices.ContainsFunc(each, func(o converge.Cost) bool {
			return o.Machine == cost.Machine && o.Object != cost.Object && o.Kind != converge.CostLogin && cost.Kind != converge.CostLogin
		}) {
			name = strings.TrimSpace(cost.Object + " " + name)
		}
		all = append(all, group[converge.Cost]{[]string{name}, cost})
	}
	slices.SortStableFunc(all, func(a, b group[converge.Cost]) int { return strings.Compare(string(a.what.Kind), string(b.what.Kind)) })
	groups := fold(all, func(x converge.Cost) string {
		return strings.Join([]string{string(x.Kind), x.Reason, x.Downtime, strings.Join(converge.LossTexts(x.Holds), "\n"),
			strings.Join(converge.LossTexts(x.Users), "\n")}, "\x00")
	})
	var out strings.Builder
	for _, g := range groups {
		head := costHead(g)
		if g.what.Reason != "" {
			head += ": " + c.line(g.what.Reason)
		}
		for _, line := range wrap(head, 0, to.width()) {
			out.WriteString(to.paint.costColour(g.what.Kind, line) + "\n")
		}
		c.costList(&out, to, "with", converge.LossTexts(g.what.Holds))
		c.costList(&out, to, "ends", converge.LossTexts(g.what.Users))
	}
	return out.String()
}

// mergeCosts combines the costs of several steps into one for each machine or part: all reasons,
// and the worst kind. A login is kept apart from what happens to the machine.
func mergeCosts(costs []converge.Cost) []converge.Cost {
	type matter struct {
		of, sort string
		enters   bool
	}
	var out []converge.Cost
	at := map[matter]int{}
	for _, cost := range costs {
		about := matter{cost.Machine, cost.Object, cost.Kind == converge.CostLogin}
		i, ok := at[about]
		if !ok {
			at[about] = len(out)
			out = append(out, cost)
			continue
		}
		have := &out[i]
		switch {
		case cost.Reason == "" || slices.Contains(strings.Split(have.Reason, "; "), cost.Reason):
		case have.Reason == "":
			have.Reason = cost.Reason
		default:
			have.Reason += "; " + cost.Reason
		}
		if cost.Kind == converge.CostDestroy {
			have.Kind = cost.Kind
		}
		if have.Downtime = cmp.Or(have.Downtime, cost.Downtime); have.Kind == converge.CostDestroy {
			have.Downtime = ""
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
func costHead(g group[converge.Cost]) string {
	if len(g.names) == 1 || g.what.Kind == converge.CostLogin {
		return converge.Cost{Machine: shortList(g.names), Kind: g.what.Kind, Downtime: g.what.Downtime}.String()
	}
	head := shortList(g.names) + " are "
	switch {
	case g.what.Kind == converge.CostDestroy:
		return head + "destroyed"
	case g.what.Downtime == "":
		return head + "stopped"
	}
	return head + "stopped for " + g.what.Downtime + " each"
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

// costColour highlights what is destroyed or stopped.
func (p paint) costColour(k converge.CostKind, line string) string {
	if k == converge.CostDestroy {
		return p.sgr("1;31", line)
	}
	return p.sgr("1;33", line)
}
