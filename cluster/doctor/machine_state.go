package doctor

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/remote"
)

//go:embed look.sh
var observeScript string

// observe reads how a machine is, and which of names it does not resolve, in one round trip. The runner should be
// root's, to read the kernel's log.
func observe(ctx context.Context, r remote.Runner, names ...string) (MachineState, error) {
	asked := time.Now()
	out, err := remote.Output(ctx, r, append([]string{"sh", "-c", observeScript, "look.sh"}, names...)...)
	if err != nil {
		return MachineState{}, err
	}
	return parse(string(out), asked, time.Now())
}

// parse reads the output of the script, which ran between two times of this machine's clock.
func parse(out string, asked, answered time.Time) (MachineState, error) {
	sections := map[string][]string{}
	name, ended := "", false
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\r\n")
		if rest, ok := strings.CutPrefix(line, "@@ "); ok {
			name, ended = rest, rest == "end"
			continue
		}
		if strings.TrimSpace(line) != "" {
			sections[name] = append(sections[name], line)
		}
	}
	if !ended {
		return MachineState{}, errors.New("the output is truncated")
	}
	in := MachineState{
		Disks: usages(sections["disks"]), Inodes: usages(sections["inodes"]), ReadOnly: readOnly(sections["mounts"]),
		Ahead: clockSkew(strings.Join(sections["now"], ""), asked, answered),
		Clock: strings.TrimSpace(strings.Join(sections["clock"], "")), Reboot: sections["reboot"], Kernel: sections["kernel"],
		Unresolved: sections["unresolved"],
	}
	for _, line := range sections["failed"] {
		if f := strings.Fields(strings.TrimLeft(line, "● ")); len(f) > 0 {
			in.Failed = append(in.Failed, f[0])
		}
	}
	return in, nil
}

// clockSkew is by how much a clock is ahead of ours, at least: what the answer's way may explain does
// not count. 0: as far as can be seen, or unknown.
func clockSkew(said string, asked, answered time.Time) time.Duration {
	seconds, err := strconv.ParseFloat(strings.TrimSpace(said), 64)
	if err != nil || seconds < 0 || seconds > 1<<40 {
		return 0
	}
	at := time.UnixMilli(int64(1000 * seconds))
	switch {
	case at.After(answered):
		return at.Sub(answered).Round(time.Second)
	case at.Before(asked):
		return at.Sub(asked).Round(time.Second)
	}
	return 0
}

// usages reads lines of df -P: device, size, used, free, percent, mount point.
func usages(lines []string) []Usage {
	var out []Usage
	for _, line := range lines {
		f := strings.Fields(line)
		if len(f) < 6 {
			continue
		}
		percent, err := strconv.Atoi(strings.TrimSuffix(f[4], "%"))
		at := strings.Join(f[5:], " ")
		if err != nil || slices.ContainsFunc(out, func(u Usage) bool { return u.At == at }) {
			continue // "-": a file system without a number of inodes
		}
		out = append(out, Usage{At: at, Percent: percent})
	}
	return out
}

// readOnly returns the mount points of /proc/self/mountinfo (proc_pid_mountinfo(5)) whose file system,
// on a disk of the machine, is read-only. A mount alone may be so by intent, as a bind mount is.
// Images that are read-only by nature are left out.
func readOnly(mounts []string) []string {
	var out []string
	for _, line := range mounts {
		mount, system, _ := strings.Cut(line, " - ")
		at, of := strings.Fields(mount), strings.Fields(system) // of: type, source, options
		if len(at) < 5 || len(of) < 3 || !strings.HasPrefix(of[1], "/dev/") || slices.Contains([]string{"squashfs", "iso9660"}, of[0]) {
			continue
		}
		if slices.Contains(strings.Split(of[2], ","), "ro") && !slices.Contains(out, at[4]) {
			out = append(out, at[4])
		}
	}
	return out
}

// full returns a file system and its usage, as in "/ is 97 % full".
func (u Usage) full() string { return fmt.Sprintf("%s is %d %% full", u.At, u.Percent) }
