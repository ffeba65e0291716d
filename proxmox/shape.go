package proxmox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

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
	diff := spec.Diff(vm)
	restart, off := vm.Running && diff.Effect() == drift.Restart, false
	if restart && slices.ContainsFunc(spec.changes(vm), func(ch change) bool { return whileOff(ch.thing) }) {
		off = true
		if err := c.Shutdown(ctx, vm); err != nil {
			return err
		}
	}
	shaped, err := c.configure(ctx, spec, vm)
	if err != nil {
		if off && ctx.Err() == nil { // what ran before is not left off
			err = errors.Join(err, c.Start(ctx, vm))
		}
		return err
	}
	vm = shaped
	if vm.Running && (restart || len(vm.Pending) > 0) {
		if err := c.Shutdown(ctx, vm); err != nil {
			return err
		}
		vm.Pending, off = nil, true
	}
	if (spec.Running || off) && !vm.Running {
		return c.Start(ctx, vm)
	}
	return nil
}

// present returns the VM, unlocked, and clones it when there is none.
func (c *Client) present(ctx context.Context, spec VMSpec, vm *VM) (*VM, error) {
	var err error
	if vm != nil {
		if vm, err = c.still(ctx, vm); err != nil {
			return nil, err
		}
	}
	if vm == nil {
		if vm, err = c.find(ctx, spec.Host, spec.Owner, spec.Name); err != nil {
			return nil, err
		}
	}
	if vm == nil {
		if vm, err = c.clone(ctx, spec); err != nil {
			return nil, err
		}
	}
	vm.Owner = spec.Owner
	vm.Unfinished = vm.Description == marker(spec.Owner)
	return vm, nil
}

// find returns the VM of that name, unlocked, which an earlier run may only have begun
// to make; nil when there is none, and a [*ConflictError] when it is somebody else's.
func (c *Client) find(ctx context.Context, host, owner, name string) (*VM, error) {
	if _, err := c.AwaitEarlier(ctx, host); err != nil {
		return nil, err
	}
	for {
		all, err := c.resources(ctx)
		if err != nil {
			return nil, err
		}
		found, foreign, err := c.namedIn(ctx, all, owner, name)
		if err != nil {
			return nil, err
		}
		vm, err := only(owner, name, found)
		switch {
		case err != nil:
			return nil, err
		case vm != nil && vm.Locked != "":
			return c.unlocked(ctx, vm)
		case vm != nil:
			return vm, nil
		}
		waited, err := c.unborn(ctx, all)
		switch {
		case err != nil:
			return nil, err
		case waited:
			c.glances.forget("/qemu")
		case len(foreign) > 0:
			return nil, &ConflictError{Name: name, Owner: owner, VMID: foreign[0].VMID, Host: foreign[0].Host}
		default:
			return nil, nil
		}
	}
}

// still returns a VM as it is now. One that is off, and that no earlier process can
// be at work on, need not be read again: a change of it carries the digest of what
// was seen, and is refused when that is not what is there.
func (c *Client) still(ctx context.Context, vm *VM) (*VM, error) {
	waited, err := c.AwaitEarlier(ctx, vm.Host)
	if err != nil {
		return nil, err
	}
	if !waited && !vm.Running && !vm.Unfinished && vm.Locked == "" && vm.Digest != "" {
		return vm, nil
	}
	if vm.Locked != "" {
		if vm, err = c.unlocked(ctx, vm); err != nil || vm == nil {
			return nil, err
		}
	}
	return c.Idle(ctx, vm)
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

// unborn waits for the VMs that another process, perhaps one of ours that was killed,
// has begun to make and that have no name yet. It reports whether there were some.
func (c *Client) unborn(ctx context.Context, all []resource) (waited bool, err error) {
	for _, r := range all {
		if r.Type != "qemu" || !nameless(r) || r.Lock != "clone" && r.Lock != "create" || c.vmids.taken(int(r.VMID)) {
			continue
		}
		waited = true
		vm := &VM{Name: "a VM without a name yet", Host: r.Node, VMID: int(r.VMID), Locked: r.Lock}
		var dead *LockedError
		if _, err := c.unlocked(ctx, vm); err != nil && !errors.As(err, &dead) {
			return waited, err
		} else if err != nil {
			c.vmids.reserve(vm.VMID) // nobody will ever finish it
		}
	}
	return waited, nil
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
		} else if !vm.Running && vm.Digest == "" {
			return vm.with(all), nil // a clone of just now: nobody else has seen it
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
	token, root, storages := params{}, params{}, map[string]bool{}
	for _, ch := range all {
		p := token
		if rootKey(ch.key) {
			p = root
		}
		switch {
		case ch.key == "":
		case ch.value == "":
			p["delete"] = strings.TrimPrefix(fmt.Sprint(p["delete"])+","+ch.key, "<nil>,")
		default:
			p[ch.key] = ch.value
			if storage, _, ok := strings.Cut(ch.value, ":"); ok && isVolume(ch.key) && ch.field.Have == "none" && ch.key != seedSlot {
				storages[storage] = true
			}
		}
	}
	if len(root) > 0 && c.cfg.Login == nil {
		return rootError(vm, root)
	}
	if len(token) > 0 {
		if err := c.set(ctx, vm, token, storages); err != nil {
			return err
		}
	}
	if len(root) > 0 {
		if err := c.setAsRoot(ctx, vm, root); err != nil {
			return err
		}
	}
	return c.grow(ctx, vm, all)
}

// set sends config keys: where there is nothing to make, the answer comes when it
// is done, and else a task does it.
func (c *Client) set(ctx context.Context, vm *VM, p params, storages map[string]bool) error {
	progress.Say(ctx, "configuring %s", vm)
	if vm.Digest != "" {
		p["digest"] = vm.Digest
	}
	path := vmPath(vm.Host, vm.VMID, "config")
	if !vm.Running && len(storages) == 0 {
		return c.call(ctx, http.MethodPut, path, p, nil)
	}
	release, err := c.allocateAll(ctx, vm.Host, storages)
	if err != nil {
		return err
	}
	defer release()
	return c.do(ctx, http.MethodPost, path, p)
}

func (c *Client) grow(ctx context.Context, vm *VM, all []change) error {
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

// isVolume reports whether a config key holds a volume.
func isVolume(key string) bool {
	return slotted.MatchString(key) || strings.HasPrefix(key, "efidisk") || strings.HasPrefix(key, "tpmstate")
}

// with returns the VM as it is after changes to one that is off.
func (v *VM) with(all []change) *VM {
	entries := make([]pendingEntry, 0, len(v.config))
	config := maps.Clone(v.config)
	for _, ch := range all {
		switch {
		case ch.key == "":
		case ch.value == "":
			delete(config, ch.key)
		default:
			config[ch.key] = ch.value
		}
	}
	for k, value := range config {
		entries = append(entries, pendingEntry{Key: k, Value: (*flexText)(&value)})
	}
	out := newVM(v.Host, v.VMID, entries, false)
	out.Owner = v.Owner
	return out
}

// cloneOf is what a clone of a template looks like, as far as can be known without
// reading it; ok is false when a change that spec wants needs more. Proxmox gives
// the interfaces new addresses and the disks new volumes.
func (s VMSpec) cloneOf(source *VM, vmid int) (clone *VM, ok bool) {
	config := maps.Clone(source.config)
	for _, k := range []string{"template", "digest", "lock", "tags", "parent"} {
		if k != "tags" { // a clone has its template's
			delete(config, k)
		}
	}
	config["name"], config["description"] = s.Name, marker(s.Owner)
	for k, line := range config {
		switch p := loose(line); {
		case strings.HasPrefix(k, "unused"):
			delete(config, k)
		case strings.HasPrefix(k, "net"):
			name, _ := model(p)
			config[k] = (append(Properties{{"", name}}, p[min(1, len(p)):]...)).With("macaddr", "").String()
		}
	}
	source = &VM{Host: s.Host, VMID: vmid, Owner: s.Owner, config: config}
	clone = source.with(nil)
	clone.Unfinished = true
	for _, ch := range s.changes(clone) {
		if old := config[ch.key]; ch.key != seedSlot && isVolume(ch.key) && old != "" {
			return nil, false
		}
	}
	return clone, true
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
	tried := false // Proxmox is asked for free VMIDs once one was taken
	for range attempts {
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
		case !saidTaken(words(err)) || spec.VMID != 0:
			return nil, fmt.Errorf("clone %s from %s: %w", spec.Name, source, err)
		}
		progress.Say(ctx, "VMID %d was taken by another in the meantime", vmid)
	}
	return nil, fmt.Errorf("clone %s: every VMID that Proxmox offered was taken by another: is something else making VMs?", spec.Name)
}

// findSource returns the template that a VM is to be cloned from.
func (c *Client) findSource(ctx context.Context, spec VMSpec) (*VM, error) {
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

// sourceAge is for how long a template is not looked at again.
const sourceAge = time.Minute

// source returns the template that a VM is to be cloned from. It is read once for all
// its clones.
func (c *Client) source(ctx context.Context, spec VMSpec) (*VM, error) {
	c.sources.Lock()
	defer c.sources.Unlock()
	id := fmt.Sprint(spec.Owner, "/", spec.Host, "/", spec.Template, spec.TemplateID)
	if known := c.templates[id]; known.vm != nil && time.Since(known.at) < sourceAge {
		return known.vm, nil
	}
	vm, err := c.findSource(ctx, spec)
	if err != nil {
		return nil, err
	}
	if c.templates == nil {
		c.templates = map[string]template{}
	}
	c.templates[id] = template{vm, time.Now()}
	return vm, nil
}

// template is a template as it was at some time.
type template struct {
	vm *VM
	at time.Time
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
	if vm, ok := spec.cloneOf(source, vmid); ok {
		c.names.set(vmid, spec.Name)
		return vm, nil
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
