package proxmox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// configure posts all differences in one request, and grows disks. It returns the VM as it is then.
func (c *VMClient) configure(ctx context.Context, spec VMSpec, vm *VM) (*VM, error) {
	var failure error
	var pause api.Backoff
	for range api.Attempts {
		all := spec.changes(vm)
		if err := refuseReplace(vm, all); err != nil {
			return nil, err
		}
		if len(all) == 0 {
			return vm, nil
		}
		if spec.Protected != nil && vm.Protected && slices.ContainsFunc(all, func(ch change) bool { return ch.thing == theDiskGone }) {
			all = []change{unprotect()} // Proxmox detaches no disk of it, not even in a request that lifts the protection too
		}
		failure = c.change(ctx, vm, all)
		if failure != nil && (ctx.Err() != nil || api.ClassOf(failure) == api.Permanent) {
			return nil, c.explain(ctx, vm, "configure", failure)
		}
		if failure != nil {
			converge.Progressf(ctx, "%s: %s; checking, then retrying", vm, api.ShortMessage(failure))
			if pause.Pause(ctx) != nil {
				return nil, ctx.Err()
			}
			if err := c.pve.WaitIdle(ctx, vm.Host, strconv.Itoa(vm.VMID)); err != nil {
				return nil, err
			}
		} else if !vm.Running && vm.Digest == "" {
			return vm.withChanges(all), nil // a new clone: nobody else has changed it
		}
		now, err := c.read(ctx, vm.Host, vm.VMID, vm.Running)
		if err != nil {
			return nil, err
		}
		now.Owner, now.Pool = vm.Owner, vm.Pool
		now.Unfinished = now.halfMade(spec.Owner)
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

// unprotect is the change that lifts a VM's protection.
func unprotect() change {
	return change{thing: theProtection, Field: converge.Field{Path: "protection", Have: "true", Want: "false"}, Key: "protection", Value: "0"}
}

func sameFields(a, b []change) bool {
	return slices.EqualFunc(a, b, func(x, y change) bool { return x.Field == y.Field })
}

// refuseReplace returns an error if a change needs another VM.
func refuseReplace(vm *VM, all []change) error {
	for _, ch := range all {
		if ch.Field.Effect == converge.Replace {
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
	if err := c.moveToPool(ctx, vm, all); err != nil {
		return err
	}
	return c.grow(ctx, vm, all)
}

// moveToPool puts a VM into its resource pool, out of any other one.
func (c *VMClient) moveToPool(ctx context.Context, vm *VM, all []change) error {
	i := slices.IndexFunc(all, func(ch change) bool { return ch.thing == thePool })
	if i < 0 {
		return nil
	}
	pool := all[i].Field.Want
	converge.Progressf(ctx, "putting %s into the pool %s", vm, pool)
	err := c.pve.Call(ctx, http.MethodPut, "/pools", api.Params{"poolid": pool, "vms": vm.VMID, "allow-move": 1}, nil)
	if err != nil && !strings.Contains(err.Error(), "already a pool member") { // by an earlier request, whose answer was lost
		return err
	}
	vm.Pool = pool
	return nil
}

// set sends config keys. The answer is final if nothing has to be made; otherwise a task does the
// work.
func (c *VMClient) set(ctx context.Context, vm *VM, p api.Params, storages map[string]bool) error {
	converge.Progressf(ctx, "configuring %s", vm)
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
		converge.Progressf(ctx, "growing %s of %s to %s", ch.Disk, vm, ch.Size)
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

// setAsRoot sets config keys of a VM that no token may set.
func (c *VMClient) setAsRoot(ctx context.Context, vm *VM, p api.Params) error {
	if !c.pve.HasLogin() {
		return rootError(vm, p)
	}
	form := url.Values{}
	for k, v := range p {
		form.Set(k, fmt.Sprint(v))
	}
	err := c.pve.PutAsRoot(ctx, api.VMPath(vm.Host, vm.VMID, "config"), form)
	if errors.Is(err, api.ErrSecondFactor) {
		_, command := rootCommand(vm, p)
		return fmt.Errorf("%w\n  run on %s: %s; or leave the option out", err, vm.Host, command)
	}
	return err
}

// rootError says what a token cannot do, and gives two ways to do it.
func rootError(vm *VM, p api.Params) error {
	keys, command := rootCommand(vm, p)
	return fmt.Errorf("proxmox: %s of %s: only root@pam itself may set this, not a token\n"+
		"  write user: root@pam below proxmox: in the file, with password: or without it to be asked; or run on %s: %s",
		strings.Join(keys, " and "), vm, vm.Host, command)
}

// rootCommand returns the keys to set, and the command that root types to set them on a VM.
func rootCommand(vm *VM, p api.Params) (keys []string, command string) {
	var options []string
	for k, v := range p {
		switch {
		case rootKey(k):
			keys, options = append(keys, k), append(options, "--"+k+" "+printable.Word(v))
		case k == "delete":
			keys, options = append(keys, fmt.Sprint(v)), append(options, "--delete "+printable.Word(v))
		}
	}
	return keys, fmt.Sprintf("qm set %d %s", vm.VMID, strings.Join(options, " "))
}
