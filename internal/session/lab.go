package session

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/clusterfile"
	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/keep"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/labmodel"
	"github.com/cps-gpu/homelab/sim/pvesim"
	"github.com/cps-gpu/homelab/spec"
)

// LabStart starts or finds the lab, with the hardware for the cluster file in the current
// folder, if that is for the lab.
func LabStart(ctx context.Context) error {
	s := &Session{Console: console.New(false)}
	if file := filepath.Join(home(), DefaultSpec); isFile(file) {
		var err error
		if s.Spec, err = clusterfile.Load(file); err != nil {
			return failed(invalid, err)
		}
	}
	start := time.Now()
	lab, err := s.StartLab(ctx)
	if err != nil {
		return err
	}
	s.Say("%s", lab.Guests.Banner())
	s.Say("The lab runs (%s): %s, %s, pid %d.", since(start), lab.Model, lab.Endpoint, lab.PID)
	return nil
}

// StartLab returns the lab, and starts it if it does not run. It shows progress, because the
// first build takes minutes.
func (s *Session) StartLab(ctx context.Context) (labctl.State, error) {
	ctx, end := Shown(ctx, s.Console)
	defer end()
	model, err := s.labModel(ctx, LabDir())
	if err != nil {
		return labctl.State{}, err
	}
	guests, err := s.labGuests(ctx)
	if err != nil {
		return labctl.State{}, err
	}
	return labctl.Start(ctx, labctl.Options{Dir: LabDir(), Model: model, Guests: guests})
}

// Shown shows the progress of what is done with ctx, until end is called.
func Shown(ctx context.Context, c *console.Console) (shown context.Context, end func()) {
	said, at := "", time.Time{}
	return progress.With(ctx, func(u progress.Update) {
		// In place on a terminal; elsewhere a line from time to time.
		if m := u.String(); m != said && (c.Live || time.Since(at) > 15*time.Second) {
			said, at = m, time.Now()
			c.Progress(m)
		}
	}), func() { c.Progress("") }
}

// labModel chooses the lab's hardware for the cluster file. A running lab keeps its own if
// that fits.
func (s *Session) labModel(ctx context.Context, dir string) (string, error) {
	spec := s.Spec
	if spec != nil && !spec.IsLab() {
		spec = nil
	}
	running, err := labctl.Find(ctx, dir)
	switch {
	case err == nil && spec == nil:
		return running.Model, nil
	case err == nil:
		return running.Model, fits(running.Model, spec)
	case spec == nil:
		return labctl.DefaultModel, nil
	}
	name, model := labmodel.For(spec)
	if name != "" {
		return name, nil
	}
	text, err := model.YAML()
	if err != nil {
		return "", err
	}
	file, err := filepath.Abs(filepath.Join(dir, "model-"+spec.Name+".yaml"))
	if err != nil {
		return "", err
	}
	text = append([]byte("# The lab's hardware, generated for "+spec.File+"; generated again for the next lab.\n"), text...)
	return file, keep.Whole(file, text, 0o600)
}

// fits refuses a lab whose hardware does not fit the cluster file.
func fits(name string, spec *spec.Spec) error {
	model, err := pvesim.LoadModel(name)
	if err != nil {
		return fmt.Errorf("the lab's hardware: %w", err)
	}
	if lacks := labmodel.Lacks(model, spec); len(lacks) > 0 {
		return failedf(invalid, "the lab runs with the hardware %q, which does not fit %s: %s\n"+
			"end it with go tool mage lab:stop, and the next command starts one that does; its contents will be lost", name, spec.Name, strings.Join(lacks, ", "))
	}
	return nil
}

// LabStatus prints the lab's status; exit code 2 if it does not run.
func LabStatus(ctx context.Context, f LabStatusFlags) error {
	s := &Session{Console: console.New(f.JSON)}
	status, err := labctl.Stat(ctx, LabDir())
	if errors.Is(err, labctl.ErrNotRunning) {
		return failed(pending, err)
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
	if status.Guests.Real() {
		s.Say("%s", status.Guests.Banner())
	}
	s.Say("%s at %s, up %s, %d MiB in all.", status.Model, status.Endpoint, status.Uptime, status.Memory()>>20)
	if status.Outdated {
		s.Say("It runs an older build than the sources here: go tool mage lab:stop, and the next command starts the new one.")
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
		s.Say("No lab was running.")
		return nil
	}
	s.Say("The lab is stopped and its contents are gone.")
	return nil
}
