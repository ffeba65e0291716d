package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/hostprep"
)

// prepare applies the changes, one command at a time, while no other preparation runs on any
// of these hosts. It first checks again: changes that were not shown, because another run or a
// person has changed something, need -yes or another question.
func applyPrep(s *Session, ctx context.Context, f ChangeFlags, prep *hostprep.Prep, shown *prepPlan) error {
	held, right := s.hold(ctx, f.NoWait)
	defer right.release(held)
	for _, l := range prep.Leases() {
		right.add("host "+l.Host, l.LeaseStore)
	}
	if err := right.acquireFirst(ctx, held); err != nil {
		return err
	}
	now, err := planHosts(s, held, prep)
	if err != nil {
		return interruptionError(ctx, notStartedError(err, ""), "")
	}
	if more := now.newIn(shown, prep.Reboot); len(more) > 0 {
		if err := askAboutNew(s, held, f, more); err != nil {
			return err
		}
	}
	agreed := &converge.Agreement{Everything: f.Yes}
	for _, h := range now.hosts {
		agreed.Agree(h.Costs()...)
	}
	g := prep.Graph()
	g.Approve = agreed.Approve
	right.guard(held, g)
	_, err = run(held, s.Console, g, Change{})
	return err
}

// more asks about changes that were not shown before.
func askAboutNew(s *Session, ctx context.Context, f ChangeFlags, more []string) error {
	list := "the hosts have changed since they were checked, and this would be done too:\n  " + strings.Join(more, "\n  ")
	if !f.Yes && (s.JSON || !s.isInteractive()) {
		return exitErrorf(refused, "nothing was changed: %s\nrun it again", list)
	}
	s.Printf("%s", capital(list))
	if f.Yes {
		return nil
	}
	return s.ask(ctx, "Do this too? Type yes: ", "yes")
}

// newIn lists changes that were not shown before: lines of files, commands, and reboots, with
// the host, the reason and what runs there.
func (p *prepPlan) newIn(shown *prepPlan, reboot bool) []string {
	was, is := shown.acts(reboot), p.acts(reboot)
	return slices.DeleteFunc(is, func(act string) bool { return slices.Contains(was, act) })
}

// acts lists each change on a line of its own.
func (p *prepPlan) acts(reboot bool) []string {
	var out []string
	add := func(where string, changes []*hostprep.Change) {
		for _, c := range changes {
			for _, f := range c.Diff() {
				f.Note = ""
				out = append(out, where+converge.Diff{f}.String())
			}
		}
	}
	for _, h := range p.hosts {
		add(h.Name+": ", h.Changes)
		if !reboot {
			continue
		}
		for _, why := range h.Reboot {
			out = append(out, fmt.Sprintf("%s is rebooted: %s", h.Name, why))
		}
		for _, c := range h.Costs() {
			out = append(out, c.String())
		}
	}
	add("", p.access.Changes)
	for _, command := range p.access.Token {
		out = append(out, strings.Join(command, " "))
	}
	return out
}
