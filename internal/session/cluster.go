package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/history"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/internal/printable"
)

// Validate only reports that Load succeeded.
func Validate(s *Session, ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.Warn()
	servers, agents, gpus := len(s.Spec.Servers()), len(s.Spec.Agents()), s.Spec.GPUCount()
	if ref := s.Spec.Proxmox.TokenSecret; !ref.IsZero() {
		if _, err := ref.Resolve(); err != nil {
			s.Printf("warning: %s", s.errorAt("proxmox.secret", fmt.Errorf("proxmox.secret: %w", err)))
		}
	}
	s.Printf("%s is valid: %s, %s, %s.", s.Spec.Name, printable.Count(servers, "server"), printable.Count(agents, "agent"),
		printable.Count(gpus, "GPU"))
	return nil
}

// Plan prints what Up would do. Its exit code is 0 for nothing and 2 for something.
func Plan(s *Session, ctx context.Context) error {
	s.Warn()
	plan, err := s.plan(ctx, s.Cluster.Up())
	if err != nil {
		return err
	}
	if err := s.Console.Plan(plan); err != nil {
		return err
	}
	warnOfHosts(s)
	if err := plan.Err(); err != nil {
		return exitErrorf(1, "not everything could be checked")
	}
	if err := checkRelease(s, ctx, plan); err != nil {
		return err
	}
	if plan.Changes() {
		printCallbacks(s)
		return exitErrorf(pending, "there is something to change: homelab cluster:up does it")
	}
	return nil
}

// Up brings the world to what the file says; it first asks about costs.
func Up(s *Session, ctx context.Context, f UpFlags) error {
	start := time.Now()
	up := s.Cluster.Up()
	w := Change{Question: "Go on?", narrow: true}
	plan, agreed, err := s.agree(ctx, up, f, w)
	if err != nil {
		return err
	}
	looked, report := 0, (*converge.Report)(nil)
	if plan != nil && plan.Converged() { // which Plan has just checked
		looked = len(plan.Items)
	} else if report, err = s.run(ctx, up, agreed, plan != nil && plan.Err() == nil, f.NoWait); report != nil && report.Count(converge.Changed) == 0 {
		looked = len(report.Steps)
	}
	s.saveHostKeys()
	warnOfHosts(s)
	s.warnOfHub()
	if name, where := s.Cluster.UpgradeSnapshot(); name != "" && err == nil { // an error says it itself
		s.Printf("etcd as it was before the upgrade: snapshot %s %s", name, where)
	}
	if err != nil {
		return err
	}
	if looked > 0 {
		s.Printf("Nothing to change: all %d steps are up to date (%s).", looked, timeSince(start))
		return nil
	}
	s.Printf("Done in %s: %s changed something, %d found nothing to do.", timeSince(start),
		printable.Count(report.Count(converge.Changed), "step"), report.Count(converge.Unchanged))
	printNext(s)
	return nil
}

// warnOfHosts prints the notes and the warnings of the checks of the hosts.
func warnOfHosts(s *Session) {
	warnings, notes := s.Cluster.HostWarnings()
	for _, note := range notes {
		s.Printf("note: %s", note)
	}
	for _, w := range warnings {
		s.Printf("warning: %s", w)
	}
}

// saveHostKeys writes the host keys that were read. This is a cache: without it the next command reads
// them again.
func (s *Session) saveHostKeys() {
	if err := s.Cluster.SaveHostKeys(); err != nil {
		s.Printf("warning: %s", err)
	}
}

// next says what to do next.
func printNext(s *Session) {
	step := func(do, why string) { s.Printf("  %-32s %s", s.Commands(do), why) }
	s.Printf("\nNext:")
	if len(s.Spec.GPUNodes()) > 0 {
		step("homelab gpu:verify", "run a CUDA job on every GPU")
	}
	s.Printf("  kubectl --kubeconfig=%s get nodes", printable.Word(s.Cluster.KubeconfigPath()))
	places := s.Cluster.Endpoints()
	for _, p := range places {
		if p.Part == "jupyterhub" {
			step("homelab hub:verify", "compute in a server of each profile")
			step("homelab hub:open", p.URL+", "+p.Title)
			continue
		}
		step(p.URL, p.Title)
	}
	printCallbacks(s)
	if len(cluster.Passwords(s.Spec)) > 0 {
		step("homelab platform:passwords", "generated first passwords")
	}
	if len(places) > 0 && s.Spec.IsLab() {
		s.Printf("The lab's names and addresses do not exist on this machine: hub:open uses the lab's jump host.")
	}
	if hint := gpuHint(s.Spec); hint != "" {
		s.Printf("%s", hint)
	}
}

// printCallbacks prints the addresses that a login's provider has to know before people can sign in.
func printCallbacks(s *Session) {
	for _, c := range cluster.Callbacks(s.Spec) {
		s.Printf("  %-32s redirect URL %s, at the provider", c.URL, c.Title)
	}
}

// run runs a graph with a suitable display. Failures are printed as they happen, and the error
// at the end names them again. If something has to be done, it takes the lease before it
// checks, because it could otherwise wait for something that another run removes.
func (s *Session) run(ctx context.Context, g *converge.Graph, agreed *converge.Agreement, todo, noWait bool) (*converge.Report, error) {
	held, right := s.hold(ctx, noWait)
	defer right.release(held)
	if todo {
		if err := right.acquireFirst(ctx, held); err != nil {
			return nil, err
		}
	}
	right.guard(held, g)
	return s.recordRun(s.runAgreed(held, g, agreed, Change{Question: "Go on?", narrow: true}))
}

// recordRun remembers what a run said that failed, for cluster:doctor. Without it only less is known.
func (s *Session) recordRun(report *converge.Report, err error) (*converge.Report, error) {
	if report == nil {
		return report, err
	}
	last := history.Run{Ended: time.Now()}
	for _, step := range report.Steps {
		if step.Err != nil {
			last.Failed = append(last.Failed, history.Step{Name: step.Step, Error: s.Redact.Redact(step.Err.Error())})
		}
	}
	if why := history.SaveRun(s.LastRunFile(), last); why != nil {
		s.Printf("warning: what failed could not be kept for cluster:doctor: %s", why)
	}
	return report, err
}

// LastRunFile is the file with the last run on this machine, if that failed.
func (s *Session) LastRunFile() string { return filepath.Join(s.dir(), history.RunFile) }

// run runs a graph of a command that has these flags.
func run(ctx context.Context, c *console.Console, g *converge.Graph, w Change) (*converge.Report, error) {
	display := c.Display(g.Names())
	report, no, err := attempt(ctx, g, display, display.Listen)
	display.Close()
	if c.Recorder != nil && report != nil {
		c.Recorder.RecordRun(report)
	}
	switch {
	case report == nil:
		return nil, err
	case errors.Is(context.Cause(ctx), converge.ErrLeaseLost):
		return report, exitErrorf(1, "stopped: %w; look at cluster:plan before you run it again%s", context.Cause(ctx), failuresText(report, nil))
	case ctx.Err() != nil:
		return report, interruptionError(ctx, err, failuresText(report, err))
	case no != nil: // steps that were still retrying failed with it
		return report, notStartedError(no, failuresText(report, nil))
	case err == nil:
		return report, nil
	}
	return report, failures(c, report, w)
}

// attempt runs a graph, and again if it had to wait for the lease: another run may have
// changed what this one had checked. no is the reason why it could not start.
func attempt(ctx context.Context, g *converge.Graph, d console.Display, listen func(converge.Event)) (report *converge.Report, no, err error) {
	var late atomic.Bool
	if before := g.BeforeActing; before != nil {
		g.BeforeActing = func(ctx context.Context) error {
			no = before(ctx)
			late.Store(errors.Is(no, errMeanwhile))
			return no
		}
	}
	report, err = g.Run(ctx, func(e converge.Event) {
		if !late.Load() || e.Kind != converge.Cancelled && e.Kind != converge.Skipped {
			listen(e)
		}
	})
	if late.Swap(false) && ctx.Err() == nil {
		no = nil
		d.Reset()
		report, err = g.Run(ctx, listen)
	}
	return report, no, err
}

// failures names the failed steps of a run, and says what to do.
func failures(c *console.Console, report *converge.Report, w Change) error {
	var names []string
	for _, step := range report.Steps {
		if step.Err == nil {
			continue
		}
		names = append(names, step.Step)
		if c.JSON { // another program reads the events
			c.Printf("✗ %s\n  %s", step.Step, strings.ReplaceAll(step.Err.Error(), "\n", "\n  "))
		}
	}
	unstarted := ""
	if n := report.Count(converge.Skipped); n > 0 {
		unstarted = fmt.Sprintf(", %d of %d steps could not start", n, len(report.Steps))
	}
	if costs, alone := refusedCosts(report); alone {
		rest := ". Everything else is done; run it again, and it asks"
		if !w.narrow || unstarted != "" {
			rest = unstarted + "; what is done stays done: run it again, and it asks"
		}
		return exitErrorf(refused, "%s not done: its costs appeared only now, and nobody has agreed to them%s (%s agrees to them)",
			strings.Join(names, ", "), rest, w.flags(&converge.Agreement{}, costs...))
	}
	return exitErrorf(1, "%s failed%s; what is done stays done: fix it and run it again", strings.Join(names, ", "), unstarted)
}

// notStartedError is the error of a run that was refused before its first change; wrong has further
// failures.
func notStartedError(err error, wrong string) error {
	code := 1
	if errors.As(err, new(*converge.LeaseHeldError)) {
		code = refused
	}
	return exitErrorf(code, "nothing was changed: %w%s", err, wrong)
}

// interruptionError is the error of a command that was interrupted or timed out, and err otherwise; wrong
// has further failures.
func interruptionError(ctx context.Context, err error, wrong string) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return exitErrorf(1, "timed out (-timeout); run it again and it continues from here%s", wrong)
	case ctx.Err() != nil:
		return exitErrorf(130, "interrupted; run it again and it continues from here%s", wrong)
	}
	return err
}

// failuresText lists the failures of an interrupted run, one line per step, and the run that it
// waited for.
func failuresText(r *converge.Report, err error) string {
	var b strings.Builder
	var held *converge.LeaseHeldError
	if errors.As(err, &held) {
		fmt.Fprintf(&b, "\n%s", held)
	}
	for _, step := range r.Steps {
		if step.Err != nil {
			fmt.Fprintf(&b, "\n✗ %s\n  %s", step.Step, strings.ReplaceAll(step.Err.Error(), "\n", "\n  "))
		}
	}
	return b.String()
}

// Status prints a line for each node and what is wrong.
func Status(s *Session, ctx context.Context) error {
	plan, err := s.plan(ctx, s.Cluster.Up())
	if err != nil {
		return err
	}
	if s.JSON {
		return s.Console.Plan(plan)
	}
	inv := s.Inventory(ctx, plan)
	wrong := s.Console.Status(plan, Machines(inv), platformParts(s)...)
	if err := inv.Err(); err != nil {
		s.Printf("warning: not everything about the machines is known: %s", err)
	}
	warnOfHosts(s)
	if wrong {
		return exitErrorf(pending, "not everything is up to date: homelab cluster:plan shows what differs")
	}
	return nil
}

// plan plans, and shows progress if that takes a while.
func (s *Session) plan(ctx context.Context, g *converge.Graph) (*converge.Plan, error) {
	looking := s.Console.CheckProgress(len(g.Names()))
	defer looking.Close()
	plan, err := g.PlanWithEvents(ctx, looking.Listen)
	if s.Recorder != nil && plan != nil {
		s.Recorder.RecordPlan(plan)
	}
	return plan, err
}

// parts returns the parts of the platform for the display.
func platformParts(s *Session) []console.Part {
	var out []console.Part
	for _, p := range s.Cluster.Parts() {
		out = append(out, console.Part{Name: p.Name, Chart: p.Chart, Via: p.Via, Classes: p.Classes})
	}
	return out
}

// Down destroys the cluster, after asking.
func Down(s *Session, ctx context.Context, f DownFlags) error {
	var also []string
	if f.Also != "" {
		also = append(also, f.Also)
	}
	keeps, err := s.Cluster.KeptMachines(ctx)
	if err != nil {
		return err
	}
	strays, err := s.Cluster.Strays(ctx)
	if err != nil {
		return err
	}
	for _, stray := range strays {
		s.Printf("warning: %s", stray)
	}
	for _, vm := range keeps {
		if vm.Name != f.Also {
			s.Printf("This keeps the NFS server %s (VM %d on %s) with its data. -also=%s destroys it too.", vm.Name, vm.VMID, vm.Host, vm.Name)
		}
	}
	build := func(ctx context.Context) (*converge.Graph, error) { return s.Cluster.Down(ctx, also...) }
	return s.runConfirmed(ctx, build, Change{
		ChangeFlags: f.ChangeFlags, Question: "Destroy all this?", Name: s.Spec.Name,
		Nothing: fmt.Sprintf("%s has nothing left to destroy.", s.Spec.Name),
		Done:    "Gone." + dataStays(s, f.Also),
	})
}

// stays says which data of a cluster is kept elsewhere; also is a machine with data that was destroyed.
func dataStays(s *Session, also string) string {
	key, path := "", filepath.Join(s.dir(), keyFile)
	if _, err := os.Stat(path); err == nil && s.Spec.Access.PrivateKey == "" && !s.Spec.Access.Agent { // else it is the user's own
		key = " The login key stays: " + path + "."
	}
	var out []string
	for _, part := range platform.Parts(s.Spec) {
		i, nfs := part.Info(), s.Spec.Platform.Storage.NFS
		if gone := i.Name == "nfs" && nfs != nil && nfs.VM != nil && nfs.VM.Name == also; i.Stays != "" && !gone {
			out = append(out, i.Stays)
		}
	}
	switch {
	case len(out) == 0:
		return key
	case key == "":
		return " What is stored elsewhere stays: " + strings.Join(out, ", ") + "."
	}
	return key + " So does what is stored elsewhere: " + strings.Join(out, ", ") + "."
}

// Kubeconfig updates the kubeconfig and prints its path.
func Kubeconfig(s *Session, ctx context.Context) error {
	if err := s.Cluster.WriteKubeconfig(ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintln(s.Data, s.Cluster.KubeconfigPath())
	return err
}

func timeSince(t time.Time) time.Duration { return time.Since(t).Round(100 * time.Millisecond) }
