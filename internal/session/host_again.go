package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/consent"
	"github.com/cps-gpu/homelab/cluster/prepare"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/proxmox/host"
)

// prepare does what there is to do, one command at a time, while no other preparation is at
// work on any of these hosts. It looks again before it begins: what was not shown, since
// another run or somebody by hand has changed something, is done by -yes or asked about.
func (s *Session) prepare(ctx context.Context, f ChangeFlags, prep *prepare.Prep, shown *prepPlan) error {
	held, right := s.hold(ctx, f.NoWait)
	defer right.giveBack(held)
	for _, l := range prep.Leases() {
		right.of("host "+l.Host, l.Store)
	}
	if err := right.first(ctx, held); err != nil {
		return err
	}
	now, err := s.lookAtHosts(held, prep)
	if err != nil {
		return over(ctx, notBegun(err, ""), "")
	}
	if more := now.notIn(shown, prep.Reboot); len(more) > 0 {
		if err := s.more(held, f, more); err != nil {
			return err
		}
	}
	agreed := &consent.Agreement{Everything: f.Yes}
	for _, h := range now.hosts {
		agreed.Agree(h.Costs()...)
	}
	g := prep.Graph()
	g.May = agreed.May
	right.over(held, g)
	_, err = run(held, s.Console, g, wish{})
	return err
}

// more asks for what was not shown before.
func (s *Session) more(ctx context.Context, f ChangeFlags, more []string) error {
	list := "the hosts have changed since they were checked, and this would be done too:\n  " + strings.Join(more, "\n  ")
	if !f.Yes && (s.JSON || !s.person()) {
		return failedf(refused, "nothing was changed: %s\nrun it again", list)
	}
	s.Say("%s", capital(list))
	if f.Yes {
		return nil
	}
	return s.ask(ctx, "Do this too? Type yes: ", "yes")
}

// notIn lists what would be done now, and had not been shown: lines of files, commands,
// and, where hosts are started again, which ones, why, and what runs there.
func (p *prepPlan) notIn(shown *prepPlan, reboot bool) []string {
	was, is := shown.acts(reboot), p.acts(reboot)
	return slices.DeleteFunc(is, func(act string) bool { return slices.Contains(was, act) })
}

// acts says each thing that is done, in a line of its own.
func (p *prepPlan) acts(reboot bool) []string {
	var out []string
	add := func(where string, changes []*host.Change) {
		for _, c := range changes {
			for _, f := range c.Diff() {
				f.Note = ""
				out = append(out, where+drift.Diff{f}.String())
			}
		}
	}
	for _, h := range p.hosts {
		add(h.Name+": ", h.Changes)
		if !reboot {
			continue
		}
		for _, why := range h.Reboot {
			out = append(out, fmt.Sprintf("%s is started again: %s", h.Name, why))
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
