package doctor

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/remote"
)

//go:embed look.sh
var lookScript string

// Look reads how a machine is, in one round trip. The runner should be root's, to read the
// kernel's log.
func Look(ctx context.Context, r remote.Runner) (Inside, error) {
	out, err := remote.Output(ctx, r, "sh", "-c", lookScript)
	if err != nil {
		return Inside{}, err
	}
	return parse(string(out))
}

// parse reads the output of the script.
func parse(out string) (Inside, error) {
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
		return Inside{}, errors.New("the output is truncated")
	}
	in := Inside{
		Disks: usages(sections["disks"]), Inodes: usages(sections["inodes"]), ReadOnly: readOnly(sections["mounts"]),
		Clock: strings.TrimSpace(strings.Join(sections["clock"], "")), Reboot: sections["reboot"], Kernel: sections["kernel"],
	}
	for _, line := range sections["failed"] {
		if f := strings.Fields(strings.TrimLeft(line, "● ")); len(f) > 0 {
			in.Failed = append(in.Failed, f[0])
		}
	}
	return in, nil
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

// readOnly returns the mount points of the kernel's list of mounts that are on a disk of the
// machine and read-only. Images that are read-only by nature are left out.
func readOnly(mounts []string) []string {
	var out []string
	for _, line := range mounts {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(f[0], "/dev/") || slices.Contains([]string{"squashfs", "iso9660"}, f[2]) {
			continue
		}
		if slices.Contains(strings.Split(f[3], ","), "ro") && !slices.Contains(out, f[1]) {
			out = append(out, f[1])
		}
	}
	return out
}

// full returns a file system and its usage, as in "/ is 97 % full".
func (u Usage) full() string { return fmt.Sprintf("%s is %d %% full", u.At, u.Percent) }
