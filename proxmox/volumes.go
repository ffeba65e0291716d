package proxmox

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
)

// numberedVolume is the name of a disk, without its storage and its folder.
var numberedVolume = regexp.MustCompile(`^(?:vm|base)-([0-9]+)-`)

// volumeOwner returns the VMID in a volume's name; 0 if it has none.
func volumeOwner(id string) int {
	m := numberedVolume.FindStringSubmatch(Volume{ID: id}.Name())
	if m == nil {
		return 0
	}
	vmid, _ := strconv.Atoi(m[1])
	return vmid
}

// outlives reports whether a disk in one of the VM's slots stays when the VM is destroyed. Proxmox removes the
// volumes that have the VM's number in their name (destroy_vm in qemu-server), and keeps a detached disk as
// unusedN only if it has that number (vmconfig_register_unused_drive).
func (v *VM) outlives(d Disk) bool {
	owner := volumeOwner(d.Volume)
	return owner != 0 && owner != v.VMID
}

// volumesToAttach returns the existing volumes that vm does not have yet. vm is nil if there is none.
func (s VMSpec) volumesToAttach(vm *VM) []string {
	var out []string
	for _, d := range s.Disks {
		if d.Volume != "" && (vm == nil || !slices.Contains(vm.Volumes(), d.Volume)) {
			out = append(out, d.Volume)
		}
	}
	return out
}

// VolumeProblems says of each existing volume that a VM does not have yet why it cannot be attached: it is not on
// the host, another VM has it, or it has the number of this VM, with which Proxmox would delete it. Proxmox
// itself attaches a volume to several VMs. vm is nil if there is none; VMs of the owner ignore do not count.
func (c *StorageClient) VolumeProblems(ctx context.Context, spec VMSpec, vm *VM, ignore string) (problems []error, err error) {
	ids := spec.volumesToAttach(vm)
	if len(ids) == 0 {
		return nil, nil
	}
	holders, err := c.client.VMs.Holders(ctx, ignore)
	if err != nil {
		return nil, err
	}
	vmid := spec.VMID
	if vm != nil {
		vmid = vm.VMID
	}
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for _, id := range ids {
		storage := Volume{ID: id}.Storage()
		all, err := c.Volumes(ctx, spec.Host, storage, "images")
		if err != nil {
			return nil, err
		}
		by, held := holders.volume(id, vmid)
		switch {
		case !slices.ContainsFunc(all, func(v Volume) bool { return v.ID == id }):
			bad("volume %s of %s is not on %s, or the token may not see it (Datastore.Audit on /storage/%s)\n  as root on %s, pvesm list %s shows those of the storage",
				id, spec.Name, spec.Host, storage, spec.Host, printable.Word(storage))
		case held:
			bad("volume %s of %s is a disk of VM %d (%s) on %s\n  detach it there: that VM's file in /etc/pve must not name it; removing an unused disk would delete it",
				id, spec.Name, by.VMID, by.Name, by.Host)
		case vmid != 0 && volumeOwner(id) == vmid:
			bad("volume %s has the number of %s itself, so Proxmox would delete it together with the VM\n  write another vmid: for %s, and node:replace if its VM exists",
				id, spec.Name, spec.Name)
		case len(holders.Unreadable) > 0:
			silent := holders.Unreadable[0]
			bad("whether volume %s is free cannot be seen: VM %d (%s) on %s may have it: %w", id, silent.VMID, silent.Name, silent.Host, silent.Err)
		}
	}
	return problems, nil
}

// detachSurvivors takes disks that outlive a VM out of its slots, so that not even a Proxmox that decides
// otherwise can remove them with it. The VM is off.
func detachSurvivors(ctx context.Context, c *VMClient, vm *VM) error {
	now := vm
	survivors := func() (out []Disk) {
		for _, d := range now.Disks {
			if now.outlives(d) {
				out = append(out, d)
			}
		}
		return out
	}
	return c.retry(ctx, vm, "detach the volumes that outlive", func() error {
		var slots []string
		for _, d := range survivors() {
			converge.Progressf(ctx, "%s stays: it is only attached to %s", d.Volume, vm)
			slots = append(slots, d.Slot)
		}
		if len(slots) == 0 {
			return nil
		}
		return c.set(ctx, now, api.Params{"delete": strings.Join(slots, ",")}, nil)
	}, func() (done bool, err error) {
		read, err := c.read(ctx, vm.Host, vm.VMID, false)
		if err != nil {
			return errors.Is(err, ErrNotFound), err
		}
		now = read
		return len(survivors()) == 0, nil
	})
}
