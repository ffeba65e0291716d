package console

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
)

// Part is a part of the platform. Its steps are those of its name, and of its
// storage classes.
type Part struct {
	Name    string
	Chart   string // name and version; empty: it has none
	Via     string // how it is deployed
	Classes []string
}

// Machine is what is known about a machine beside its plan. Empty fields are not known.
type Machine struct {
	Role, Address, VMID, Version, Age string
	GPUs                              string // in use, of how many
	Holders                           string // who holds them
}

// narrow leaves out what a narrow terminal has no room for, the more if something is wrong, which
// has columns of its own.
func (m Machine) narrow(width int, wrong bool) Machine {
	switch {
	case width == 0 || width >= 120:
		return m
	case width >= 100:
		m.VMID, m.Version, m.Age = "", "", ""
		return m
	case wrong:
		return Machine{GPUs: m.GPUs}
	}
	return Machine{Address: m.Address, GPUs: m.GPUs}
}

// statusWidth is the most columns of the table of machines, also in a file.
const statusWidth = 140

// Status prints a plan as a status: problems first, then a line for each node, then one for
// each part of the platform. machines has more about nodes, by name. It reports whether
// anything is wrong.
func (c *Console) Status(p *converge.Plan, machines map[string]Machine, platform ...Part) (wrong bool) {
	of := map[string]string{} // the part that storage classes belong to
	for _, x := range platform {
		of[x.Name] = x.Name
		for _, class := range x.Classes {
			of[class] = x.Name
		}
	}
	var steps []string
	parts := map[string]*partState{}
	for _, it := range p.Items {
		name, what := Owner(it.Step)
		if owner, ok := of[name]; ok {
			name = owner
		} else {
			steps = append(steps, it.Step)
		}
		if parts[name] == nil {
			parts[name] = &partState{}
		}
		parts[name].add(it, what)
	}
	wrong = c.problems(p)
	header := []string{"", "PART", "STATE", "ROLE", "ADDRESS", "VMID", "VERSION", "AGE", "GPUS", "HELD BY", "DIFFERS", "UNKNOWN"}
	t := Table{Header: header, Most: statusWidth}
	for _, name := range partsOf(steps) {
		s, m := parts[name], machines[name].narrow(c.data.width(), wrong)
		mark, state := s.state()
		wrong = wrong || mark != "✓"
		t.Add(mark, name, state, m.Role, m.Address, m.VMID, m.Version, m.Age, m.GPUs, m.Holders, strings.Join(s.bad, ", "),
			firstAndLast(s.unknown))
	}
	c.Table(t)
	return c.platform(platform, parts) || wrong
}

// platform prints a line for each part.
func (c *Console) platform(all []Part, states map[string]*partState) (wrong bool) {
	t := Table{Header: []string{"", "PART", "CHART", "VIA", "STATE", "DIFFERS"}}
	for _, x := range all {
		s := states[x.Name]
		if s == nil {
			continue
		}
		mark, state := s.state()
		switch {
		case mark == "✓":
			state = "ready"
		case len(s.bad) == 0 && s.because != "":
			state = "waits: " + s.because
		}
		wrong = wrong || mark != "✓"
		t.Add(mark, x.Name, x.Chart, x.Via, state, strings.Join(s.bad, ", "))
	}
	if len(t.Rows) > 0 {
		_, _ = fmt.Fprintln(c.Data)
		c.Table(t)
	}
	return wrong
}

// problems prints each difference on a line, those of many nodes once.
func (c *Console) problems(p *converge.Plan) (any bool) {
	var all []group[string]
	for _, it := range p.Items {
		name, what := Owner(c.line(it.Step))
		switch it.Verdict {
		case converge.Clean, converge.Deferred:
			continue
		case converge.Failed:
			all = append(all, group[string]{[]string{name}, what + ": " + c.line(fmt.Sprint(it.Err))})
		default:
			words := make([]string, len(it.Diff))
			for i, f := range c.clean(it.Diff) {
				if f.Effect == converge.Create && f.Have == "" { // why it will be as it will be is the plan's to tell
					f.Note = ""
				}
				words[i] = difference(f)
			}
			all = append(all, group[string]{[]string{name}, what + ": " + strings.Join(words, "; ")})
		}
	}
	for _, f := range fold(all, func(s string) string { return s }) {
		for i, line := range wrap(shortList(f.names)+"  "+f.what, 2, c.data.width()) {
			mark := c.data.paint.red("✗")
			if i > 0 {
				mark = " "
			}
			_, _ = fmt.Fprintf(c.Data, "%s %s\n", mark, c.data.paint.emphasize(line))
		}
	}
	if len(all) > 0 {
		_, _ = fmt.Fprintln(c.Data)
	}
	return len(all) > 0
}

// firstAndLast shortens what is behind a missing step to its first and last.
func firstAndLast(unknown []string) string {
	if len(unknown) <= 3 {
		return strings.Join(unknown, ", ")
	}
	return fmt.Sprintf("%s … %s (%d)", unknown[0], unknown[len(unknown)-1], len(unknown))
}

// partState is the state of a node.
type partState struct {
	good         int
	bad, unknown []string
	failed       bool
	because      string // reason of the first failed check
}

func (s *partState) add(it converge.Item, what string) {
	switch it.Verdict {
	case converge.Clean:
		s.good++
	case converge.Deferred:
		if len(s.unknown) == 0 {
			s.because = it.Reason
		}
		s.unknown = append(s.unknown, what)
	default:
		s.failed = s.failed || it.Verdict == converge.Failed
		if !slices.Contains(s.bad, what) {
			s.bad = append(s.bad, what)
		}
	}
}

func (s *partState) state() (mark, words string) {
	all := s.good + len(s.bad) + len(s.unknown)
	switch {
	case len(s.bad)+len(s.unknown) == 0:
		return "✓", "up to date"
	case len(s.bad) == 0:
		return "…", "pending"
	case s.failed:
		return "✗", "check failed"
	default:
		return "✗", fmt.Sprintf("%d of %d up to date", s.good, all)
	}
}
