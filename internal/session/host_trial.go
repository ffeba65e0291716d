package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"sync"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/keep"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/internal/trial"
)

// HostTrial runs a cluster's whole life on the hosts of its file, and records it.
func HostTrial(ctx context.Context, o Options, f HostTrialFlags) error {
	s, err := Load(o)
	if err != nil {
		return err
	}
	return hostTrial(s, ctx, f, s.reopen)
}

// wrapper wraps requests.
type wrapper = func(http.RoundTripper) http.RoundTripper

// opener binds a file to the world, like a separate command.
type opener func(ctx context.Context, spec *spec.Spec, wrap wrapper) (*cluster.Cluster, func(), error)

// reopen is the opener of real commands.
func (s *Session) reopen(ctx context.Context, spec *spec.Spec, wrap wrapper) (*cluster.Cluster, func(), error) {
	fresh := &Session{Console: s.Console, opt: s.opt, Spec: spec, wrap: wrap}
	if err := fresh.bind(ctx); err != nil {
		fresh.Close()
		return nil, nil, err
	}
	s.unplaced = fresh.unplaced
	return fresh.Cluster, fresh.Close, nil
}

func hostTrial(s *Session, ctx context.Context, f HostTrialFlags, open opener) error {
	if ext := filepath.Ext(f.Out); f.Out != "" && ext != ".md" && ext != ".json" {
		return exitErrorf(invalid, "-out=%s: write the name of a file that ends in .md or .json", f.Out)
	}
	way, err := trial.New(s.Spec, f.From)
	if err != nil {
		return exitError(invalid, err)
	}
	s.Warn()
	s.Printf("A trial with cluster %s at %s. It creates machines, changes them, and at its end destroys everything of this cluster:",
		s.Spec.Name, s.Spec.Proxmox.Endpoint)
	for _, step := range way.RemainingSteps() {
		s.Printf("  %-8s %s", step[0], step[1])
	}
	if !f.Yes {
		if err := ask(ctx, s.Console, fmt.Sprintf("Do all this? Type the cluster's name (%s): ", s.Spec.Name), s.Spec.Name); err != nil {
			return err
		}
	}
	record, err := way.Run(ctx, &trialWorld{Session: s, open: open, noWait: f.NoWait})
	if told := showTrial(s, record, f.Out); told != nil {
		return told
	}
	if err == nil {
		s.Printf("\nThe trial is complete, and everything that it created is gone.")
		return nil
	}
	last := record.Steps[len(record.Steps)-1].Name
	code := 1
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		code = 130
	case ctx.Err() == nil && errors.As(err, new(*converge.LeaseHeldError)):
		code = refused
	}
	return exitErrorf(code, "the trial stopped at %w\n"+
		"What exists stays. To continue:   homelab host:trial -spec=%s -from=%s\n"+
		"or to remove it:                          homelab cluster:down -spec=%s", err, printable.Word(s.Spec.File), printable.Word(last), printable.Word(s.Spec.File))
}

// tell shows the record, and writes it to the file out, if set.
func showTrial(s *Session, r *trial.Record, out string) error {
	if s.JSON {
		if err := console.Objects(s.Console, r.Steps); err != nil {
			return err
		}
	} else {
		table := console.Table{Header: trial.Header()}
		for _, step := range r.Steps {
			table.Add(step.Row()...)
		}
		s.Printf("")
		s.Table(table)
	}
	if out == "" {
		return nil
	}
	text := r.Markdown()
	if filepath.Ext(out) == ".json" {
		data, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		text = string(data) + "\n"
	}
	if err := keep.WriteFile(out, []byte(s.Redact.Redact(s.Commands(text))), 0o600); err != nil {
		return fmt.Errorf("the record of the trial: %w", err)
	}
	s.Printf("The record is in %s.", out)
	return nil
}

// trialWorld is the world of a trial: that of the session's commands, with counted requests.
type trialWorld struct {
	*Session
	open   opener
	noWait bool

	mu    sync.Mutex
	asked map[string]int
}

func (w *trialWorld) Open(ctx context.Context, spec *spec.Spec) (*cluster.Cluster, func(), error) {
	c, end, err := w.open(ctx, spec, func(next http.RoundTripper) http.RoundTripper { return requestCounts{w, next} })
	w.Cluster = c
	return c, end, err
}

// Run shows events as cluster:up does; its error is the cause, for the record.
func (w *trialWorld) Run(ctx context.Context, g *converge.Graph, listen func(converge.Event)) (*converge.Report, error) {
	ctx, right := w.hold(ctx, w.noWait)
	defer right.release(ctx)
	right.guard(ctx, g)
	display := w.Display(g.Names())
	defer display.Close()
	report, _, err := attempt(ctx, g, display, func(e converge.Event) {
		display.Listen(e)
		if listen != nil {
			listen(e)
		}
	})
	return report, err
}

func (w *trialWorld) Plan(ctx context.Context, g *converge.Graph) (*converge.Plan, error) {
	return w.plan(ctx, g)
}

func (w *trialWorld) Requests() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.asked)
}

// requestCounts counts requests.
type requestCounts struct {
	w    *trialWorld
	next http.RoundTripper
}

func (c requestCounts) RoundTrip(r *http.Request) (*http.Response, error) {
	c.w.mu.Lock()
	if c.w.asked == nil {
		c.w.asked = map[string]int{}
	}
	c.w.asked[r.Method]++
	c.w.mu.Unlock()
	return c.next.RoundTrip(r)
}
