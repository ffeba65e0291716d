package nodes

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/datadisk"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
)

// diskState is the state of a data disk in the guest.
type diskState struct {
	present bool
	fs      string // empty: blank
	at      string // what is mounted at its path: empty, "here" (this disk), or another device
	kept    bool   // it is mounted at the next boot too
	small   bool   // its file system is smaller than the disk
}

// MountedDisks are the disks that the guest mounts.
func MountedDisks(n spec.Node) []spec.Disk {
	return slices.DeleteFunc(slices.Clone(n.Disks), func(d spec.Disk) bool { return d.Mount == "" })
}

// DisksStep formats blank disks, mounts them permanently, and grows file systems with their
// disks, also on a node that has existed for long.
func (ns *Nodes) DisksStep(n spec.Node) *converge.Resource[map[string]diskState] {
	return &converge.Resource[map[string]diskState]{
		ID:      "disks/" + n.Name,
		Observe: func(ctx context.Context) (map[string]diskState, error) { return ns.observeDisks(ctx, n) },
		Diff:    func(have map[string]diskState) converge.Diff { return diffDisks(n, have) },
		Apply: func(ctx context.Context, have map[string]diskState) error {
			var args []string
			for _, d := range MountedDisks(n) {
				seen := have[d.Name]
				if seen.at != "" && seen.at != "here" {
					return converge.Permanent(fmt.Errorf("%s is mounted on %s of %s, where disk %s should be: unmount it there, or write another mount in the file", seen.at, d.Mount, n.Name, d.Name))
				}
				if seen.present {
					args = append(args, scriptArgs(d)...)
				}
			}
			return ns.disksRun(ctx, n, "make", args, nil)
		},
		Settle: diskTime,
		Hint: "lsblk -do NAME,SIZE,SERIAL on " + n.Name + " shows its disks, and qm config those that Proxmox attaches; " +
			"while a disk is missing, K3s does not start there after a reboot, so that pods do not write to the system disk",
	}
}

// scriptArgs are disks.sh's arguments for a disk. Without a file system it formats and grows nothing.
func scriptArgs(d spec.Disk) []string { return []string{d.Name, cmp.Or(d.FS, "-"), d.Mount} }

// diskTime is how long a hot-plugged disk may take to appear.
const diskTime = BootTime / 10

func (ns *Nodes) disksRun(ctx context.Context, n spec.Node, verb string, args []string, out *bytes.Buffer) error {
	if len(args) == 0 {
		return nil
	}
	cmd := remote.Cmd{Args: append([]string{"sh", "-c", datadisk.Script, "disks.sh", verb}, args...)}
	if out != nil {
		cmd.Stdout = out
	}
	return ns.Root(n.Name).Run(ctx, cmd)
}

func (ns *Nodes) observeDisks(ctx context.Context, n spec.Node) (map[string]diskState, error) {
	var args []string
	for _, d := range MountedDisks(n) {
		args = append(args, scriptArgs(d)...)
	}
	var out bytes.Buffer
	if err := ns.disksRun(ctx, n, "look", args, &out); err != nil {
		return nil, err
	}
	return parseDisks(out.String())
}

// parseDisks reads the output of disks.sh look.
func parseDisks(text string) (map[string]diskState, error) {
	all := map[string]diskState{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) == 2 && f[1] == "absent":
			all[f[0]] = diskState{}
		case len(f) == 6 && f[1] == "present":
			word := func(s string) string { return strings.TrimPrefix(s, "-") }
			all[f[0]] = diskState{present: true, fs: word(f[2]), at: word(f[3]), kept: f[4] == "kept", small: f[5] == "small"}
		default:
			return nil, fmt.Errorf("disks of a machine: unexpected line %q", strings.TrimSpace(line))
		}
	}
	return all, nil
}

func diffDisks(n spec.Node, all map[string]diskState) converge.Diff {
	var out converge.Diff
	for _, d := range MountedDisks(n) {
		have := all[d.Name]
		add := func(path, have, want string) {
			out = append(out, converge.Field{Path: d.Name + "/" + path, Have: have, Want: want, Effect: converge.Update})
		}
		switch {
		case !have.present:
			out = append(out, converge.Field{Path: d.Name, Have: "not visible in the guest", Want: "a disk with this serial", Effect: converge.Create})
			continue
		case have.fs == "":
			add("filesystem", "blank", cmp.Or(d.FS, "one that can be mounted"))
		}
		if have.at != "here" {
			add("mount", have.at, d.Mount)
		}
		if !have.kept {
			add("fstab", "", d.Mount)
		}
		if have.small {
			add("filesystem", "smaller than its disk", "grown")
		}
	}
	return out
}

// Detached is the wanted state in a VM's diff for a disk that is no longer in the file.
const Detached = "detached"

// UnmountRemoved unmounts the disks that a VM is about to lose. A disk in use stays.
func (ns *Nodes) UnmountRemoved(ctx context.Context, n spec.Node, diff converge.Diff, vm *proxmox.VM) error {
	var serials []string
	for _, f := range diff {
		slot, _ := strings.CutPrefix(f.Path, "disk/")
		if have, found := vm.Disk(slot); found && f.Want == Detached {
			serials = append(serials, have.Serial)
		}
	}
	if err := ns.disksRun(ctx, n, "free", serials, nil); err != nil {
		return converge.Permanent(fmt.Errorf("%s still uses a disk that the file no longer has (%s), so it is not detached: stop what uses it, e.g. with homelab node:drain -node=%s, and run it again: %w",
			n.Name, strings.Join(serials, ", "), printable.Word(n.Name), err))
	}
	return nil
}
