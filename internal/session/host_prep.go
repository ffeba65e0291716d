package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/remote"
)

// HostPrep prepares the hosts of the file, as root on each: it shows what it would do,
// asks, does it, and says what waits for a reboot.
func HostPrep(ctx context.Context, o Options, f HostPrepFlags) error {
	if _, missing := os.Stat(filepath.Join(home(), DefaultSpec)); o.Spec == "" && f.SSH != "" && errors.Is(missing, fs.ErrNotExist) {
		s := &Session{Console: o.console(), opt: o}
		defer s.Close()
		return hostPrepFirst(s, ctx, f)
	}
	s, err := Load(o)
	if err != nil {
		return err
	}
	defer s.Close()
	if s.Spec.IsLab() {
		backend := cluster.Backend{Dir: s.dir()}
		if err := s.openLab(ctx, &backend); err != nil {
			return err
		}
	}
	return hostPrep(s, ctx, f)
}

// HostPrep is the command in a session.
func hostPrep(s *Session, ctx context.Context, f HostPrepFlags) error {
	prep, done, err := openPrep(s, ctx, f)
	if err != nil {
		return err
	}
	defer done()
	prep.Grants = s.prepGrants
	place, err := tokenPlaceOf(s, f.Out)
	if err != nil {
		return err
	}
	defer place.close()
	if place.wanted {
		prep.KeepToken = place.save
	}
	all, err := planHosts(s, ctx, prep)
	if err != nil {
		return err
	}
	prep.NewToken = place.wanted && f.Force && !place.known
	if prep.NewToken {
		if all.access, err = prep.PlanAccess(ctx); err != nil {
			return err
		}
	}
	all.unknownToken(prep, place)
	if err := showPrep(s, all); err != nil {
		return err
	}
	if !all.changes() {
		return finishPrep(s, ctx, f, prep, all)
	}
	if len(all.access.Token) > 0 {
		if err := place.checkWritable(); err != nil {
			return err
		}
	}
	if !f.Yes {
		if err := s.ask(ctx, "Do all this? Type yes: ", "yes"); err != nil {
			return err
		}
	}
	err = applyPrep(s, ctx, f.ChangeFlags, prep, all)
	place.show(s)
	if err != nil {
		return err
	}
	prep.NewToken = false
	if all, err = planHosts(s, ctx, prep); err != nil {
		return err
	}
	return finishPrep(s, ctx, f, prep, all)
}

// openPrep opens a shell on every host of the command.
func openPrep(s *Session, ctx context.Context, f HostPrepFlags) (*hostprep.Prep, func(), error) {
	hosts, err := s.hostsOf(f.HostFlags)
	if err != nil {
		return nil, nil, err
	}
	prep := &hostprep.Prep{Spec: s.Spec, Root: map[string]remote.Runner{}, Framebuffer: f.Framebuffer}
	var open []func()
	done := func() {
		for _, end := range open {
			end()
		}
	}
	if f.SSH != "" && len(hosts) > 1 {
		return nil, nil, exitErrorf(invalid, "-ssh reaches one host only: name it with -host (the file has %s)", hostNames(hosts))
	}
	for _, h := range hosts {
		r, end, err := s.HostRunner(ctx, f.HostFlags, h.Name)
		if err != nil {
			done()
			return nil, nil, err
		}
		prep.Hosts, prep.Root[h.Name] = append(prep.Hosts, h.Name), r
		open = append(open, end)
	}
	if len(prep.Hosts) == 0 {
		return nil, nil, exitErrorf(invalid, "the file names no Proxmox host: there is nothing to prepare")
	}
	return prep, done, nil
}

func hostNames(hosts []spec.Host) string {
	var names []string
	for _, h := range hosts {
		names = append(names, h.Name)
	}
	return strings.Join(names, ", ")
}

// prepPlan has all changes.
type prepPlan struct {
	hosts  []*hostprep.HostPlan
	access *hostprep.AccessPlan
}

func planHosts(s *Session, ctx context.Context, prep *hostprep.Prep) (*prepPlan, error) {
	var all prepPlan
	prep.Reset()
	for _, name := range prep.Hosts {
		s.Progress("looking at " + name)
		plan, err := prep.PlanHost(ctx, name)
		if err != nil {
			return nil, err
		}
		all.hosts = append(all.hosts, plan)
	}
	var err error
	all.access, err = prep.PlanAccess(ctx)
	s.Progress("")
	return &all, err
}

func (p *prepPlan) changes() bool {
	return len(p.access.Changes)+len(p.access.Token) > 0 ||
		slices.ContainsFunc(p.hosts, func(h *hostprep.HostPlan) bool { return len(h.Changes) > 0 })
}

// waitingForReboot returns the hosts with changes that wait for a reboot.
func (p *prepPlan) waitingForReboot() []*hostprep.HostPlan {
	return slices.DeleteFunc(slices.Clone(p.hosts), func(h *hostprep.HostPlan) bool { return len(h.Reboot) == 0 })
}

// fatal lists the problems that only a person can fix.
func (p *prepPlan) fatal() []string {
	var out []string
	add := func(where string, notes []hostprep.Note) {
		for _, n := range notes {
			if n.Fatal {
				out = append(out, where+n.What)
			}
		}
	}
	for _, h := range p.hosts {
		add(h.Name+": ", h.Notes)
	}
	add("", p.access.Notes)
	return out
}

// unknownToken describes a token whose secret is not at the file's reference.
func (p *prepPlan) unknownToken(prep *hostprep.Prep, place *tokenPlace) {
	if !place.wanted || place.known || p.access.State.Token == nil || len(p.access.Token) > 0 {
		return
	}
	p.access.Notes = append(p.access.Notes, hostprep.Note{Fatal: true,
		What: fmt.Sprintf("the token %s exists, but its secret, which Proxmox shows only once, is missing: %s", prep.TokenID(), place.why),
		Do:   "put it there, or run host:prep with -force: that creates a new token, and programs that use the old one stop working",
	})
}

// finishPrep handles what follows when nothing is left to change: a reboot, or the end.
func finishPrep(s *Session, ctx context.Context, f HostPrepFlags, prep *hostprep.Prep, all *prepPlan) error {
	waiting := all.waitingForReboot()
	if len(waiting) == 0 {
		if wrong := all.fatal(); len(wrong) > 0 {
			return exitErrorf(1, "The rest is prepared. Only you can fix this:\n  %s", strings.Join(wrong, "\n  "))
		}
		s.Printf("Prepared: %s. Nothing waits for a reboot.\n\nNext:", strings.Join(prep.Hosts, ", "))
		_, err := fmt.Fprintf(s.Talk, "  %s\n", s.Commands(cmp.Or(s.prepNext, "homelab cluster:plan"))) // in one line, to be pasted
		return err
	}
	for _, h := range waiting {
		runs := "nothing else runs there"
		if len(h.State.Guests) > 0 {
			runs = "a reboot stops what runs there: " + strings.Join(h.State.Guests, ", ")
		}
		s.Printf("%s waits for a reboot: %s; %s.", h.Name, strings.Join(h.Reboot, "; "), runs)
	}
	names := make([]string, len(waiting))
	for i, h := range waiting {
		names[i] = h.Name
	}
	if !f.Reboot {
		later := exitErrorf(pending, "reboot %s, then run host:prep again (-reboot lets it do that)", strings.Join(names, ", "))
		if f.Yes || s.JSON || !s.isInteractive() {
			return later
		}
		if err := s.ask(ctx, fmt.Sprintf("Reboot now and wait? Type %s: ", strings.Join(names, " ")), strings.Join(names, " ")); err != nil {
			return later
		}
	}
	prep.Reboot = true
	if err := applyPrep(s, ctx, f.ChangeFlags, prep, all); err != nil {
		return err
	}
	f.Reboot = false // enter it only once
	again, err := planHosts(s, ctx, prep)
	if err != nil {
		return err
	}
	return finishPrep(s, ctx, f, prep, again)
}

// showPrep prints the plan.
func showPrep(s *Session, all *prepPlan) error {
	if s.JSON {
		for _, h := range all.hosts {
			h.Changes = append([]*hostprep.Change{}, h.Changes...) // an empty list, not null
			if err := console.Objects(s.Console, []*hostprep.HostPlan{h}); err != nil {
				return err
			}
		}
		all.access.Changes = append([]*hostprep.Change{}, all.access.Changes...)
		return console.Objects(s.Console, []*hostprep.AccessPlan{all.access})
	}
	return s.Text(prepText(all))
}
