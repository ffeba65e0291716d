package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/console"
)

// flags returns the command's flags that agree to these costs.
func (c Change) flags(agreed *converge.Agreement, costs ...converge.Cost) string {
	if c.narrow {
		return costFlags(agreed, costs) + ", or -yes,"
	}
	return "-yes"
}

// costFlags returns the flags that agree to these costs and to nothing else.
func costFlags(agreed *converge.Agreement, costs []converge.Cost) string {
	var flags []string
	of := func(kind converge.CostKind) bool {
		return slices.ContainsFunc(costs, func(c converge.Cost) bool { return c.Kind == kind })
	}
	if of(converge.CostLogin) {
		flags = append(flags, "-login")
	}
	if of(converge.CostStop) {
		flags = append(flags, "-restart")
	}
	if of(converge.CostDestroy) {
		flags = append(flags, "-destroy="+strings.Join(agreed.Names(costs...), ","))
	}
	return strings.Join(flags, " ")
}

// agree plans a graph. It shows the costs that no flag agrees to and asks about them once;
// from then on the graph does only that. The plan is nil if nobody has to be asked in any
// case.
func (s *Session) agree(ctx context.Context, g *converge.Graph, f UpFlags, w Change) (*converge.Plan, *converge.Agreement, error) {
	agreed := &converge.Agreement{Everything: f.Yes, Restarts: f.Restart, Logins: f.Login, Destroy: splitNames(f.Destroy)}
	g.Approve = agreed.Approve
	if f.Yes {
		g.NoCosts = true
		return nil, agreed, nil
	}
	plan, err := s.plan(ctx, g)
	if err != nil {
		return nil, nil, interruptionError(ctx, err, "")
	}
	return plan, agreed, s.askAboutCosts(ctx, plan, agreed, w)
}

// askAboutCosts asks about the costs of a plan that were not agreed to.
func (s *Session) askAboutCosts(ctx context.Context, plan *converge.Plan, agreed *converge.Agreement, w Change) error {
	lacking := agreed.NotAgreed(plan)
	if len(lacking) == 0 {
		return nil
	}
	if w.show {
		if err := s.Console.Plan(plan); err != nil {
			return err
		}
	} else {
		s.Costs(lacking)
	}
	for _, name := range agreed.Ambiguous() {
		s.Printf("warning: -destroy=%s agrees to nothing: things of several kinds have that name; write which one is meant: %s", name,
			costFlags(agreed, lacking))
	}
	if !s.isInteractive() {
		return exitErrorf(refused, "nothing was changed: there is no terminal to ask on: add %s", strings.TrimSuffix(w.flags(agreed, lacking...), ","))
	}
	question, answers := s.questionFor(lacking, w)
	if err := s.ask(ctx, question, answers...); err != nil {
		return err
	}
	agreed.Agree(lacking...)
	return nil
}

// runAgreed runs a graph. If steps were refused because of what was not shown, and nothing else
// failed, it asks about that and runs them, as often as there is something new.
func (s *Session) runAgreed(ctx context.Context, g *converge.Graph, agreed *converge.Agreement, w Change) (*converge.Report, error) {
	done := map[string]bool{}
	for {
		report, err := run(ctx, s.Console, g, w)
		if report == nil {
			return nil, err
		}
		for i, step := range report.Steps {
			if done[step.Step] = done[step.Step] || step.Kind == converge.Changed; done[step.Step] && step.Kind == converge.Unchanged {
				report.Steps[i].Kind = converge.Changed
			}
		}
		costs, alone := refusedCosts(report)
		if !alone || ctx.Err() != nil || !s.isInteractive() {
			return report, err
		}
		s.Printf("\nThis was not shown before, and is not done yet:")
		s.Costs(costs)
		question, answers := s.questionFor(costs, w)
		if s.ask(ctx, question, answers...) != nil {
			return report, err
		}
		agreed.Agree(costs...)
	}
}

// questionFor returns what to type to agree: a letter if everything comes back, and a name if
// something is destroyed, so that nobody destroys the wrong thing.
func (s *Session) questionFor(lacking []converge.Cost, w Change) (question string, answers []string) {
	gone := map[[2]string]bool{} // by sort and name
	one := ""
	for _, c := range lacking {
		if c.Kind == converge.CostDestroy {
			gone[[2]string{c.Object, c.Machine}], one = true, c.Machine
		}
	}
	name := w.Name
	switch {
	case len(gone) == 0:
		return w.Question + " [y/N] ", []string{"y", "yes"}
	case name == "" && len(gone) == 1:
		name = one
	case name == "":
		name = s.Spec.Name
	}
	return fmt.Sprintf("%s Type %s: ", w.Question, name), []string{name}
}

// refusedCosts returns the costs because of which steps were refused, and whether nothing else
// failed.
func refusedCosts(r *converge.Report) (costs []converge.Cost, alone bool) {
	alone = true
	for _, step := range r.Steps {
		var no *converge.RefusedError
		switch {
		case step.Err == nil:
		case errors.As(step.Err, &no):
			costs = append(costs, no.Costs...)
		default:
			alone = false
		}
	}
	return costs, alone && len(costs) > 0
}

// splitNames reads names separated by commas.
func splitNames(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

// isInteractive reports whether there is somebody to ask.
func (s *Session) isInteractive() bool { return s.keys != nil || term.IsTerminal(int(os.Stdin.Fd())) }

// ask returns nil if the answer is one of these.
func (s *Session) ask(ctx context.Context, question string, answers ...string) error {
	if s.keys != nil {
		return askWithKeys(ctx, s.Console, s.keys, question, answers...)
	}
	return ask(ctx, s.Console, question, answers...)
}

// ask asks on the terminal.
func ask(ctx context.Context, c *console.Console, question string, answers ...string) error {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return exitErrorf(refused, "there is no terminal to ask on: add -yes")
	}
	return askWithKeys(ctx, c, os.Stdin, question, answers...)
}

func askWithKeys(ctx context.Context, c *console.Console, keys io.Reader, question string, answers ...string) error {
	c.Prompt(question)
	got, err := readLine(ctx, func() (string, error) { return bufio.NewReader(keys).ReadString('\n') })
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return exitErrorf(1, "timed out (-timeout) waiting for an answer; nothing was changed")
	case ctx.Err() != nil:
		return exitErrorf(130, "interrupted; nothing was changed")
	case err != nil:
		got = ""
	case len(answers) > 1: // letters, and not a name
		got = strings.ToLower(got)
	}
	if !slices.Contains(answers, strings.TrimSpace(got)) {
		return exitError(refused, errors.New("nothing was changed"))
	}
	return nil
}

// readLine waits for a line, or for the end of ctx: the read on the terminal then continues until
// the process ends.
func readLine(ctx context.Context, read func() (string, error)) (string, error) {
	type line struct {
		text string
		err  error
	}
	got := make(chan line, 1)
	go func() {
		text, err := read()
		got <- line{text, err}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case l := <-got:
		return l.text, l.err
	}
}
