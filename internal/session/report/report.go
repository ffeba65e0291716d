// Package report leaves a page about a command: -report=FILE writes it at the command's end,
// also when the command failed, and cluster:watch serves it.
package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/keep"
	"github.com/cps-gpu/homelab/internal/session"
)

// readTime limits how long the state is read for a page, also after the command's own time is
// over.
const readTime = 45 * time.Second

// hurryTime is readTime after Ctrl-C: Mage ends the program five seconds later.
const hurryTime = 1500 * time.Millisecond

// Do is [session.Do], and writes a page about it to the file of the options, if they name one.
// command is the target, e.g. cluster:up.
func Do(ctx context.Context, o session.Options, command string, do func(*session.Session, context.Context) error) error {
	if o.Report == "" {
		return session.Do(ctx, o, do)
	}
	return doAndReport(ctx, o, command, session.Open, do)
}

// opener is session.Open, or that of a test.
type opener func(context.Context, session.Options) (*session.Session, error)

// doAndReport is Do with a way to open the session.
func doAndReport(ctx context.Context, o session.Options, command string, open opener,
	do func(*session.Session, context.Context) error) error {
	file := o.Report
	place, err := keep.Reserve(file, 0o600) // before anything is done
	if err != nil {
		return &session.Error{Code: invalid, Err: fmt.Errorf("-report=%s: %w", file, err)}
	}
	defer place.Discard()
	rec := &recorder{}
	if o.Console != nil {
		o.Console.Recorder = rec
	}
	s, err := open(ctx, o)
	if s == nil { // there is no cluster to write about
		return err
	}
	defer s.Close()
	if err == nil {
		err = do(s, ctx)
	}
	written := write(ctx, place, s, request{command: command, rec: rec, err: err})
	if written == nil {
		s.Printf("Report: %s", file)
		return err
	}
	if err != nil {
		s.Printf("warning: -report=%s: %s", file, written)
		return err
	}
	return fmt.Errorf("-report=%s: %w", file, written)
}

// invalid is the exit code for wrong flags.
const invalid = 3

func write(ctx context.Context, place *keep.Reservation, s *session.Session, v request) error {
	limit := readTime
	if errors.Is(ctx.Err(), context.Canceled) {
		limit = hurryTime
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	text, err := v.render(ctx, s)
	if err != nil {
		return err
	}
	return place.Commit(text)
}

// request is what a page is made from, beside the cluster itself.
type request struct {
	command string
	rec     *recorder
	err     error         // of the command
	every   time.Duration // how often a live page is read
}

// render reads the state and returns the document, without secrets.
func (v request) render(ctx context.Context, s *session.Session) ([]byte, error) {
	var b bytes.Buffer
	err := v.page(ctx, s).Clean(s.Plain).Write(&b)
	return b.Bytes(), err
}

// page reads the state.
func (v request) page(ctx context.Context, s *session.Session) *Page {
	p := &Page{Cluster: s.Spec.Name, Command: v.command, Version: session.Module(), Time: time.Now(), Every: v.every, Simulated: simulationNote(s.Spec)}
	v.outcome(p)
	c := &collector{Page: p, session: s, plan: v.rec.plan, report: v.rec.report, hub: v.rec.hub}
	c.collect(ctx, v.rec.diffs())
	return p
}

// simulationNote says what of a cluster is, since the page is read where the lab's banner is not.
func simulationNote(s *spec.Spec) string {
	switch {
	case !s.IsLab():
		return ""
	case s.LabGuests.QEMU():
		return "The Proxmox VE host is simulated (proxmox.endpoint: lab). The VMs, SSH and Kubernetes are real, in QEMU on one machine; there are no GPUs."
	}
	return "This cluster is simulated (proxmox.endpoint: lab): its machines, its GPUs and what runs in pods. No GPU computed anything."
}

// outcome says how the command ended.
func (v request) outcome(p *Page) {
	if v.err != nil {
		p.Outcome, p.Failed = v.err.Error(), true
		var answer interface{ ExitStatus() int }
		const pending = 2 // something differs, and nothing failed
		if errors.As(v.err, &answer) && answer.ExitStatus() == pending {
			p.Failed = false
		}
		return
	}
	switch r, plan := v.rec.report, v.rec.plan; {
	case r != nil:
		changed, all := 0, len(r.Steps)
		for _, s := range r.Steps {
			if string(s.Kind) == Changed {
				changed++
			}
		}
		p.Outcome = fmt.Sprintf("Done: %d of %d steps changed something.", changed, all)
	case len(v.rec.hub) > 0:
		p.Outcome = fmt.Sprintf("A server of each of %d profiles started and computed.", len(v.rec.hub))
	case plan != nil && plan.Converged():
		p.Outcome = fmt.Sprintf("All %d steps are up to date.", len(plan.Items))
	}
}
