package proxmox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/live"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// CreateSpec describes a VM that is made from an image, or with an empty disk that a system is installed
// on, and not from a template.
type CreateSpec struct {
	Name        string
	Host        string
	VMID        int // 0: the next free one
	Owner       string
	Tags        []string
	Image       string // volume id of the image to import; empty: Discs
	System      string // Proxmox's name of the guest's system; default l26
	Storage     string // for the disks
	DiskSize    Size   // the OS disk grows to this size
	Cores       int
	Memory      Size
	CPUType     string // default host
	SecureBoot  bool   // enrol Microsoft's keys in the firmware's variables, so that only signed kernels and modules load
	NICs        []NIC
	Seed        string   // volume id of the NoCloud ISO
	Discs       []string // volume ids in further CD drives; the VM boots from the first as long as its disk is empty
	Description string
}

// params returns the configuration of the whole VM. It has q35 and ovmf, which leave enough address
// space for a GPU's memory, and a disk for the firmware's variables, which are lost without one. It
// has a serial console, because Ubuntu's cloud kernel panics without one when its disk grows, and
// the agent's channel. It has no balloon.
func (s CreateSpec) params(vmid int) api.Params {
	uuid := newUUID()
	p := api.Params{
		"vmid": vmid, "name": s.Name, "ostype": cmp.Or(s.System, "l26"), "machine": "q35", "bios": ovmf,
		"efidisk0":    efiLine(s.Storage, s.SecureBoot),
		"scsihw":      "virtio-scsi-single",
		"scsi0":       fmt.Sprintf("%s:0,import-from=%s,discard=on,iothread=1,ssd=1", s.Storage, s.Image),
		"boot":        "order=scsi0",
		"serial0":     "socket",
		"vga":         "std",
		"agent":       "enabled=1",
		"cpu":         cmp.Or(s.CPUType, "host"),
		"cores":       s.Cores,
		"memory":      wire.RoundMiB(s.Memory),
		"balloon":     0,
		"smbios1":     "uuid=" + uuid,
		"tags":        strings.Join(cleanTags(append([]string{s.Owner, markFor(s.Owner, vmid, uuid)}, s.Tags...)), ";"),
		"description": s.Description,
	}
	if s.Description == "" {
		delete(p, "description")
	}
	for i, n := range s.NICs {
		p[fmt.Sprintf("net%d", i)] = n.line(nil)
	}
	if s.Seed != "" {
		p[seedSlot] = seedValue(s.Seed)
	}
	if s.Image == "" {
		p["scsi0"] = fmt.Sprintf("%s:%d,discard=on,iothread=1,ssd=1", s.Storage, (s.DiskSize+GiB-1)/GiB)
		p["boot"] = "order=scsi0;" + discSlot(0)
	}
	for i, disc := range s.Discs {
		p[discSlot(i)] = seedValue(disc)
	}
	return p
}

func (s CreateSpec) check() error {
	var errs []error
	if !isDNSName(s.Name) {
		errs = append(errs, fmt.Errorf("vm name %q is not a DNS name", s.Name))
	}
	switch {
	case s.Image == "" && len(s.Discs) == 0:
		errs = append(errs, fmt.Errorf("vm %s: no image", s.Name))
	case s.Image == "" && s.DiskSize == 0:
		errs = append(errs, fmt.Errorf("vm %s: no size of the disk that a system is installed on", s.Name))
	}
	for what, v := range map[string]string{"host": s.Host, "owner": s.Owner, "storage": s.Storage} {
		if v == "" {
			errs = append(errs, fmt.Errorf("vm %s: no %s", s.Name, what))
		}
	}
	return errors.Join(errs...)
}

// Create makes the VM, stopped, with its disk grown, unless it exists. It continues where an
// earlier run ended.
func (c *VMClient) Create(ctx context.Context, spec CreateSpec) (*VM, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	vm, err := c.find(ctx, spec.Host, spec.Owner, spec.Name)
	if err != nil {
		return nil, err
	}
	if vm == nil {
		if vm, err = c.create(ctx, spec); err != nil {
			return nil, err
		}
	}
	vm.Owner = spec.Owner
	return vm, c.growTo(ctx, vm, "scsi0", spec.DiskSize)
}

func (c *VMClient) create(ctx context.Context, spec CreateSpec) (*VM, error) {
	release, err := c.locks.allocate(ctx, spec.Host, spec.Storage, true)
	if err != nil {
		return nil, err
	}
	defer release()
	for range vmidTries {
		vmid := spec.VMID
		if vmid == 0 {
			if vmid, err = c.next(ctx, true); err != nil {
				return nil, err
			}
		}
		converge.Progressf(ctx, "creating %s as VM %d from %s", spec.Name, vmid, cmp.Or(spec.Image, strings.Join(spec.Discs, ", ")))
		vm, err := c.createAs(ctx, spec, vmid)
		switch {
		case err == nil:
			return vm, nil
		case !api.IsVMIDTaken(err) || spec.VMID != 0:
			return nil, fmt.Errorf("create %s: %w", spec.Name, err)
		}
	}
	return nil, fmt.Errorf("create %s: every VMID that Proxmox offered was taken: is another program creating VMs?", spec.Name)
}

func (c *VMClient) createAs(ctx context.Context, spec CreateSpec, vmid int) (*VM, error) {
	mine := func() (*VM, error) {
		return c.client.Templates.complete(ctx, spec.Host, vmid, func(vm *VM) bool { return vm.Name == spec.Name && vm.OwnedBy(spec.Owner) })
	}
	var found *VM
	err := c.pve.Retry(ctx, spec.Host, strconv.Itoa(vmid), func() error {
		return c.pve.DoWithProgress(ctx, http.MethodPost, api.NodePath(spec.Host, "qemu"), spec.params(vmid), "importing the image")
	}, func() (bool, error) {
		var err error
		found, err = mine()
		return found != nil, err
	})
	if err != nil && api.IsVMIDTaken(err) {
		if found, lookErr := mine(); lookErr == nil && found != nil {
			return found, nil
		}
	}
	if err != nil || found != nil {
		return found, err
	}
	return c.read(ctx, spec.Host, vmid, false)
}

// growTo grows a disk to size, unless it is that large already.
func (c *VMClient) growTo(ctx context.Context, vm *VM, slot string, size Size) error {
	disk, found := vm.Disk(slot)
	if !found {
		return fmt.Errorf("proxmox: %s has no disk %s", vm, slot)
	}
	if disk.Size >= size {
		return nil
	}
	converge.Progressf(ctx, "growing %s of %s to %s", slot, vm, size)
	return c.retry(ctx, vm, "grow", func() error {
		return c.pve.Do(ctx, http.MethodPut, api.VMPath(vm.Host, vm.VMID, "resize"), api.Params{"disk": slot, "size": wire.DiskSize(size)})
	}, func() (bool, error) {
		now, err := c.read(ctx, vm.Host, vm.VMID, vm.Running)
		if err != nil {
			return false, err
		}
		disk, _ := now.Disk(slot)
		return disk.Size >= size, nil
	})
}

// Convert turns a stopped VM into a template and removes its seed, because a clone must not boot
// with another VM's seed. In a VM that is a template already it converts only disks that are not
// base disks yet.
func (c *TemplateClient) Convert(ctx context.Context, vm *VM) error {
	now, err := c.client.VMs.Refresh(ctx, vm)
	switch {
	case err != nil:
		return err
	case now.Template:
		return c.rebase(ctx, now)
	case now.Running:
		return fmt.Errorf("proxmox: %s runs: a template is made of a VM that is off", now)
	}
	if now.Seed != "" {
		if err := c.retry(ctx, now, "take the seed out of", func() error {
			return c.pve.Do(ctx, http.MethodPost, api.VMPath(now.Host, now.VMID, "config"), api.Params{"delete": seedSlot})
		}, func() (bool, error) {
			seen, err := c.read(ctx, now.Host, now.VMID, false)
			return err == nil && seen.Seed == "", err
		}); err != nil {
			return err
		}
	}
	converge.Progressf(ctx, "converting %s to a template", now)
	if err := c.retry(ctx, now, "convert", func() error {
		return c.pve.Do(ctx, http.MethodPost, api.VMPath(now.Host, now.VMID, "template"), nil)
	}, func() (bool, error) {
		seen, err := c.read(ctx, now.Host, now.VMID, false)
		return err == nil && seen.Template, err
	}); err != nil {
		return err
	}
	vm.Template, vm.Seed = true, ""
	return nil
}

// GetByID returns the VM with that VMID, no matter who owns it. If there is none, the error is
// [ErrNotFound].
func (c *VMClient) GetByID(ctx context.Context, vmid int) (*VM, error) {
	all, err := live.List(ctx, c.pve)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.Type == "qemu" && int(r.VMID) == vmid {
			return c.read(ctx, r.Node, vmid, c.isRunning(ctx, r))
		}
	}
	return nil, fmt.Errorf("proxmox: VM %d does not exist, or the token may not see it (VM.Audit): %w", vmid, ErrNotFound)
}

// GetFromSummary returns a VM of owner's from a list as it is now. It returns nil if the VM is gone, if its
// VMID belongs to another VM by now, or if its configuration shows that it is a copy.
func (c *VMClient) GetFromSummary(ctx context.Context, owner string, seen Summary) (*VM, error) {
	vm, err := c.GetByID(ctx, seen.VMID)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case vm.Name != seen.Name:
		return nil, nil
	case !vm.OwnedBy(owner):
		converge.Progressf(ctx, "warning: %s %s: it is not changed", vm, vm.foreignReason(owner))
		return nil, nil
	}
	vm.Owner = owner
	vm.Unfinished = vm.halfMade(owner)
	return vm, nil
}

// rebase converts those disks of a template to base disks that are not base disks yet.
func (c *TemplateClient) rebase(ctx context.Context, vm *VM) error {
	off, err := c.UnconvertedDisks(ctx, vm)
	if err != nil {
		return err
	}
	for _, slot := range off {
		if err := c.retry(ctx, vm, "convert", func() error {
			return c.pve.Do(ctx, http.MethodPost, api.VMPath(vm.Host, vm.VMID, "template"), api.Params{"disk": slot})
		}, func() (bool, error) {
			seen, err := c.read(ctx, vm.Host, vm.VMID, false)
			return err == nil && !slices.Contains(seen.UnconvertedDisks(), slot), err
		}); err != nil {
			return err
		}
	}
	return nil
}
