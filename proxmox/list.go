package proxmox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/live"
)

// RegisterNames registers which names VMs and templates of owner's have. A VM of such a name is read
// even if somebody has removed its tags: its notes may still say that it is the owner's.
func (c *VMClient) RegisterNames(owner string, has func(name string) bool) {
	c.expected.Store(strings.ToLower(owner), has)
}

func (c *VMClient) expects(owner, name string) bool {
	has, found := c.expected.Load(strings.ToLower(owner))
	return found && has.(func(string) bool)(name)
}

// List returns every VM and template of owner's, sorted by name: those marked with their own VMID,
// and half-made ones. It makes one request, one for each host with VMs, and one for
// each VM with the owner's tag that is not marked with its own VMID. Concurrent lookups share the
// first two kinds. It does not compare the UUID with the mark; that is checked before a VM is
// changed.
func (c *VMClient) List(ctx context.Context, owner string) ([]Summary, error) {
	all, err := live.List(ctx, c.pve)
	if err != nil {
		return nil, err
	}
	ours, _, err := c.classify(ctx, all, owner)
	return ours, err
}

// Stray is a VM that carries an owner's tag but does not belong to the owner: a copy, or a VM that
// someone tagged by hand. It is never changed.
type Stray struct {
	Summary
	Reason string    // why it is not the owner's: "is marked as VM 104, so it is a copy …"
	GPUs   []HostPCI // the devices that it would take when it starts
}

// UntagCommand returns the command that removes an owner's tag and marks from a stray, for root on its
// host. After that the stray is no longer reported.
func (s Stray) UntagCommand(owner string) string {
	rest := slices.DeleteFunc(withoutMarks(owner, s.Tags), func(t string) bool { return t == strings.ToLower(owner) })
	if len(rest) == 0 {
		return fmt.Sprintf("qm set %d --delete tags", s.VMID)
	}
	return fmt.Sprintf("qm set %d --tags %s", s.VMID, printable.Word(strings.Join(rest, ";")))
}

// Strays returns the VMs that carry the tag owner but do not belong to the owner, sorted by name.
// It costs the same as [VMClient.List].
func (c *VMClient) Strays(ctx context.Context, owner string) ([]Stray, error) {
	all, err := live.List(ctx, c.pve)
	if err != nil {
		return nil, err
	}
	_, strays, err := c.classify(ctx, all, owner)
	return strays, err
}

// tell separates the owner's VMs from those that only carry the owner's tag. It reads a VM's
// configuration if the list is not enough to decide.
func (c *VMClient) classify(ctx context.Context, all []live.Resource, owner string) (ours []Summary, strays []Stray, err error) {
	for _, r := range all {
		untagged := !taggedIn(r, owner)
		if r.Type != "qemu" || untagged && !c.expects(owner, r.Name) && (!live.IsUnnamed(r) || len(splitTags(r.Tags)) > 0) {
			continue
		}
		s := Stray{Summary: summaryOf(r)}
		err := r.CheckFresh()
		switch {
		case err != nil && untagged && !live.IsUnnamed(r):
			continue
		case err != nil && taggedIn(r, owner) && !maybeOursIn(r, owner):
			s.Reason = (&VM{VMID: s.VMID, Tags: s.Tags}).foreignReason(owner)
			strays = append(strays, s)
			continue
		case err != nil && taggedIn(r, owner):
			return nil, nil, err
		case markedFor(r, owner) && !live.IsUnnamed(r):
			ours = append(ours, c.addPowerState(ctx, s.Summary, r))
			continue
		}
		vm, err := c.readListed(ctx, r)
		switch {
		case errors.Is(err, ErrNotFound), !markedFor(r, owner) && api.Forbidden(err):
			continue // destroyed since, or one that we may not see
		case err != nil:
			return nil, nil, err
		}
		s.Summary = c.addPowerState(ctx, vm.Summary(), r)
		vm.Running = s.Running
		s.Reason, s.GPUs = vm.foreignReason(owner), vm.GPUs
		switch {
		case vm.OwnedBy(owner):
			ours = append(ours, s.Summary)
		case vm.HasOwnerTag(owner):
			strays = append(strays, s)
		}
	}
	sortBy(ours, compareByName)
	sortBy(strays, func(a, b Stray) int { return compareByName(a.Summary, b.Summary) })
	return ours, strays, nil
}

func compareByName(a, b Summary) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.VMID, b.VMID))
}

// readListed reads a VM from a list. If the VM has a name, concurrent lookups may share the read.
func (c *VMClient) readListed(ctx context.Context, r live.Resource) (*VM, error) {
	if live.IsUnnamed(r) {
		return c.read(ctx, r.Node, int(r.VMID), false)
	}
	return c.readShared(ctx, r.Node, int(r.VMID), r.Status == "running")
}

// addPowerState adds to a VM from a list whether it runs.
func (c *VMClient) addPowerState(ctx context.Context, s Summary, r live.Resource) Summary {
	s.Running = !s.Template && c.isRunning(ctx, r)
	return s
}
