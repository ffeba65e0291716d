package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/proxmox"
)

// gpusStep finds or makes the resource mapping of a node's cards. A mapping that is
// there and still fits is kept, whatever we would choose today.
func (c *Cluster) gpusStep(n Node) *converge.Resource[[]proxmox.MappingState] {
	return &converge.Resource[[]proxmox.MappingState]{
		ID:      "gpus/" + n.Name,
		Observe: func(ctx context.Context) ([]proxmox.MappingState, error) { return c.Proxmox.Mappings(ctx, n.Host) },
		Diff:    func(all []proxmox.MappingState) drift.Diff { return c.diffMapping(n, all) },
		Apply: func(ctx context.Context, all []proxmox.MappingState) error {
			if len(n.GPUs.Mapping) > 0 {
				return converge.Permanent(fmt.Errorf("the file names resource mappings for %s that are not there or do not fit: %s", n.Name, c.diffMapping(n, all)))
			}
			if m := find(all, c.spec.mappingID(n.Name)); m != nil && m.Description != c.spec.ourMapping() {
				return converge.Permanent(fmt.Errorf("the resource mapping %s is not ours (its description is %q) and differs: %s\n"+
					"  name it under gpus.mapping of %s to use it as it is, or remove it", m.ID, m.Description, c.diffMapping(n, all), n.Name))
			}
			cards, err := c.place(ctx, n)
			if err != nil {
				return converge.Permanent(err)
			}
			mapping := proxmox.MapGPUs(c.spec.mappingID(n.Name), c.spec.ourMapping(), n.Host, cards...)
			if !n.GPUs.AllFunctions {
				for i := range mapping.Devices {
					mapping.Devices[i].Address = cards[i].Address
				}
			}
			return c.remap(ctx, n, mapping)
		},
	}
}

// remap writes a node's mapping. A VM that runs with the cards of the old one keeps
// them until it starts again, and its configuration, which names the mapping, would
// not show that: it is off while the mapping changes.
func (c *Cluster) remap(ctx context.Context, n Node, mapping proxmox.Mapping) error {
	vm, err := c.Proxmox.VM(ctx, c.spec.tag(), n.Name)
	if err != nil {
		return err
	}
	if vm == nil || !vm.Running || !slices.ContainsFunc(vm.GPUs, func(g proxmox.HostPCI) bool { return g.Mapping == mapping.ID }) {
		return c.Proxmox.EnsureMapping(ctx, mapping)
	}
	return c.takeDown(ctx, n, func(ctx context.Context) error {
		if err := c.Proxmox.Shutdown(ctx, vm); err != nil {
			return err
		}
		if err := c.Proxmox.EnsureMapping(ctx, mapping); err != nil {
			return err
		}
		return c.Proxmox.Start(ctx, vm)
	})
}

func find(all []proxmox.MappingState, id string) *proxmox.MappingState {
	for i := range all {
		if all[i].ID == id {
			return &all[i]
		}
	}
	return nil
}

func (c *Cluster) diffMapping(n Node, all []proxmox.MappingState) drift.Diff {
	if len(n.GPUs.Mapping) > 0 {
		return diffNamed(n, all)
	}
	m := find(all, c.spec.mappingID(n.Name))
	if m == nil {
		return drift.Missing(fmt.Sprintf("mapping of %d GPUs", n.GPUs.Count))
	}
	var d drift.Diff
	if len(m.Problems) > 0 {
		d = append(d, drift.Field{Path: "mapping", Have: strings.Join(m.Problems, "; "), Want: "the hardware that is there", Effect: drift.Restart})
	}
	for _, dev := range m.Devices {
		if whole := dev.Address.Function < 0; dev.Host == n.Host && whole != n.GPUs.AllFunctions {
			d = append(d, drift.Compare("functions", functions(whole), functions(n.GPUs.AllFunctions), drift.Restart)...)
			break
		}
	}
	have := addresses(m, n.Host)
	if len(n.GPUs.PCI) == 0 {
		return append(d, drift.Compare("cards", len(have), n.GPUs.Count, drift.Restart)...)
	}
	var want []string
	for _, a := range n.GPUs.PCI {
		want = append(want, a.Whole().String())
	}
	slices.Sort(want)
	return append(d, drift.Compare("cards", strings.Join(have, " "), strings.Join(want, " "), drift.Restart)...)
}

func functions(all bool) string {
	if all {
		return "all of each card"
	}
	return "the GPUs alone"
}

// diffNamed checks mappings that are somebody else's.
func diffNamed(n Node, all []proxmox.MappingState) drift.Diff {
	var d drift.Diff
	for _, id := range n.GPUs.Mapping {
		switch m := find(all, id); {
		case m == nil:
			d = append(d, drift.Field{Path: id, Want: "a resource mapping", Effect: drift.Create})
		case len(m.Problems) > 0:
			d = append(d, drift.Field{Path: id, Have: strings.Join(m.Problems, "; "), Want: "the hardware that is there", Effect: drift.Create})
		}
	}
	return d
}

// addresses lists the cards that a mapping has on a host, sorted.
func addresses(m *proxmox.MappingState, host string) []string {
	var out []string
	for _, d := range m.Devices {
		if d.Host == host {
			out = append(out, d.Address.Whole().String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// place chooses a node's cards: those that the file names, or the first free ones
// that sit next to each other. Neighbours on the bus share a NUMA node on every
// board we know of; Proxmox does not tell the NUMA node itself.
//
// It chooses for all nodes of the host, in the order of the file, and returns this
// one's: nodes that choose at the same time, or in another run, agree.
func (c *Cluster) place(ctx context.Context, n Node) ([]proxmox.GPU, error) {
	gpus, err := c.Proxmox.GPUs(ctx, n.Host)
	if err != nil {
		return nil, err
	}
	mappings, err := c.Proxmox.Mappings(ctx, n.Host)
	if err != nil {
		return nil, err
	}
	uses, err := c.Proxmox.PCIUses(ctx, n.Host)
	if err != nil {
		return nil, err
	}
	taken := c.taken(n.Host, mappings, uses)
	for card, who := range taken { // what the node has already, it may keep
		if who == "mapping "+c.spec.mappingID(n.Name) {
			delete(taken, card)
		}
	}
	for _, other := range c.spec.GPUNodes() {
		if other.External || other.Host != n.Host || len(other.GPUs.Mapping) > 0 {
			continue
		}
		if other.Name != n.Name && find(mappings, c.spec.mappingID(other.Name)) != nil {
			continue // it has its cards
		}
		chosen, err := choose(other, gpus, taken)
		if other.Name == n.Name {
			return chosen, err
		}
		for _, g := range chosen {
			taken[g.Address.Whole()] = "node " + other.Name
		}
	}
	return nil, fmt.Errorf("%s is not a node of %s", n.Name, n.Host)
}

// taken says who has which card of a host: any VM, running or not, ours or not,
// through a mapping or raw, and our mappings of nodes that have no VM yet.
func (c *Cluster) taken(host string, mappings []proxmox.MappingState, uses []proxmox.PCIUse) map[proxmox.PCIAddress]string {
	taken := map[proxmox.PCIAddress]string{}
	for _, u := range uses {
		_, node := c.spec.Node(u.Name)
		if node && slices.Contains(u.Tags, c.spec.tag()) {
			continue // its mapping says what it has, and may be about to change
		}
		for _, a := range u.Addresses {
			taken[a.Whole()] = fmt.Sprintf("VM %d %q", u.VMID, u.Name)
		}
	}
	for _, m := range mappings {
		if m.Description != c.spec.ourMapping() {
			continue
		}
		for _, d := range m.Devices {
			if d.Host == host {
				taken[d.Address.Whole()] = "mapping " + m.ID
			}
		}
	}
	return taken
}

// candidate reports whether a card may become one of the node's.
func candidate(n Node, g proxmox.GPU) bool {
	if len(n.GPUs.PCI) > 0 {
		return slices.ContainsFunc(n.GPUs.PCI, func(a PCIAddress) bool { return a.Whole().String() == g.Address.Whole().String() })
	}
	return strings.Contains(strings.ToLower(g.Name), strings.ToLower(n.GPUs.Model))
}

// choose is the pure part of place. Asked for by address, a card that cannot be had
// is an error; asked for by number, the next one is taken.
func choose(n Node, gpus []proxmox.GPU, taken map[proxmox.PCIAddress]string) ([]proxmox.GPU, error) {
	var free []proxmox.GPU
	var why []string
	for _, g := range gpus {
		who := taken[g.Address.Whole()]
		switch {
		case !candidate(n, g):
			why = append(why, fmt.Sprintf("%s is a %s", g.Address, g.Name))
		case who != "":
			why = append(why, fmt.Sprintf("%s belongs to %s", g.Address, who))
		case g.Problem() != "":
			why = append(why, fmt.Sprintf("%s %s", g.Address, g.Problem()))
		default:
			free = append(free, g)
		}
	}
	if len(free) >= n.GPUs.Count {
		return free[:n.GPUs.Count], nil
	}
	asked := fmt.Sprintf("%d GPUs", n.GPUs.Count)
	if len(n.GPUs.PCI) > 0 {
		asked = fmt.Sprintf("the GPUs at %v", n.GPUs.PCI)
	}
	switch {
	case len(gpus) > 0 && len(why) == 0:
		why = []string{fmt.Sprintf("it has %d in all", len(gpus))}
	case len(gpus) == 0:
		why = []string{"none is there, or the token may not see them: grant it Sys.Audit on /"}
	}
	return nil, fmt.Errorf("%s asks for %s, and host %s can give %d: %s", n.Name, asked, n.Host, len(free), strings.Join(why, "; "))
}
