package proxmox

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/cluster/converge/drift"
	"github.com/cps-gpu/homelab/cluster/converge/progress"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// configure posts all differences in one request, and grows disks. It returns the VM as it is then.
func (c *VMClient) configure(ctx context.Context, spec VMSpec, vm *VM) (*VM, error) {
	var failure error
	var pause api.Backoff
	for range api.Attempts {
		all := spec.Changes(vm)
		if err := refuseReplace(vm, all); err != nil {
			return nil, err
		}
		if len(all) == 0 {
			return vm, nil
		}
		failure = c.change(ctx, vm, all)
		if failure != nil && (ctx.Err() != nil || api.ClassOf(failure) == api.Permanent) {
			return nil, c.explain(ctx, vm, "configure", failure)
		}
		if failure != nil {
			progress.Say(ctx, "%s: %s; checking, then retrying", vm, api.Brief(failure))
			if pause.Pause(ctx) != nil {
				return nil, ctx.Err()
			}
			if err := c.pve.Quiet(ctx, vm.Host, strconv.Itoa(vm.VMID)); err != nil {
				return nil, err
			}
		} else if !vm.Running && vm.Digest == "" {
			return vm.With(all), nil // a new clone: nobody else has changed it
		}
		now, err := c.read(ctx, vm.Host, vm.VMID, vm.Running)
		if err != nil {
			return nil, err
		}
		now.Owner = vm.Owner
		now.Unfinished = now.HalfMade(spec.Owner)
		if left := spec.Changes(now); failure == nil && len(left) > 0 {
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

func sameFields(a, b []change) bool {
	return slices.EqualFunc(a, b, func(x, y change) bool { return x.Field == y.Field })
}

// refuseReplace returns an error if a change needs another VM.
func refuseReplace(vm *VM, all []change) error {
	for _, ch := range all {
		if ch.Field.Effect == drift.Replace {
			return fmt.Errorf("proxmox: %s cannot be changed to %s: %s; remove it, then make it again", vm, ch.Field.Want, ch.Field)
		}
	}
	return nil
}

// change sends one request for all config keys, then one for each disk to grow.
func (c *VMClient) change(ctx context.Context, vm *VM, all []change) error {
	token, root, storages := api.Params{}, api.Params{}, map[string]bool{}
	for _, ch := range all {
		p := token
		if rootKey(ch.Key) {
			p = root
		}
		switch {
		case ch.Key == "":
		case ch.Value == "":
			p["delete"] = strings.TrimPrefix(fmt.Sprint(p["delete"])+","+ch.Key, "<nil>,")
		default:
			p[ch.Key] = ch.Value
			if storage, _, ok := strings.Cut(ch.Value, ":"); ok && isVolume(ch.Key) && ch.Field.Have == "none" && ch.Key != seedSlot {
				storages[storage] = true
			}
		}
	}
	if len(root) > 0 && !c.pve.HasLogin() {
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

// set sends config keys. The answer is final if nothing has to be made; otherwise a task does the
// work.
func (c *VMClient) set(ctx context.Context, vm *VM, p api.Params, storages map[string]bool) error {
	progress.Say(ctx, "configuring %s", vm)
	if vm.Digest != "" {
		p["digest"] = vm.Digest
	}
	path := api.VMPath(vm.Host, vm.VMID, "config")
	if !vm.Running && len(storages) == 0 {
		return c.pve.Call(ctx, http.MethodPut, path, p, nil)
	}
	release, err := c.allocateAll(ctx, vm.Host, storages)
	if err != nil {
		return err
	}
	defer release()
	return c.pve.Do(ctx, http.MethodPost, path, p)
}

func (c *VMClient) grow(ctx context.Context, vm *VM, all []change) error {
	for _, ch := range all {
		if ch.Disk == "" {
			continue
		}
		progress.Say(ctx, "growing %s of %s to %s", ch.Disk, vm, ch.Size)
		err := c.pve.Do(ctx, http.MethodPut, api.VMPath(vm.Host, vm.VMID, "resize"), api.Params{"disk": ch.Disk, "size": wire.DiskSize(ch.Size)})
		if err != nil {
			return err
		}
	}
	return nil
}

// allocateAll waits for its turn on every storage. It takes them in the order of their names, to
// avoid a deadlock.
func (c *core) allocateAll(ctx context.Context, host string, storages map[string]bool) (release func(), err error) {
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
		r, err := c.locks.allocate(ctx, host, s, false)
		if err != nil {
			release()
			return nil, err
		}
		all = append(all, r)
	}
	return release, nil
}
