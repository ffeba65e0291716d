package proxmox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/live"
)

// clone makes the VM from its template.
func (c *TemplateClient) clone(ctx context.Context, spec VMSpec) (*VM, error) {
	source, err := c.source(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := spec.refuseSource(source); err != nil {
		return nil, err
	}
	from := NewCloneSource(source, nil)
	storage := cmp.Or(spec.Storage, from.boot().Storage())
	if from.CloneTo(spec.Host, nil, storage).Mode == FullClone {
		spec.Full = true
	}
	spec.Storage = storage
	if err := c.clones.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer c.clones.Release(1)
	release, err := c.locks.allocate(ctx, spec.Host, storage, spec.Full)
	if err != nil {
		return nil, err
	}
	defer release()
	for _, d := range spec.Disks {
		c.vmids.reserve(volumeOwner(d.Volume)) // of which Proxmox would delete the volume with the VM
	}
	tried := false // Proxmox is asked about each VMID after one was taken
	for range vmidTries {
		vmid := spec.VMID
		if vmid == 0 {
			if vmid, err = c.next(ctx, tried); err != nil {
				return nil, err
			}
		}
		vm, err := c.cloneAs(ctx, spec, source, vmid)
		tried = true
		switch {
		case err == nil:
			return vm, nil
		case !api.IsVMIDTaken(err) || spec.VMID != 0:
			return nil, fmt.Errorf("clone %s from %s: %w", spec.Name, source, err)
		}
		converge.Progressf(ctx, "VMID %d was taken by somebody else in the meantime", vmid)
	}
	return nil, fmt.Errorf("clone %s: every VMID that Proxmox offered was taken: is another program creating VMs?", spec.Name)
}

// findSource returns the template that a VM is to be cloned from.
func (c *TemplateClient) findSource(ctx context.Context, spec VMSpec) (*VM, error) {
	if spec.TemplateID == 0 {
		vm, err := c.Get(ctx, spec.Owner, spec.Host, spec.Template)
		if err == nil && vm == nil {
			err = c.missingTemplateError(ctx, spec)
		}
		return vm, err
	}
	vm, err := c.client.VMs.GetByID(ctx, spec.TemplateID)
	if err != nil {
		return nil, err
	}
	if !vm.Template {
		return nil, fmt.Errorf("proxmox: %s is not a template: VMs are cloned from templates only, because a clone of a running VM can have inconsistent disks", vm)
	}
	return vm, nil
}

// sourceAge is how long a template that was read stays valid.
const sourceAge = time.Minute

// source returns the template to clone a VM from. It is read once for all its clones.
func (c *TemplateClient) source(ctx context.Context, spec VMSpec) (*VM, error) {
	c.sources.Lock()
	defer c.sources.Unlock()
	id := fmt.Sprint(spec.Owner, "/", spec.Host, "/", spec.Template, spec.TemplateID)
	if known := c.recorded[id]; known.vm != nil && time.Since(known.at) < sourceAge {
		return known.vm, nil
	}
	vm, err := c.findSource(ctx, spec)
	if err != nil {
		return nil, err
	}
	if c.recorded == nil {
		c.recorded = map[string]template{}
	}
	c.recorded[id] = template{vm, time.Now()}
	return vm, nil
}

// template is a template as it was when it was read.
type template struct {
	vm *VM
	at time.Time
}

// missingTemplateError returns the error for a missing template, and says what has its name instead.
func (c *TemplateClient) missingTemplateError(ctx context.Context, spec VMSpec) error {
	found, foreign, err := c.client.VMs.findByName(ctx, spec.Owner, spec.Template)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fmt.Errorf("proxmox: %s is not a template: VMs are cloned from templates only, because a clone of a running VM can have inconsistent disks", found[0])
	}
	if len(foreign) > 0 {
		return fmt.Errorf("proxmox: %s is not a template of %s: it %s", foreign[0], spec.Owner, foreign[0].foreignReason(spec.Owner))
	}
	err = fmt.Errorf("proxmox: no template of %s is called %s: %w", spec.Owner, spec.Template, ErrNotFound)
	if all, lookErr := live.List(ctx, c.pve); lookErr == nil && len(all) == 0 {
		err = fmt.Errorf("%w; the token sees no VMs: it may lack VM.Audit on /vms", err)
	}
	return err
}

// cloneAs clones with one VMID. After a failure with an unknown outcome it looks for the clone
// under that VMID. It never tries another VMID while the first clone may still appear.
func (c *TemplateClient) cloneAs(ctx context.Context, spec VMSpec, source *VM, vmid int) (*VM, error) {
	p := api.Params{"newid": vmid, "name": spec.Name, "description": halfMadeNotes(spec.Owner, vmid)}
	if spec.Full {
		p["full"], p["storage"] = 1, spec.Storage
	}
	if spec.Pool != "" {
		p["pool"] = spec.Pool
	}
	if spec.Host != source.Host {
		p["target"] = spec.Host
	}
	if spec.Full {
		converge.Progressf(ctx, "copying %s as a whole to %s, as %s, VM %d", source.Name, spec.Storage, spec.Name, vmid)
	} else {
		converge.Progressf(ctx, "cloning %s from %s as VM %d", spec.Name, source.Name, vmid)
	}
	var found *VM
	err := c.pve.Retry(ctx, source.Host, strconv.Itoa(vmid), func() error {
		return c.pve.Do(ctx, http.MethodPost, api.VMPath(source.Host, source.VMID, "clone"), p)
	}, func() (bool, error) {
		var err error
		found, err = c.halfMade(ctx, spec, source.Host, vmid)
		return found != nil, err
	})
	if err != nil && api.IsVMIDTaken(err) {
		// An earlier request of ours may have succeeded after all.
		if found, lookErr := c.halfMade(ctx, spec, source.Host, vmid); lookErr == nil && found != nil {
			return found, nil
		}
	}
	if err != nil {
		return nil, err
	}
	vm := found
	if vm == nil {
		if vm = spec.cloneOf(source, vmid); !needsRead(spec.changes(vm)) {
			return vm, nil
		}
		if vm, err = c.read(ctx, spec.Host, vmid, false); err != nil {
			return nil, err
		}
	}
	vm.Pool = spec.Pool
	return vm, nil
}

// halfMade returns the VM under vmid if it is the clone that we requested, once it is complete, or
// nil if there is none. Until then a clone is on its template's host.
func (c *TemplateClient) halfMade(ctx context.Context, spec VMSpec, from string, vmid int) (*VM, error) {
	ours := func(vm *VM) bool { return vm.Name == spec.Name && vm.halfMade(spec.Owner) }
	if from != spec.Host {
		if _, err := c.complete(ctx, from, vmid, ours); err != nil {
			return nil, err
		}
	}
	return c.complete(ctx, spec.Host, vmid, ours)
}

// complete returns the VM under vmid, unlocked, if it is the wanted one, or nil if there is none or
// it is another VM. It waits while the VM has no name yet.
func (c *TemplateClient) complete(ctx context.Context, host string, vmid int, wanted func(*VM) bool) (*VM, error) {
	vm, err := c.read(ctx, host, vmid, false)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case vm.Locked != "" && (vm.Name == "" || wanted(vm)):
		if vm, err = c.waitUnlocked(ctx, vm); err != nil {
			return nil, err
		}
	}
	if vm == nil || !wanted(vm) {
		return nil, nil
	}
	return vm, nil
}
