package templates

import (
	"context"
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
)

// ExcludeUsed removes from all the ISOs that a VM has in its drive and the mappings that give a VM
// its device, since Proxmox does not start a VM whose ISO or mapping is gone. Such a VM may be a
// copy of a machine of this cluster from which a user has removed the tag. VMs of owner do not
// count: they are removed together with the files. If a VM's configuration is unreadable, as on
// a silent host, everything that the VM may use stays.
func (ts *Templates) ExcludeUsed(ctx context.Context, all []Leftover, owner string) error {
	if !slices.ContainsFunc(all, func(r Leftover) bool { return len(r.Volumes)+len(r.Mappings) > 0 }) {
		return nil
	}
	holders, err := ts.Proxmox.VMs.Holders(ctx, owner)
	if err != nil {
		return err
	}
	for i := range all {
		r := &all[i]
		far, err := ts.possibleUsers(ctx, *r, holders.Unreadable)
		if err != nil {
			return err
		}
		r.Volumes = slices.DeleteFunc(r.Volumes, func(v proxmox.Volume) bool {
			by, held := holders.File(v.Name())
			return v.Content == hostprep.ISOContent && isKept(ctx, v.ID+" on "+r.Host, by, held, far(v))
		})
		r.Mappings = slices.DeleteFunc(r.Mappings, func(id string) bool {
			by, held := holders.Mapping(id)
			return isKept(ctx, "mapping "+id, by, held, holders.Unreadable)
		})
	}
	return nil
}

// isKept reports, and says, whether something is kept because a VM uses it or may use it.
func isKept(ctx context.Context, what string, by proxmox.Summary, held bool, silent []proxmox.UnreadableVM) bool {
	switch {
	case held:
		converge.Progressf(ctx, "%s stays: %s uses it, and would not start without it", what, VMText(by))
	case len(silent) > 0:
		converge.Progressf(ctx, "%s stays: cannot find out whether %s uses it: %s", what, VMText(silent[0].Summary),
			printable.FirstLine(silent[0].Err.Error()))
	default:
		return false
	}
	return true
}

// VMText names a VM of any owner.
func VMText(vm proxmox.Summary) string {
	return fmt.Sprintf("VM %d (%s) on %s", vm.VMID, vm.Name, vm.Host)
}

// possibleUsers returns which of the silent VMs may have a volume of a host in their drives: those of
// that host, or all of them if the storage is shared.
func (ts *Templates) possibleUsers(ctx context.Context, r Leftover,
	silent []proxmox.UnreadableVM) (func(proxmox.Volume) []proxmox.UnreadableVM,
	error) {
	apart := map[string]bool{} // storages of which each host has its own
	if len(r.Volumes) > 0 && len(silent) > 0 {
		storages, err := ts.Proxmox.Storages.List(ctx, r.Host)
		if err != nil {
			return nil, err
		}
		for _, s := range storages {
			apart[s.Name] = !s.Shared
		}
	}
	return func(v proxmox.Volume) []proxmox.UnreadableVM {
		return slices.DeleteFunc(slices.Clone(silent), func(vm proxmox.UnreadableVM) bool { return vm.Host != r.Host && apart[v.Storage()] })
	}, nil
}
