package session

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/labneeds"
)

// LabStart starts or finds the lab, with the hardware for the cluster file in the current
// folder, if that is for the lab.
func LabStart(ctx context.Context) error {
	s := &Session{Console: console.New(false)}
	if file := filepath.Join(home(), DefaultSpec); isFile(file) {
		var err error
		if s.Spec, err = cluster.Load(file); err != nil {
			return exitError(invalid, err)
		}
	}
	start := time.Now()
	lab, err := s.StartLab(ctx)
	if err != nil {
		return err
	}
	if err := s.labFits(lab); err != nil {
		return err
	}
	s.Printf("%s", lab.Guests.Banner())
	s.Printf("The lab runs (%s): %s, %s, pid %d.", timeSince(start), lab.Model, lab.Endpoint, lab.PID)
	return nil
}

// StartLab returns the lab, and starts it if it does not run. It shows progress, because the
// first build takes minutes. A lab that runs may not fit the cluster file: see labFits.
func (s *Session) StartLab(ctx context.Context) (labctl.State, error) {
	ctx, end := WithProgress(ctx, s.Console)
	defer end()
	o := labctl.Options{Dir: LabDir()}
	if s.Spec != nil && s.Spec.IsLab() {
		needs := labneeds.NeedsOf(s.Spec)
		o.Needs, o.Precheck = &needs, func() error { return guestsCanRun(s.Spec) }
	}
	lab, err := labctl.Start(ctx, o)
	if refusal, ok := errors.AsType[*labctl.RefusalError](err); ok {
		return lab, exitError(invalid, refusal)
	}
	return lab, err
}

// WithProgress shows the progress of what is done with ctx, until end is called.
func WithProgress(ctx context.Context, c *console.Console) (shown context.Context, end func()) {
	said, at := "", time.Time{}
	return converge.WithProgress(ctx, func(u converge.ProgressUpdate) {
		// In place on a terminal; elsewhere a line from time to time.
		if m := u.String(); m != said && (c.Live || time.Since(at) > 15*time.Second) {
			said, at = m, time.Now()
			c.Progress(m)
		}
	}), func() { c.Progress("") }
}

// labFits refuses a lab whose hardware or VMs are not what the file wants.
func (s *Session) labFits(lab labctl.State) error {
	if s.Spec == nil || !s.Spec.IsLab() {
		return nil
	}
	const other = "end it with homelab lab:stop, and the next command starts one that does; its contents will be lost"
	if lacks := labneeds.NeedsOf(s.Spec).Missing(lab.Hardware); len(lacks) > 0 {
		return exitErrorf(invalid, "the lab runs with the hardware %q, which does not fit %s: %s\n"+other, lab.Model, s.Spec.Name, strings.Join(lacks, ", "))
	}
	asked := labneeds.Guests(s.Spec)
	asked.Image = lab.Guests.Image
	if asked == lab.Guests {
		return nil
	}
	return exitErrorf(invalid, "the lab runs with %s, and %s asks for %s\n"+other, lab.Guests, s.Spec.Name, asked)
}

// LabStatus prints the lab's status; exit code 2 if it does not run.
func LabStatus(ctx context.Context, f LabStatusFlags) error {
	s := &Session{Console: console.New(f.JSON)}
	status, err := labctl.Stat(ctx, LabDir())
	if errors.Is(err, labctl.ErrNotRunning) {
		return exitError(pending, err)
	}
	if err != nil {
		return err
	}
	if f.JSON {
		return console.Objects(s.Console, []labctl.Status{status})
	}
	t := console.Table{Header: []string{"PROGRAM", "PID", "MEMORY"}}
	for _, p := range status.Processes {
		t.Add(p.Name, fmt.Sprint(p.PID), fmt.Sprintf("%d MiB", p.Memory>>20))
	}
	s.Table(t)
	s.Printf("%s", status.Guests.Banner())
	s.Printf("%s at %s, up %s, %d MiB in all.", status.Model, status.Endpoint, status.Uptime, status.Memory()>>20)
	if status.Outdated {
		s.Printf("It runs an older build than the sources here: homelab lab:stop, and the next command starts the new one.")
	}
	return nil
}

// LabStop ends the lab.
func LabStop(ctx context.Context) error {
	s := &Session{Console: console.New(false)}
	_, running := labctl.Find(ctx, LabDir())
	if err := labctl.Stop(ctx, LabDir()); err != nil {
		return err
	}
	if errors.Is(running, labctl.ErrNotRunning) {
		s.Printf("No lab was running.")
		return nil
	}
	s.Printf("The lab is stopped and its contents are gone.")
	return nil
}
