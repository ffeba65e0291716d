package proxmox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/converge/progress"
)

// Shape makes a VM what spec says: it clones the template when vm is nil, sets
// the configuration in one request, grows the disk and starts the VM. What is
// there already is not done again, so it goes on wherever an earlier run ended.
// A VM that runs and needs a restart for a change is shut down and started;
// drain it before. A change that needs another VM is refused: [Client.Remove]
// it first.
func (c *Client) Shape(ctx context.Context, spec VMSpec, vm *VM) error {
	if err := spec.check(); err != nil {
		return err
	}
	vm, err := c.present(ctx, spec, vm)
	if err != nil {
		return err
	}
	if vm, err = c.configure(ctx, spec, vm); err != nil {
		return err
	}
	if vm.Running && len(vm.Pending) > 0 {
		if err := c.Shutdown(ctx, vm); err != nil {
			return err
		}
		vm.Pending = nil
		return c.Start(ctx, vm)
	}
	if spec.Running && !vm.Running {
		return c.Start(ctx, vm)
	}
	return nil
}

// present returns the VM, unlocked, and clones it when there is none.
func (c *Client) present(ctx context.Context, spec VMSpec, vm *VM) (*VM, error) {
	var err error
	if vm == nil {
		if vm, err = c.VM(ctx, spec.Owner, spec.Name); err != nil {
			return nil, err
		}
	}
	if vm, err = c.begun(ctx, spec.Host, spec.Owner, spec.Name, vm); err != nil {
		return nil, err
	}
	if vm != nil {
		if vm, err = c.Idle(ctx, vm); err != nil {
			return nil, err
		}
	}
	if vm == nil {
		if err := c.Conflict(ctx, spec.Owner, spec.Name); err != nil {
			return nil, err
		}
		if vm, err = c.clone(ctx, spec); err != nil {
			return nil, err
		}
	}
	vm.Owner = spec.Owner
	vm.Unfinished = vm.Description == marker(spec.Owner)
	return vm, nil
}

// Idle returns a VM as it is when nothing is at work on it any more, nil when it is
// gone: a task that a killed process began goes on, and the list of VMs is up to ten
// seconds behind.
func (c *Client) Idle(ctx context.Context, vm *VM) (*VM, error) {
	if err := c.quiet(ctx, vm.Host, itoa(vm.VMID)); err != nil {
		return nil, err
	}
	now, err := c.Refresh(ctx, vm)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return now, err
}

// unborn looks for the VM among those that another process, perhaps one of ours
// that was killed, has begun to make and that have no name yet. It waits until
// they have one.
func (c *Client) unborn(ctx context.Context, host, owner, name string) (*VM, error) {
	waited, err := c.AwaitEarlier(ctx, host)
	if err != nil {
		return nil, err
	}
	all, err := c.resources(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.Type != "qemu" || !nameless(r) || r.Lock != "clone" && r.Lock != "create" || c.vmids.taken(int(r.VMID)) {
			continue
		}
		waited = true
		vm := &VM{Name: "a VM without a name yet", Host: r.Node, VMID: int(r.VMID), Locked: r.Lock}
		var dead *LockedError
		if _, err := c.unlocked(ctx, vm); err != nil && !errors.As(err, &dead) {
			return nil, err
		}
	}
	if !waited {
		return nil, nil
	}
	c.glances.forget("/qemu")
	return c.VM(ctx, owner, name)
}

// configure posts what differs, all in one request, and grows disks. It returns
// the VM as it is then.
func (c *Client) configure(ctx context.Context, spec VMSpec, vm *VM) (*VM, error) {
	var failure error
	pause := firstPause
	for range attempts {
		all := spec.changes(vm)
		if err := refuseReplace(vm, all); err != nil {
			return nil, err
		}
		if len(all) == 0 {
			return vm, nil
		}
		failure = c.change(ctx, vm, all)
		if failure != nil && (ctx.Err() != nil || ClassOf(failure) == Permanent) {
			return nil, c.explain(ctx, vm, "configure", failure)
		}
		if failure != nil {
			progress.Say(ctx, "%s: %s; looking, then trying again", vm, brief(failure))
			if err := sleep(ctx, jitter(pause)); err != nil {
				return nil, err
			}
			pause *= 2
			if err := c.quiet(ctx, vm.Host, itoa(vm.VMID)); err != nil {
				return nil, err
			}
		}
		now, err := c.read(ctx, vm.Host, vm.VMID, vm.Running)
		if err != nil {
			return nil, err
		}
		now.Owner = vm.Owner
		now.Unfinished = now.Description == marker(spec.Owner)
		if left := spec.changes(now); failure == nil && len(left) > 0 {
			failure = fmt.Errorf("proxmox: %s took the new configuration, but still differs: %s", vm, fieldsOf(left))
			if sameFields(all, left) {
				return nil, failure
			}
		}
		vm = now
	}
	if failure != nil {
		return nil, failure
	}
	return vm, nil
}

func fieldsOf(all []change) drift.Diff {
	out := make(drift.Diff, len(all))
	for i, ch := range all {
		out[i] = ch.field
	}
	return out
}

func sameFields(a, b []change) bool {
	return slices.EqualFunc(a, b, func(x, y change) bool { return x.field == y.field })
}

// refuseReplace returns an error when a change wants another VM.
func refuseReplace(vm *VM, all []change) error {
	for _, ch := range all {
		if ch.field.Effect == drift.Replace {
			return fmt.Errorf("proxmox: %s cannot be changed to %s: %s; remove it, then make it again", vm, ch.field.Want, ch.field)
		}
	}
	return nil
}

// change sends one request for all config keys, then one for each disk to grow.
func (c *Client) change(ctx context.Context, vm *VM, all []change) error {
	p, storages := params{}, map[string]bool{}
	var remove []string
	for _, ch := range all {
		switch {
		case ch.key == "":
		case ch.value == "":
			remove = append(remove, ch.key)
		default:
			p[ch.key] = ch.value
			if storage, _, ok := strings.Cut(ch.value, ":"); ok && slotted.MatchString(ch.key) && ch.field.Have == "none" && ch.key != seedSlot {
				storages[storage] = true
			}
		}
	}
	if len(remove) > 0 {
		slices.Sort(remove)
		p["delete"] = strings.Join(remove, ",")
	}
	if len(p) > 0 {
		progress.Say(ctx, "configuring %s", vm)
		if vm.Digest != "" {
			p["digest"] = vm.Digest
		}
		release, err := c.allocateAll(ctx, vm.Host, storages)
		if err != nil {
			return err
		}
		err = c.do(ctx, http.MethodPost, vmPath(vm.Host, vm.VMID, "config"), p)
		release()
		if err != nil {
			return err
		}
	}
	for _, ch := range all {
		if ch.disk == "" {
			continue
		}
		progress.Say(ctx, "growing %s of %s to %s", ch.disk, vm, ch.size)
		err := c.do(ctx, http.MethodPut, vmPath(vm.Host, vm.VMID, "resize"), params{"disk": ch.disk, "size": ch.size.diskSize()})
		if err != nil {
			return err
		}
	}
	return nil
}

// allocateAll waits for its turn on every storage, in the order of their names so
// that two cannot wait for each other.
func (c *Client) allocateAll(ctx context.Context, host string, storages map[string]bool) (release func(), err error) {
	var all []func()
	release = func() {
		for _, r := range all {
			r()
		}
	}
	names := make([]string, 0, len(storages))
	for s := range storages {
		names = append(names, s)
	}
	slices.Sort(names)
	for _, s := range names {
		r, err := c.storages.allocate(ctx, host, s, false)
		if err != nil {
			release()
			return nil, err
		}
		all = append(all, r)
	}
	return release, nil
}

// clone makes the VM from its template.
func (c *Client) clone(ctx context.Context, spec VMSpec) (*VM, error) {
	source, err := c.source(ctx, spec)
	if err != nil {
		return nil, err
	}
	storage := spec.Storage
	if len(source.Disks) > 0 {
		there := source.Disks[0].Storage
		spec.Full = spec.Full || storage != "" && storage != there
		if !spec.Full {
			storage = there
		}
	}
	if err := c.clones.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer c.clones.Release(1)
	release, err := c.storages.allocate(ctx, spec.Host, storage, spec.Full)
	if err != nil {
		return nil, err
	}
	defer release()
	for range attempts {
		vmid := spec.VMID
		if vmid == 0 {
			if vmid, err = c.next(ctx); err != nil {
				return nil, err
			}
		}
		vm, err := c.cloneAs(ctx, spec, source, vmid)
		switch {
		case err == nil:
			return vm, nil
		case !saidTaken(words(err)) || spec.VMID != 0:
			return nil, fmt.Errorf("clone %s from %s: %w", spec.Name, source, err)
		}
		progress.Say(ctx, "VMID %d was taken by another in the meantime", vmid)
	}
	return nil, fmt.Errorf("clone %s: every VMID that Proxmox offered was taken by another: is something else making VMs?", spec.Name)
}

// source returns the template that a VM is to be cloned from.
func (c *Client) source(ctx context.Context, spec VMSpec) (*VM, error) {
	if spec.TemplateID == 0 {
		vm, err := c.TemplateOn(ctx, spec.Owner, spec.Host, spec.Template)
		if err == nil && vm == nil {
			err = c.noTemplate(ctx, spec)
		}
		return vm, err
	}
	vm, err := c.ByID(ctx, spec.TemplateID)
	if err != nil {
		return nil, err
	}
	if !vm.Template {
		return nil, fmt.Errorf("proxmox: %s is not a template: VMs are cloned from templates only, since a clone of a VM can tear its disks", vm)
	}
	return vm, nil
}

// noTemplate says what is in the template's place.
func (c *Client) noTemplate(ctx context.Context, spec VMSpec) error {
	found, foreign, err := c.named(ctx, spec.Owner, spec.Template)
	if err != nil {
		return err
	}
	if all := append(found, foreign...); len(all) > 0 {
		return fmt.Errorf("proxmox: %s is not a template with the tag %s: VMs are cloned from templates only, since a clone of a VM can tear its disks", all[0], spec.Owner)
	}
	err = fmt.Errorf("proxmox: no template is called %s and carries the tag %s: %w", spec.Template, spec.Owner, ErrNotFound)
	if all, lookErr := c.resources(ctx); lookErr == nil && len(all) == 0 {
		err = fmt.Errorf("%w; the token sees no VM at all: it may lack VM.Audit on /vms", err)
	}
	return err
}

// cloneAs clones with one VMID. After a failure whose outcome is not known it
// looks for the clone under that VMID, and never tries another while that may
// still come to life.
func (c *Client) cloneAs(ctx context.Context, spec VMSpec, source *VM, vmid int) (*VM, error) {
	p := params{"newid": vmid, "name": spec.Name, "description": marker(spec.Owner)}
	if spec.Full {
		p["full"], p["storage"] = 1, spec.Storage
	}
	if spec.Host != source.Host {
		p["target"] = spec.Host
	}
	progress.Say(ctx, "cloning %s from %s as VM %d", spec.Name, source.Name, vmid)
	var found *VM
	err := c.settle(ctx, source.Host, itoa(vmid), func() error {
		return c.do(ctx, http.MethodPost, vmPath(source.Host, source.VMID, "clone"), p)
	}, func() (bool, error) {
		var err error
		found, err = c.halfMade(ctx, spec, vmid)
		return found != nil, err
	})
	if err != nil && saidTaken(words(err)) {
		// An earlier request of ours may have come through after all.
		if found, lookErr := c.halfMade(ctx, spec, vmid); lookErr == nil && found != nil {
			return found, nil
		}
	}
	if err != nil {
		return nil, err
	}
	c.power.set(vmid, false)
	if found != nil {
		return found, nil
	}
	return c.read(ctx, spec.Host, vmid, false)
}

// halfMade returns the VM under vmid when it is the clone that we asked for, as
// soon as it is complete; nil when there is none.
func (c *Client) halfMade(ctx context.Context, spec VMSpec, vmid int) (*VM, error) {
	return c.complete(ctx, spec.Host, vmid, func(vm *VM) bool {
		return vm.Name == spec.Name && vm.Description == marker(spec.Owner)
	})
}

// complete returns the VM under vmid, unlocked, when it is the wanted one; nil
// when there is none or another. What has no name yet is waited for.
func (c *Client) complete(ctx context.Context, host string, vmid int, wanted func(*VM) bool) (*VM, error) {
	vm, err := c.read(ctx, host, vmid, false)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case vm.Locked != "" && (vm.Name == "" || wanted(vm)):
		if vm, err = c.unlocked(ctx, vm); err != nil {
			return nil, err
		}
	}
	if vm == nil || !wanted(vm) {
		return nil, nil
	}
	return vm, nil
}
