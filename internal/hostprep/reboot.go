package hostprep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
)

// Reboot returns the reasons to reboot the host; an empty list means that no reboot is needed.
// [Spec.Notes] has problems that a reboot does not fix.
func (spec Spec) Reboot(s State) []string {
	if !spec.GPUs && !spec.Devices {
		return nil
	}
	var out []string
	if spec.pending(s, Boot) {
		out = spec.bootDiffers(s)
	}
	if held := spec.HeldByHostDriver(s); len(held) > 0 && (len(out) > 0 || spec.pending(s, Initramfs)) {
		out = append(out, "the host's own drivers hold "+deviceNames(held))
	}
	return out
}

// bootDiffers says how the running kernel's options differ from the wanted ones.
func (spec Spec) bootDiffers(s State) []string {
	var out []string
	o, running := spec.options(s), parseCmdline(s.Cmdline)
	if missing := o.missing(running); len(missing) > 0 {
		out = append(out, "the kernel runs without "+strings.Join(missing, " "))
	}
	if off := o.unwantedOptions(running); len(off) > 0 {
		out = append(out, "the kernel runs with "+strings.Join(off, " "))
	}
	return out
}

// pending reports whether a change was made after the host started, or still has to be made.
func (spec Spec) pending(s State, id string) bool {
	if c, err := spec.Change(s, id); c != nil || err != nil {
		return true
	}
	f := s.file(stamps + id)
	return f.Text != "" && !f.Changed.Before(s.Booted)
}

// Reboot restarts the host and returns when it is back with another boot ID. ctx bounds the wait. r
// must reconnect by itself, as package remote/ssh does.
func Reboot(ctx context.Context, r remote.Runner) error {
	const bootID = "/proc/sys/kernel/random/boot_id"
	before, err := remote.ReadFile(ctx, r, bootID)
	if err != nil {
		return err
	}
	converge.Progressf(ctx, "rebooting")
	err = remote.Run(ctx, r, "systemctl", "reboot")
	var exit *remote.ExitError
	if errors.As(err, &exit) && exit.Signal == "" && exit.Code > 0 && exit.Code < 128 {
		return fmt.Errorf("the host does not reboot: %w", err) // otherwise the connection ended, as expected
	}
	err = converge.Until(ctx, converge.WaitRule{What: "rebooting", Poll: rebootPoll}, func(ctx context.Context) (string, error) {
		now, err := readOptional(ctx, r, bootID)
		if err == nil && (len(now) == 0 || slices.Equal(now, before)) {
			return "the host has not gone down yet", nil
		}
		return "", err
	})
	if err != nil {
		return fmt.Errorf("the host was told to reboot and has not come back: look at its console: %w", err)
	}
	return nil
}

// The pause between checks, and the limit of one check: a host that is down sends no answer at all.
const (
	rebootPoll = 5 * time.Second
	rebootLook = 20 * time.Second
)

func readOptional(ctx context.Context, r remote.Runner, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, rebootLook)
	defer cancel()
	return remote.ReadFile(ctx, r, path)
}
