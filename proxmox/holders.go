package proxmox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/cps-gpu/homelab/proxmox/internal/live"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// Holders lists the VMs of any owner that use files and disks as drives, or mappings as devices.
// Proxmox does not start a VM if one of these is gone.
type Holders struct {
	// Unreadable lists VMs whose configuration cannot be read, because a host does not answer or for
	// another reason. They may use anything.
	Unreadable []UnreadableVM

	files, volumes, mappings map[string][]Summary // the VMs that use it
}

// UnreadableVM is a VM whose configuration could not be read.
type UnreadableVM struct {
	Summary
	Err error // why
}

// Holders reads the configuration of every VM that the token may see, current and pending, except
// owner's VMs. An empty owner excludes none. A VM that only carries the owner's tag does not count
// as the owner's. Snapshots are not read.
func (c *VMClient) Holders(ctx context.Context, owner string) (*Holders, error) {
	all, err := live.List(ctx, c.pve)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(r live.Resource) bool { return r.Type != "qemu" })
	ours := map[int]bool{}
	if owner != "" {
		vms, err := c.List(ctx, owner)
		if err != nil {
			return nil, err
		}
		for _, vm := range vms {
			ours[vm.VMID] = true
		}
	}
	h := &Holders{files: map[string][]Summary{}, volumes: map[string][]Summary{}, mappings: map[string][]Summary{}}
	var answer []live.Resource
	for _, r := range all {
		if r.HostErr != nil {
			h.Unreadable = append(h.Unreadable, UnreadableVM{summaryOf(r), fmt.Errorf("%s does not answer: %w", r.Node, r.HostErr)})
		} else {
			answer = append(answer, r)
		}
	}
	failed := make([]error, len(answer))
	vms, err := c.readEach(ctx, answer, func(i int, err error) error {
		failed[i] = err
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	for i, err := range failed {
		if err != nil {
			h.Unreadable = append(h.Unreadable, UnreadableVM{summaryOf(answer[i]), err})
		}
	}
	for _, vm := range vms {
		if !ours[vm.VMID] || !vm.OwnedBy(owner) {
			h.enter(vm)
		}
	}
	return h, nil
}

// enter records what a VM uses.
func (h *Holders) enter(vm *VM) {
	note := func(key, line string) {
		switch {
		case namesVolume(key):
			v := Volume{ID: wire.ParseLenient(line).GetFirst("file", "")}
			h.files[v.Name()] = append(h.files[v.Name()], vm.Summary())
			h.volumes[v.ID] = append(h.volumes[v.ID], vm.Summary())
		case strings.HasPrefix(key, "hostpci"):
			id := wire.ParseLenient(line).Get("mapping")
			h.mappings[id] = append(h.mappings[id], vm.Summary())
		case strings.HasPrefix(key, "usb"): // mappings of USB devices have names of their own
			id := OfUSB + wire.ParseLenient(line).Get("mapping")
			h.mappings[id] = append(h.mappings[id], vm.Summary())
		}
	}
	for key, line := range vm.Config() {
		note(key, line)
	}
	for _, p := range vm.Pending {
		note(p.Key, p.Have)
	}
}

// File returns a VM that has a volume of that name as a drive or as an unused disk.
func (h *Holders) File(name string) (by Summary, held bool) { return h.fileBut(name, 0) }

// fileBut is File without the VM that has the given VMID.
func (h *Holders) fileBut(name string, vmid int) (by Summary, held bool) {
	return anyBut(h.files[name], vmid)
}

// volume returns a VM with another VMID that has the volume of that id.
func (h *Holders) volume(id string, vmid int) (by Summary, held bool) {
	return anyBut(h.volumes[id], vmid)
}

func anyBut(all []Summary, vmid int) (by Summary, found bool) {
	i := slices.IndexFunc(all, func(s Summary) bool { return s.VMID != vmid })
	if i < 0 {
		return Summary{}, false
	}
	return all[i], true
}

// Mapping returns a VM that has a mapping as a device.
func (h *Holders) Mapping(id string) (by Summary, held bool) {
	if len(h.mappings[id]) == 0 {
		return Summary{}, false
	}
	return h.mappings[id][0], true
}

// readAll is readEach for callers that need every VM.
func (c *core) readAll(ctx context.Context, all []live.Resource) ([]*VM, error) {
	return c.readEach(ctx, all, func(_ int, err error) error { return err })
}

// readEach reads VMs from a list, a few at a time. It reads them as running VMs, because only those
// have pending changes. It leaves out VMs that were destroyed meanwhile. It passes each failure to
// unread, and leaves out the VM unless unread returns an error.
func (c *core) readEach(ctx context.Context, all []live.Resource, unread func(i int, err error) error) ([]*VM, error) {
	found := make([]*VM, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(live.MaxConcurrent)
	for i, r := range all {
		group.Go(func() error {
			vm, err := c.readShared(ctx, r.Node, int(r.VMID), true)
			switch {
			case errors.Is(err, ErrNotFound):
				return nil
			case err != nil:
				return unread(i, err)
			}
			found[i], vm.Running = vm, r.Status == "running"
			return nil
		})
	}
	err := group.Wait()
	return slices.DeleteFunc(found, func(vm *VM) bool { return vm == nil }), err
}
