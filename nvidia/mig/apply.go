package mig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
)

// Diff says which GPUs are divided in another way than wanted, and whether the service that
// divides them at boot is in place. A machine of which no GPU is to be divided has no such
// service.
func (s State) Diff(want []Layout) converge.Diff {
	return append(s.diffService(want), s.DiffGPUs(want)...)
}

// DiffGPUs says which GPUs are divided in another way than wanted.
func (s State) DiffGPUs(want []Layout) converge.Diff {
	var d converge.Diff
	for _, l := range want {
		g, there := s.gpu(l.Index)
		if !there {
			d = append(d, converge.Field{Path: path(l.Index), Have: "missing", Want: l.String(), Effect: converge.Restart, Note: "the driver sees no such GPU"})
			continue
		}
		if f, differs := g.diff(l); differs {
			d = append(d, f)
		}
	}
	return d
}

func path(index int) string { return fmt.Sprintf("GPU %d", index) }

func (g GPU) diff(l Layout) (converge.Field, bool) {
	divided := len(l.Profiles) > 0
	if g.Mode == divided && g.Pending == divided && (!divided || maps.Equal(g.Instances, l.Profiles)) {
		return converge.Field{}, false
	}
	f := converge.Field{Path: path(g.Index), Have: profilesText(g.Instances), Want: l.String(), Effect: converge.Restart}
	switch {
	case divided && !g.Capable:
		f.Note = g.Kind.Name + " cannot be divided"
	case g.Mode && len(g.Instances) == 0:
		f.Have = "in MIG mode, without instances"
	case !g.Mode && g.Pending:
		f.Have = "whole, MIG mode pending"
	}
	if g.Mode && !g.Pending {
		f.Have += ", whole once the card is reset"
	}
	return f, true
}

// diffService compares what is on the machine for the next boot.
func (s State) diffService(want []Layout) converge.Diff {
	has := s.layout != "" || s.program != "" || s.unit != ""
	if !divides(want) {
		if !has {
			return nil
		}
		return converge.Diff{{Path: "service", Have: unitName, Want: "none: no GPU is divided", Effect: converge.Update}}
	}
	text, err := s.file(want)
	switch {
	case err != nil: // Install says it
		return converge.Diff{{Path: "service", Want: unitName, Effect: converge.Create}}
	case !has:
		return converge.Diff{{Path: "service", Want: unitName + " divides the GPUs at every boot", Effect: converge.Create}}
	case s.layout != strings.TrimSpace(text), s.program != strings.TrimSpace(divideScript), s.unit != strings.TrimSpace(unitText), !s.enabled:
		return converge.Diff{{Path: "service", Have: "with another layout, or not enabled", Want: unitName + " divides the GPUs at every boot", Effect: converge.Update}}
	}
	return nil
}

// divides reports whether any GPU is to be divided.
func divides(want []Layout) bool {
	return slices.ContainsFunc(want, func(l Layout) bool { return len(l.Profiles) > 0 })
}

// file is the layout as the service reads it: a line for each GPU, with instances as nvidia-smi
// takes them, or off.
func (s State) file(want []Layout) (string, error) {
	var b strings.Builder
	var errs []error
	for _, l := range want {
		if len(l.Profiles) == 0 {
			fmt.Fprintf(&b, "%d off\n", l.Index)
			continue
		}
		list, err := s.instancesOf(l)
		if err != nil {
			errs = append(errs, fmt.Errorf("GPU %d: %w", l.Index, err))
			continue
		}
		fmt.Fprintf(&b, "%d %s\n", l.Index, list)
	}
	return b.String(), errors.Join(errs...)
}

// instancesOf are profiles with their places, or without where only the driver knows those.
func (s State) instancesOf(l Layout) (string, error) {
	g, there := s.gpu(l.Index)
	if !there {
		return "", errors.New("the driver sees no such GPU")
	}
	var out []string
	if chip, known := ChipOf(g.Kind); known {
		places, err := chip.Place(l.Profiles)
		for _, p := range places {
			out = append(out, fmt.Sprintf("%s:%d", p.Profile, p.Start))
		}
		return strings.Join(out, ","), err
	}
	if err := CheckFit(g.Kind, l.Profiles); err != nil {
		return "", err
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(l.Profiles))) { // 7g before 1g
		out = append(out, slices.Repeat([]string{name}, l.Profiles[name])...)
	}
	return strings.Join(out, ","), nil
}

// Check returns a [*LayoutError] if a layout does not fit its GPU.
func (s State) Check(want []Layout) error {
	_, err := s.file(want)
	return err
}

// Install writes the layout and the service that divides the GPUs at every boot. It divides
// nothing now. If a layout does not fit its GPU, it changes nothing and returns a [*LayoutError].
func Install(ctx context.Context, r remote.Runner, want []Layout) error {
	s, err := Observe(ctx, r)
	if err != nil {
		return err
	}
	text, err := s.file(want)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		path, text string
		mode       fs.FileMode
	}{{layoutFile, text, 0o644}, {programFile, divideScript, 0o755}, {unitFile, unitText, 0o644}} {
		if err := remote.WriteFile(ctx, r, f.path, []byte(f.text), f.mode); err != nil {
			return fmt.Errorf("install %s: %w", unitName, err)
		}
	}
	if err := remote.Run(ctx, r, "systemctl", "daemon-reload"); err != nil {
		return fmt.Errorf("install %s: %w", unitName, err)
	}
	return remote.Run(ctx, r, "systemctl", "enable", unitName)
}

// Switch sets the MIG mode of the GPUs as installed, without making instances. A mode that stays
// pending is not an error: it needs a reset of the card, which stopping the VM gives.
func Switch(ctx context.Context, r remote.Runner) error {
	err := r.Run(ctx, remote.Cmd{Args: []string{programFile, "mode"}, Stdout: converge.ProgressWriter(ctx)})
	var exit *remote.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// Divide divides the GPUs as installed, now. No program may use them. The result is for
// [Observe]: a mode may stay pending.
func Divide(ctx context.Context, r remote.Runner) error {
	var said remote.Tail
	err := r.Run(ctx, remote.Cmd{Args: []string{programFile}, Stdout: io.MultiWriter(converge.ProgressWriter(ctx), &said)})
	var exit *remote.ExitError
	if errors.As(err, &exit) && strings.Contains(said.String(), "until the machine has been switched off") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("divide the GPUs: %w\n%s", err, strings.TrimSpace(said.String()))
	}
	return nil
}

// Remove removes the service that divides the GPUs at boot.
func Remove(ctx context.Context, r remote.Runner) error {
	if there, err := remote.Exists(ctx, r, unitFile); err != nil || !there {
		return errors.Join(err, remote.Run(ctx, r, "rm", "-f", layoutFile, programFile))
	}
	if err := remote.Run(ctx, r, "systemctl", "disable", "--now", unitName); err != nil {
		return fmt.Errorf("remove %s: %w", unitName, err)
	}
	if err := remote.Run(ctx, r, "rm", "-f", layoutFile, programFile, unitFile); err != nil {
		return err
	}
	return remote.Run(ctx, r, "systemctl", "daemon-reload")
}
