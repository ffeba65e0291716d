package proxmox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/live"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// Get returns the VM of owner's with that name, or nil if there is none. It does not return another
// owner's VM of that name, whatever its tags; see [VMClient.NameConflict].
func (c *VMClient) Get(ctx context.Context, owner, name string) (*VM, error) {
	found, _, err := c.findByName(ctx, owner, name)
	if err != nil {
		return nil, err
	}
	return exactlyOne(owner, name, found)
}

// exactlyOne returns the one VM of a name, or nil if there is none. Several are an error.
func exactlyOne(owner, name string, found []*VM) (*VM, error) {
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	dup := &DuplicateError{Name: name, Owner: owner}
	for _, vm := range found {
		dup.VMIDs = append(dup.VMIDs, vm.VMID)
	}
	slices.Sort(dup.VMIDs)
	return nil, dup
}

// NameConflict returns a [*ConflictError] if another owner's VM has the name.
func (c *VMClient) NameConflict(ctx context.Context, owner, name string) error {
	found, foreign, err := c.findByName(ctx, owner, name)
	if err != nil || len(found) > 0 || len(foreign) == 0 {
		return err
	}
	return conflict(owner, foreign[0])
}

// NameConflicts returns a [*ConflictError] for each of the names that another owner's VM has. If there
// is no conflict, it costs no more than the list of all VMs.
func (c *VMClient) NameConflicts(ctx context.Context, owner string, names []string) ([]*ConflictError, error) {
	all, err := live.List(ctx, c.pve)
	if err != nil {
		return nil, err
	}
	ours, others := map[string]bool{}, map[string]bool{}
	for _, r := range all {
		if r.Type == "qemu" && markedFor(r, owner) {
			ours[r.Name] = true
		} else {
			others[r.Name] = true
		}
	}
	var out []*ConflictError
	for _, name := range names {
		if !others[name] || ours[name] {
			continue
		}
		err := c.NameConflict(ctx, owner, name) // a half-made VM of ours has no tag yet
		var conflict *ConflictError
		if errors.As(err, &conflict) {
			out = append(out, conflict)
		} else if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Get returns the template of owner's with that name, or nil if there is none. To find a VM
// that becomes a template later, use [VMClient.Get]. If several hosts have a template of that name,
// Template returns the one on host, or else the one on the host whose name sorts first.
func (c *TemplateClient) Get(ctx context.Context, owner, host, name string) (*VM, error) {
	found, _, err := c.client.VMs.findByName(ctx, owner, name)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(vm *VM) bool { return !vm.Template })
	sortBy(found, compareByHost)
	if len(found) == 0 {
		return nil, nil
	}
	return found[max(0, slices.IndexFunc(found, func(vm *VM) bool { return vm.Host == host }))], nil
}

// compareByHost orders VMs by their hosts and VMIDs.
func compareByHost(a, b *VM) int {
	return cmp.Or(strings.Compare(a.Host, b.Host), cmp.Compare(a.VMID, b.VMID))
}

// findByName returns all VMs called name, from any owner.
func (c *VMClient) findByName(ctx context.Context, owner, name string) (ours, foreign []*VM, err error) {
	all, err := live.List(ctx, c.pve)
	if err != nil {
		return nil, nil, err
	}
	return c.filterByName(ctx, all, owner, name)
}

// filterByName is named for callers that already have the list of all VMs.
func (c *VMClient) filterByName(ctx context.Context, all []live.Resource, owner, name string) (ours, foreign []*VM, err error) {
	for _, r := range all {
		if r.Type != "qemu" || r.Name != name && !live.IsUnnamed(r) && (r.HostErr == nil || !maybeOursIn(r, owner)) {
			continue
		}
		if err := r.CheckFresh(); err != nil && taggedIn(r, owner) && !maybeOursIn(r, owner) {
			foreign = append(foreign, &VM{Name: r.Name, VMID: int(r.VMID), Host: r.Node, Tags: splitTags(r.Tags)})
			continue
		} else if err != nil && (maybeOursIn(r, owner) || r.Name == name) {
			return nil, nil, err
		}
		vm, err := c.read(ctx, r.Node, int(r.VMID), c.isRunning(ctx, r))
		switch {
		case errors.Is(err, ErrNotFound):
			continue // destroyed since
		case r.Name != name && api.Forbidden(err):
			continue // a VM that we may not see is not ours
		case err != nil:
			return nil, nil, err
		case vm.Name != name:
			continue
		}
		vm.Owner, vm.Pool = owner, r.Pool
		vm.Unfinished = vm.halfMade(owner)
		switch {
		case vm.OwnedBy(owner):
			ours = append(ours, vm)
		default:
			foreign = append(foreign, vm)
		}
	}
	return ours, foreign, nil
}

// Refresh reads vm's configuration and power state again. It is an error if another VM, with
// another UUID, has its VMID by now.
func (c *VMClient) Refresh(ctx context.Context, vm *VM) (*VM, error) {
	running, err := c.status(ctx, vm.Host, vm.VMID)
	if err != nil {
		return nil, err
	}
	out, err := c.read(ctx, vm.Host, vm.VMID, running)
	if err != nil {
		return nil, err
	}
	if !out.mayBe(vm) {
		return nil, replacedError(vm)
	}
	out.Owner, out.Pool = vm.Owner, vm.Pool
	return out, nil
}

// record records which client read a VM.
func (c *core) record(vm *VM) *VM {
	vm.client = c.client
	return vm
}

// read returns a VM's configuration, with pending changes, in one request.
func (c *core) read(ctx context.Context, host string, vmid int, running bool) (*VM, error) {
	var entries []configEntry
	if err := c.pve.Get(ctx, api.VMPath(host, vmid, "pending"), nil, &entries); err != nil {
		return nil, err
	}
	return c.record(readVM(host, vmid, entries, running)), nil
}

// readShared is read with an answer that concurrent callers share.
func (c *core) readShared(ctx context.Context, host string, vmid int, running bool) (*VM, error) {
	entries, err := api.GetShared[[]configEntry](ctx, c.pve, api.VMPath(host, vmid, "pending"), nil)
	if err != nil {
		return nil, err
	}
	return c.record(readVM(host, vmid, entries, running)), nil
}

// status asks the host itself whether a VM runs.
func (c *core) status(ctx context.Context, host string, vmid int) (running bool, err error) {
	var now struct {
		Status string `json:"status"`
	}
	if err := c.pve.Get(ctx, api.VMPath(host, vmid, "status", "current"), nil, &now); err != nil {
		return false, err
	}
	return now.Status == "running", nil
}

// vmidTries bounds how many VMIDs are tried when others take them meanwhile.
const vmidTries = 6

// vmids allocates VMIDs. Proxmox's nextid reserves nothing, so vmids remembers the ones it has
// handed out. It does not reuse VMIDs of VMs that this process destroyed: their cleanup may still
// hold a lock.
type vmids struct {
	firstMu sync.Mutex
	first   int // nextid's answer; 0 before the first request

	mu       sync.Mutex
	used     map[int]bool // handed out or destroyed by this process
	existing map[int]bool // of VMs that existed at some time
}

// next returns a free VMID and reserves it within this process. It asks Proxmox for the first VMID,
// and then counts up, skipping the VMIDs of VMs that the token may see. With ask, it asks Proxmox
// about each of them.
func (c *core) next(ctx context.Context, ask bool) (int, error) {
	first, err := c.firstFree(ctx)
	if err != nil {
		return 0, err
	}
	for id := first; ; id++ {
		if !c.vmids.reserve(id) {
			continue
		}
		if !ask {
			return id, nil
		}
		if taken, err := c.client.VMs.VMIDTaken(ctx, id); err != nil {
			return 0, err
		} else if !taken {
			return id, nil
		}
	}
}

// firstFree returns where the search for a free VMID starts, and reserves the VMIDs of existing
// VMs.
func (c *core) firstFree(ctx context.Context) (int, error) {
	c.vmids.firstMu.Lock()
	defer c.vmids.firstMu.Unlock()
	if c.vmids.first > 0 {
		return c.vmids.first, nil
	}
	var first wire.Int
	if err := c.pve.Get(ctx, "/cluster/nextid", nil, &first); err != nil {
		return 0, err
	}
	all, err := live.List(ctx, c.pve)
	if err != nil {
		return 0, err
	}
	for _, r := range all {
		if r.VMID >= first {
			c.vmids.markExisting(int(r.VMID))
		}
	}
	c.vmids.first = int(first)
	return c.vmids.first, nil
}

// reserve reports whether id was free.
func (v *vmids) reserve(id int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.used == nil {
		v.used = map[int]bool{}
	}
	if v.used[id] || v.existing[id] {
		return false
	}
	v.used[id] = true
	return true
}

func (v *vmids) markExisting(id int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.existing == nil {
		v.existing = map[int]bool{}
	}
	v.existing[id] = true
}

// isReserved reports whether this process handed out id.
func (v *vmids) isReserved(id int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.used[id]
}

// sortBy is slices.SortFunc by reflection: of each type that one is compiled for, it makes a program
// 25 KB larger.
func sortBy[T any](all []T, compare func(a, b T) int) {
	sort.Slice(all, func(i, j int) bool { return compare(all[i], all[j]) < 0 })
}

// GetForeign returns the one VM with that name that does not belong to owner, or nil if there is
// none. Several are an error, because the name is ambiguous.
func (c *VMClient) GetForeign(ctx context.Context, owner, name string) (*VM, error) {
	_, foreign, err := c.findByName(ctx, owner, name)
	if err != nil || len(foreign) == 0 {
		return nil, err
	}
	if len(foreign) > 1 {
		var ids []string
		for _, vm := range foreign {
			ids = append(ids, fmt.Sprint(vm.VMID))
		}
		slices.Sort(ids)
		return nil, fmt.Errorf("proxmox: VMs %s are all called %s and do not belong to the cluster: rename all but the one to adopt", strings.Join(ids, " and "), name)
	}
	return foreign[0], nil
}

// taggedIn reports whether a VM in a list carries the tag owner, or a mark of owner's.
func taggedIn(r live.Resource, owner string) bool { return HasOwnerTag(owner, splitTags(r.Tags)) }

// markedFor reports whether a VM in a list is marked with its VMID as owner's. Only its configuration
// shows whether its UUID is the marked one. A half-made VM may be ours without a mark.
func markedFor(r live.Resource, owner string) bool {
	return slices.Contains(marksOf(owner, splitTags(r.Tags)), int(r.VMID))
}

// maybeOursIn reports whether a VM may be owner's although the list does not prove it: its notes
// may say so.
func maybeOursIn(r live.Resource, owner string) bool {
	return markedFor(r, owner) || taggedIn(r, owner) && len(marksOf(owner, splitTags(r.Tags))) == 0
}

// summaryOf returns the VM in a list, without whether it runs.
func summaryOf(r live.Resource) Summary {
	return Summary{
		Name: r.Name, VMID: int(r.VMID), Host: r.Node, Template: bool(r.Template), Locked: r.Lock,
		Tags: splitTags(r.Tags), Cores: int(r.MaxCPU), Memory: Size(r.MaxMem),
	}
}
