package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/placement"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// gpusStep finds or makes the resource mapping of a node's cards. It keeps an existing mapping
// that still fits, no matter what it would choose today. A card that another owner may want too
// is an error of Observe, so a plan reports it.
func (c *cards) gpusStep(n spec.Node) *converge.Resource[*placement.Allotment] {
	return &converge.Resource[*placement.Allotment]{
		ID: "gpus/" + n.Name,
		Observe: func(ctx context.Context) (*placement.Allotment, error) {
			a, err := c.allot(ctx, n.Host)
			if err != nil {
				return nil, err
			}
			return a, errors.Join(a.Shares[n.Name].Err, dividable(n, a.Shares[n.Name].Cards), refuseExchange(n.Name, a), c.refuseLater(n, a))
		},
		Diff:  func(a *placement.Allotment) converge.Diff { return c.diffMapping(n, a) },
		Costs: c.costsOfCards(n),
		Apply: func(ctx context.Context, a *placement.Allotment) error {
			if len(n.GPUs.Mapping) > 0 {
				return converge.Permanent(fmt.Errorf("resource mappings in the file for %s are missing or do not fit: %s", n.Name, c.diffMapping(n, a)))
			}
			if deleted, known, err := c.mappingDeleted(ctx, n, a); err != nil || deleted && known {
				return errors.Join(err, c.Proxmox.PCI.EnsureMapping(ctx, c.mapping(n, a)))
			}
			a, err := c.waitReleased(ctx, n, a)
			if err != nil {
				return err
			}
			var have []string
			if m := placement.Mapping(a.Mappings, names.Mapping(c.spec, n.Name)); m != nil {
				have = placement.Addresses(m, n.Host)
			}
			return c.remap(ctx, n, c.mapping(n, a), have)
		},
	}
}

// refuseExchange refuses cards that go round in a circle of nodes: all of them would have to be down
// at the same time.
func refuseExchange(node string, a *placement.Allotment) error {
	circle := a.ExchangeCycle(node)
	if len(circle) == 0 {
		return nil
	}
	return converge.Permanent(fmt.Errorf("%s would exchange GPUs, and be down at the same time\n  %s", strings.Join(circle, " and "),
		twoStepsText(circle[0])))
}

// refuseLater refuses cards that a machine releases only after the servers' machines, to a server.
func (c *cards) refuseLater(n spec.Node, a *placement.Allotment) error {
	if n.Role != spec.Server {
		return nil
	}
	for _, other := range a.Holders(n.Name) {
		if o, _ := c.spec.Machine(other); o.Role != spec.Server && !sharesCards(o) {
			return converge.Permanent(fmt.Errorf("%s gets a GPU of %s, whose machine changes only after those of the servers\n  %s", n.Name, other,
				twoStepsText(n.Name)))
		}
	}
	return nil
}

// sharesCards reports whether a node has a share of its host's cards, by a mapping of its own.
func sharesCards(n spec.Node) bool { return n.HasGPUs() && len(n.GPUs.Mapping) == 0 }

// twoStepsText says how a node gets cards that it cannot get in one run.
func twoStepsText(node string) string {
	return fmt.Sprintf("remove gpus from %s in the file, run cluster:up, add them again and run it again", node)
}

// waitReleased waits until other nodes have released cards that this node gets. Each releases them
// in a turn of its own, so two nodes do not go down together. It returns the allotment after that.
func (c *cards) waitReleased(ctx context.Context, n spec.Node, a *placement.Allotment) (*placement.Allotment, error) {
	others := a.Holders(n.Name)
	if len(others) == 0 {
		return a, nil
	}
	ill, err := c.members.UnhealthyExcept(ctx, func(k kube.Node) bool { return k.Name == n.Name && c.members.IsUnhealthy(k) })
	if err == nil && ill != "" {
		err = converge.Permanent(fmt.Errorf("%s gets cards of %s, and no other node goes down while it is not healthy: %s\n  start or uncordon it first, or %s",
			n.Name, strings.Join(others, " and "), ill, twoStepsText(n.Name)))
	}
	if err != nil {
		return nil, err
	}
	rule := converge.WaitRule{
		What: n.Name + " gets cards that another node releases", Limit: time.Duration(len(others)) * (nodes.BootTime + members.ReadyTime),
		TimeoutText: n.Name + " did not get its cards",
	}
	err = run.Until(ctx, c.spec, rule, func(ctx context.Context) (string, error) {
		if err := c.members.CheckNoneBroken(n.Name); err != nil {
			return "", converge.Permanent(err)
		}
		if a, err = c.allot(ctx, n.Host); err != nil {
			return "", err
		}
		others := a.Holders(n.Name)
		for _, other := range others {
			if err := errors.Join(a.Shares[other].Err, refuseExchange(other, a)); err != nil {
				return "", converge.Permanent(fmt.Errorf("%s keeps its cards: %w", other, err))
			}
		}
		if len(others) == 0 {
			return "", nil
		}
		return strings.Join(others, " and ") + " still has them", nil
	})
	return a, err
}

// cardsFree refuses to recreate a node while other nodes still have its cards: only cluster:up
// moves cards.
func (c *cards) cardsFree(ctx context.Context, n spec.Node) error {
	if !n.HasGPUs() {
		return nil
	}
	a, err := c.allot(ctx, n.Host)
	if err != nil {
		return err
	}
	if others := a.Holders(n.Name); len(others) > 0 {
		return fmt.Errorf("%s needs cards that %s still has: run cluster:up first, which moves them", n.Name, strings.Join(others, " and "))
	}
	return nil
}

// mappingDeleted reports whether somebody deleted the mapping of a machine that runs with cards,
// and whether those are known to be the ones that it gets again. If they are, the mapping is put
// back while the machine runs: it keeps its cards until it is off, whatever the mapping says.
func (c *cards) mappingDeleted(ctx context.Context, n spec.Node, a *placement.Allotment) (deleted, known bool, err error) {
	id := names.Mapping(c.spec, n.Name)
	if placement.Mapping(a.Mappings, id) != nil {
		return false, false, nil
	}
	vm, err := c.holding(ctx, n)
	if err != nil || vm == nil || !vm.Running {
		return false, false, err
	}
	share := a.Shares[n.Name]
	return true, share.Err == nil && share.Certain && len(devices(vm, id)) == n.GPUs.Count, nil
}

// mapping is the wanted resource mapping of a node.
func (c *cards) mapping(n spec.Node, a *placement.Allotment) pci.Mapping {
	cards := a.Shares[n.Name].Cards
	m := pci.MapGPUs(names.Mapping(c.spec, n.Name), names.MappingNote(c.spec), n.Host, cards...)
	if !n.GPUs.AllFunctions.IsOn() {
		for i := range m.Devices {
			m.Devices[i].Address = cards[i].Address
		}
	}
	return m
}

// remap writes a node's mapping, and removes devices from its VM for which the mapping no longer
// has a card: a VM with more devices than cards does not start. A VM that runs with the cards of
// the old mapping keeps them until it restarts. Its configuration names only the mapping, and
// would not show that, so the VM is off while the mapping changes. If the node only gets more
// cards, the VM's own step adds the devices and restarts it once for both.
func (c *cards) remap(ctx context.Context, n spec.Node, mapping pci.Mapping, have []string) error {
	vm, err := c.holding(ctx, n)
	switch {
	case err != nil:
		return err
	case grows(mapping, n.Host, have):
		return c.Proxmox.PCI.RewriteMapping(ctx, mapping)
	case vm == nil || !vm.Running:
		return c.recard(ctx, vm, mapping)
	}
	return c.takeDown(ctx, n, func(ctx context.Context) error {
		return c.whileOff(ctx, vm, func(vm *proxmox.VM) error { return c.recard(ctx, vm, mapping) })
	})
}

// recard writes the mapping of a VM that is off or does not exist. It removes the VM's devices
// first, so that the VM never has a device without a card.
func (c *cards) recard(ctx context.Context, vm *proxmox.VM, mapping pci.Mapping) error {
	slots := devices(vm, mapping.ID)
	for _, slot := range slots[min(len(mapping.Devices), len(slots)):] {
		if err := proxmox.DetachGPU(ctx, vm, slot); err != nil {
			return err
		}
	}
	return c.Proxmox.PCI.RewriteMapping(ctx, mapping)
}

// devices are the slots of a VM that use a mapping.
func devices(vm *proxmox.VM, mapping string) []string {
	if vm == nil {
		return nil
	}
	var out []string
	for _, g := range vm.GPUs {
		if g.Mapping == mapping {
			out = append(out, g.Slot)
		}
	}
	return out
}

// grows reports whether a mapping keeps the cards that it had on a host and gets more.
func grows(m pci.Mapping, host string, had []string) bool {
	want := map[string]bool{}
	for _, d := range m.Devices {
		if d.Host == host {
			want[d.Address.Whole().String()] = true
		}
	}
	return len(had) > 0 && len(want) > len(had) && !slices.ContainsFunc(had, func(card string) bool { return !want[card] })
}

// holding returns a node's VM if it has the cards of its mapping, running or not.
func (c *site) holding(ctx context.Context, n spec.Node) (*proxmox.VM, error) {
	vm, err := c.Proxmox.VMs.Get(ctx, names.Tag(c.spec), n.Name)
	if err != nil || len(devices(vm, names.Mapping(c.spec, n.Name))) == 0 {
		return nil, err
	}
	return vm, nil
}

// diffMapping is the difference between a node's mapping and the wanted one.
func (c *cards) diffMapping(n spec.Node, a *placement.Allotment) converge.Diff {
	if len(n.GPUs.Mapping) > 0 {
		return diffNamed(n, a.Mappings)
	}
	share := a.Shares[n.Name]
	m := placement.Mapping(a.Mappings, names.Mapping(c.spec, n.Name))
	if m == nil {
		return converge.Diff{{Want: "mapping of " + placement.GPUs(n.GPUs.Count), Effect: converge.Create, Note: share.Why}}
	}
	var d converge.Diff
	if len(m.Problems) > 0 {
		d = append(d, converge.Field{Path: "mapping", Have: strings.Join(m.Problems, "; "), Want: "the hardware that is there", Effect: converge.Restart})
	}
	for _, dev := range m.Devices {
		if whole := dev.Address.Function < 0; dev.Host == n.Host && whole != n.GPUs.AllFunctions.IsOn() {
			d = append(d, converge.Compare("functions", functions(whole), functions(n.GPUs.AllFunctions.IsOn()), converge.Restart)...)
			break
		}
	}
	var want []string
	for _, g := range share.Cards {
		want = append(want, g.Address.Whole().String())
	}
	slices.Sort(want)
	cards := converge.Compare("cards", strings.Join(placement.Addresses(m, n.Host), " "), strings.Join(want, " "), converge.Restart)
	for i := range cards {
		cards[i].Note = share.Why
	}
	return append(d, cards...)
}

func functions(all bool) string {
	if all {
		return "all of each card"
	}
	return "the GPUs alone"
}

// diffNamed checks mappings that belong to another owner.
func diffNamed(n spec.Node, all []pci.MappingState) converge.Diff {
	var d converge.Diff
	for _, id := range n.GPUs.Mapping {
		switch m := placement.Mapping(all, id); {
		case m == nil:
			d = append(d, converge.Field{Path: id, Want: "a resource mapping", Effect: converge.Create})
		case len(m.Problems) > 0:
			d = append(d, converge.Field{Path: id, Have: strings.Join(m.Problems, "; "), Want: "the hardware that is there", Effect: converge.Create})
		}
	}
	return d
}

// allot finds a host's cards and everyone who claims them, and assigns each of this cluster's
// nodes there its cards. It does not read this cluster's VMs: their mappings say what they have,
// and may be about to change. The exceptions are nodes that get no more cards by their mappings:
// these are removed last, and the machine releases the cards at its restart.
func (c *site) allot(ctx context.Context, host string) (*placement.Allotment, error) {
	ledger, err := c.Proxmox.PCI.LedgerWithout(ctx, names.Tag(c.spec), host)
	if err != nil {
		return nil, err
	}
	a := placement.Allot(c.spec, host, ledger)
	for _, n := range c.spec.Machines() {
		m := placement.Mapping(a.Mappings, names.Mapping(c.spec, n.Name))
		if !n.OnProxmox() || n.Host != host || sharesCards(n) || m == nil || m.Description != names.MappingNote(c.spec) {
			continue
		}
		vm, err := c.Proxmox.VMs.Get(ctx, names.Tag(c.spec), n.Name)
		if err != nil {
			return nil, err
		}
		if len(devices(vm, m.ID)) > 0 || releases(vm, m.ID) {
			a.AddHeld(n.Name, placement.Addresses(m, host))
		}
	}
	return a, nil
}

// releases reports whether a VM has devices of a mapping until its restart.
func releases(vm *proxmox.VM, mapping string) bool {
	return vm != nil && slices.ContainsFunc(vm.Pending, func(p proxmox.PendingKey) bool {
		return strings.HasPrefix(p.Key, "hostpci") && slices.Contains(strings.Split(p.Have, ","), "mapping="+mapping)
	})
}

// costsOfCards is the cost of moving cards: a restart of the node.
func (c *cards) costsOfCards(n spec.Node) func(context.Context, *placement.Allotment, converge.Diff) []converge.Cost {
	return func(ctx context.Context, a *placement.Allotment, _ converge.Diff) []converge.Cost {
		if len(n.GPUs.Mapping) > 0 {
			return nil // refused
		}
		why := "other cards"
		if deleted, known, _ := c.mappingDeleted(ctx, n, a); known {
			return nil
		} else if deleted {
			why = "its resource mapping was deleted, and which of the host's cards it has cannot be seen"
		}
		var have []string
		if m := placement.Mapping(a.Mappings, names.Mapping(c.spec, n.Name)); m != nil {
			have = placement.Addresses(m, n.Host)
		}
		if grows(c.mapping(n, a), n.Host, have) {
			return nil // if the node only gets more cards, the VM's own step restarts it
		}
		return c.stops(ctx, why, c.running(ctx, n.Name)...)
	}
}

// running are the nodes among names whose machine runs and has cards, or may have them.
func (c *cards) running(ctx context.Context, who ...string) []string {
	return slices.DeleteFunc(who, func(name string) bool {
		n, _ := c.spec.Machine(name)
		vm, err := c.holding(ctx, n)
		return err == nil && (vm == nil || !vm.Running)
	})
}
