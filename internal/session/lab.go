package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/labctl"
)

// LabStart starts the lab, or finds it.
func LabStart(ctx context.Context) error {
	s := &Session{Console: console.New(false)}
	start := time.Now()
	lab, err := s.StartLab(ctx)
	if err != nil {
		return err
	}
	s.Say("%s", labctl.Banner)
	s.Say("The lab runs (%s): %s, %s, pid %d.", since(start), lab.Model, lab.Endpoint, lab.PID)
	return nil
}

// LabStatus says how the lab is; exit code 2 when there is none.
func LabStatus(ctx context.Context, asJSON bool) error {
	s := &Session{Console: console.New(asJSON)}
	status, err := labctl.Stat(ctx, "")
	if errors.Is(err, labctl.ErrNotRunning) {
		return failed(pending, err)
	}
	if err != nil {
		return err
	}
	if asJSON {
		return console.Objects(s.Console, []labctl.Status{status})
	}
	t := console.Table{Header: []string{"PROGRAM", "PID", "MEMORY"}}
	for _, p := range status.Processes {
		t.Add(p.Name, fmt.Sprint(p.PID), fmt.Sprintf("%d MiB", p.Memory>>20))
	}
	s.Table(t)
	s.Say("%s at %s, up %s, %d MiB in all.", status.Model, status.Endpoint, status.Uptime, status.Memory()>>20)
	if status.Outdated {
		s.Say("It runs an older build than the sources here: go tool mage lab:stop, and the next command starts the new one.")
	}
	return nil
}

// LabStop ends the lab.
func LabStop(ctx context.Context) error {
	s := &Session{Console: console.New(false)}
	_, running := labctl.Find(ctx, "")
	if err := labctl.Stop(ctx, ""); err != nil {
		return err
	}
	if errors.Is(running, labctl.ErrNotRunning) {
		s.Say("No lab was running.")
		return nil
	}
	s.Say("The lab is stopped; what was in it is gone.")
	return nil
}
