package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox/preflight"
	"github.com/cps-gpu/homelab/remote"
)

// Exit codes of host:check.
const (
	warned   = 1 // it may work
	hopeless = 2 // it will not work; also if the host does not answer
)

// HostCheck opens a session and checks whether the hosts can run what the file describes.
func HostCheck(ctx context.Context, o Options, f HostFlags) error {
	err := Do(ctx, o, func(s *Session, ctx context.Context) error { return hostCheck(s, ctx, f) })
	var known *Error
	if err != nil && !errors.As(err, &known) {
		return exitError(hopeless, err)
	}
	return err
}

// HostCheck checks whether the hosts can run what the file describes, and changes nothing.
func hostCheck(s *Session, ctx context.Context, f HostFlags) error {
	if !s.Spec.HasProxmox() {
		return exitError(invalid, cluster.ErrNoProxmox)
	}
	hosts, err := s.hostsOf(f)
	if err != nil {
		return err
	}
	if f.SSH != "" && len(hosts) > 1 {
		return exitErrorf(invalid, "-ssh=%s reaches one host, and the file has %d: add -host=NAME, or write ssh: for each in the file", f.SSH, len(hosts))
	}
	var names []string
	if f.Host != "" {
		names = []string{hosts[0].Name}
	}
	shells := &hostShells{s: s, by: f}
	defer shells.close()
	report, err := s.Cluster.HostCheck(ctx, shells.dialer(), names...)
	if err != nil {
		return exitError(hopeless, err)
	}
	if s.outside {
		report.Checks++
		report.Findings = append(report.Findings, releaseFindings(s, ctx, cluster.K3sURL(s.Spec))...)
	}
	if err := printCheck(s, report); err != nil {
		return err
	}
	switch report.Worst() {
	case preflight.Error:
		return exitErrorf(hopeless, "%s: homelab cluster:up would refuse", printable.Count(len(report.WithVerdict(preflight.Error)), "error"))
	case preflight.Warning:
		return exitErrorf(warned, "%s", printable.Count(len(report.WithVerdict(preflight.Warning)), "warning"))
	}
	return nil
}

// printCheck prints the findings; for a healthy host that is one line.
func printCheck(s *Session, r *preflight.Report) error {
	if s.JSON {
		return console.Objects(s.Console, r.Findings)
	}
	var problems, unseen []console.Finding
	for _, f := range r.Findings {
		line := console.Finding{Grave: f.Verdict == preflight.Error, ID: f.ID, Subject: f.Subject, Evidence: f.Evidence, Cure: f.Cure, Command: f.Command}
		switch f.Verdict {
		case preflight.Error, preflight.Warning:
			problems = append(problems, line)
		case preflight.Skipped:
			unseen = append(unseen, line)
		}
	}
	s.Findings(problems)
	s.PrintUnchecked(unseen)
	for _, note := range r.Notes() {
		s.Summary("note: %s", note)
	}
	what := "nothing wrong"
	if len(problems) > 0 {
		what = fmt.Sprintf("%s, %s", printable.Count(len(r.WithVerdict(preflight.Error)), "error"),
			printable.Count(len(r.WithVerdict(preflight.Warning)), "warning"))
	}
	if len(unseen) > 0 {
		what += fmt.Sprintf(", %d not checked", blindChecks(unseen))
	}
	s.Summary("%s: %s, %s", strings.Join(r.Hosts, ", "), printable.Count(r.Checks, "check"), what)
	return nil
}

// blindChecks counts checks, not the hosts that each could not check.
func blindChecks(unseen []console.Finding) int {
	ids := map[string]bool{}
	for _, f := range unseen {
		ids[f.ID] = true
	}
	return len(ids)
}

// hostShells are a command's logins to hosts.
type hostShells struct {
	s    *Session
	by   HostFlags
	mu   sync.Mutex // one at a time, because each may ask a question
	ends []func()
}

// dialer says how to log in to hosts; nil if that was not requested: -ssh or the file requests
// it; the lab's hosts always have one.
func (sh *hostShells) dialer() func(context.Context, string) (remote.Runner, error) {
	said := sh.by.SSH != "" || sh.s.hostWay != nil
	for _, h := range sh.s.Spec.Proxmox.Hosts {
		said = said || h.SSH != ""
	}
	if !said {
		return nil
	}
	return sh.open
}

func (sh *hostShells) open(ctx context.Context, host string) (remote.Runner, error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r, end, err := sh.s.HostRunner(ctx, sh.by, host)
	if err != nil {
		return nil, err
	}
	sh.ends = append(sh.ends, end)
	return r, nil
}

func (sh *hostShells) close() {
	for _, end := range sh.ends {
		end()
	}
}
