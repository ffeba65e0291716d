package placement

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// lookTime bounds the time for all requests to the hosts.
const lookTime = time.Minute

// Place returns spec with a host for every node whose file says host: auto, chosen among the
// declared hosts from their state. Existing nodes do not move: a node with a VM, or with a mapping
// of its cards, keeps its host. The other nodes, in the order of the file but with GPU nodes first,
// go to the host that has their cards and storages and the most room: free cards, then memory.
// Before that, servers are spread over the hosts.
//
// The same state gives the same choice. If no node leaves its host open, Place returns spec
// unchanged and sends no request.
func Place(ctx context.Context, want *spec.Spec, pve *proxmox.Client) (*spec.Spec, error) {
	if !slices.ContainsFunc(want.Nodes, spec.Node.Unplaced) {
		return want, nil
	}
	var out *spec.Spec
	rule := converge.WaitRule{What: "choosing hosts", Limit: lookTime * time.Duration(max(want.Patience, 1)), Strict: true,
		TimeoutText: "no complete answer"}
	err := converge.Until(ctx, rule, func(ctx context.Context) (_ string, err error) {
		out, err = PlaceOnce(ctx, want, pve)
		return "", err
	})
	return out, err
}

// PlaceOnce is [Place] without a retry if a host does not answer. It reads the hosts even if no node
// leaves its host open.
func PlaceOnce(ctx context.Context, want *spec.Spec, pve *proxmox.Client) (*spec.Spec, error) {
	out := *want
	out.Nodes, out.Placed = slices.Clone(want.Nodes), map[string]string{}
	out.Proxmox.Hosts = slices.Clone(want.Proxmox.Hosts)
	p := &placing{spec: &out}
	if err := p.observe(ctx, pve); err != nil {
		return nil, fmt.Errorf("choosing hosts: %w", err)
	}
	for _, gpus := range []bool{true, false} {
		for i := range out.Nodes {
			n := &out.Nodes[i]
			if !n.Unplaced() || n.HasGPUs() != gpus {
				continue
			}
			if err := p.choose(n); err != nil {
				return nil, err
			}
		}
	}
	out.TemplatesBeside()
	return &out, nil
}

// placing is the state of the hosts during the placement.
type placing struct {
	spec  *spec.Spec
	rooms []*room
}

// room is the free capacity of a host.
type room struct {
	host     string
	up       bool
	cpus     int
	memory   proxmox.Size
	storages []string
	bridges  []string // and VNets that the token may see
	servers  int
	ledger   *pci.Ledger
	cards    *Allotment // of the nodes that are on it so far
}

// observe reads the hosts, and assigns the nodes that already have a host to it.
func (p *placing) observe(ctx context.Context, pve *proxmox.Client) error {
	pve.VMs.RegisterNames(names.Tag(p.spec), func(name string) bool { return names.MayBeName(p.spec, name) })
	vms, err := pve.VMs.List(ctx, names.Tag(p.spec))
	if err != nil {
		return err
	}
	if err := p.measure(ctx, pve, vms); err != nil {
		return err
	}
	for i := range p.spec.Nodes {
		n := &p.spec.Nodes[i]
		if at := slices.IndexFunc(vms, func(vm proxmox.Summary) bool { return vm.Name == n.Name && !vm.Template }); at >= 0 && n.Unplaced() {
			n.Host = vms[at].Host
		}
	}
	for _, r := range p.rooms {
		if !r.up {
			continue
		}
		ledger, err := pve.PCI.LedgerWithout(ctx, names.Tag(p.spec), r.host)
		if err != nil {
			return err
		}
		p.placeByMapping(ledger)
		r.ledger, r.cards = ledger, Allot(p.spec, r.host, ledger)
	}
	for _, n := range p.spec.Machines() {
		if r := p.room(n.Host); r != nil && n.OnProxmox() {
			r.allocate(n)
		}
	}
	return nil
}

// measure reads the capacity of the declared hosts, and subtracts what is promised to others there.
func (p *placing) measure(ctx context.Context, pve *proxmox.Client, ours []proxmox.Summary) error {
	hosts, err := pve.Hosts.List(ctx)
	if err != nil {
		return err
	}
	residents, err := pve.Hosts.Residents(ctx)
	if err != nil {
		return err
	}
	for _, declared := range p.spec.Proxmox.Hosts {
		r := &room{host: declared.Name}
		p.rooms = append(p.rooms, r)
		at := slices.IndexFunc(hosts, func(h proxmox.Host) bool { return h.Name == declared.Name })
		if at < 0 {
			return fmt.Errorf("there is no host %s; Proxmox shows %s", declared.Name, nodeNames(hosts))
		}
		if r.up = hosts[at].Online; !r.up {
			continue
		}
		r.cpus, r.memory = hosts[at].CPUs, cmp.Or(declared.Memory, hosts[at].Memory)
		for _, vm := range residents {
			own := slices.ContainsFunc(ours, func(o proxmox.Summary) bool { return o.VMID == vm.VMID })
			if vm.Host == r.host && !vm.Template && !own {
				r.memory -= vm.Memory
			}
		}
		storages, err := pve.Storages.List(ctx, r.host)
		if err != nil {
			return err
		}
		for _, s := range storages {
			if s.Active {
				r.storages = append(r.storages, s.Name)
			}
		}
		bridges, err := pve.Hosts.Bridges(ctx, r.host)
		if err != nil {
			return err
		}
		for _, b := range bridges {
			r.bridges = append(r.bridges, b.Name)
		}
	}
	return nil
}

func nodeNames(hosts []proxmox.Host) string {
	out := make([]string, len(hosts))
	for i, h := range hosts {
		out[i] = h.Name
	}
	return strings.Join(out, ", ")
}

// placeByMapping assigns nodes to the host on which a mapping of ours has cards for them.
func (p *placing) placeByMapping(l *pci.Ledger) {
	for i := range p.spec.Nodes {
		n := &p.spec.Nodes[i]
		m := Mapping(l.Mappings, names.Mapping(p.spec, n.Name))
		if n.Unplaced() && n.HasGPUs() && m != nil && m.Description == names.MappingNote(p.spec) && len(m.Devices) > 0 && p.room(m.Devices[0].Host) != nil {
			n.Host = m.Devices[0].Host
		}
	}
}

func (p *placing) room(host string) *room {
	for _, r := range p.rooms {
		if r.host == host {
			return r
		}
	}
	return nil
}

func (r *room) allocate(n spec.Node) {
	r.memory -= n.Memory
	if n.Role == spec.Server {
		r.servers++
	}
}

// choose assigns one node to the host with the most room for it.
func (p *placing) choose(n *spec.Node) error {
	type option struct {
		*room
		cards *Allotment // if the node comes
		free  int        // cards for it
	}
	var fit []option
	var why []string
	for _, r := range p.rooms {
		with, reason := p.cardsWith(r, n)
		if reason = cmp.Or(reason, r.missing(*n)); reason != "" {
			why = append(why, r.host+" "+reason)
			continue
		}
		fit = append(fit, option{room: r, cards: with, free: matching(with, *n) + n.GPUs.Count})
	}
	if len(fit) == 0 {
		do := "give it less, or add a host under proxmox.hosts"
		if n.GPUs.Count > 1 && p.freeOnAll(*n) >= n.GPUs.Count {
			do = "all GPUs of a node are on one host: write more nodes with fewer GPUs each"
		}
		return fmt.Errorf("no host has room for %s (%s): %s\n  %s", n.Name, wants(*n), strings.Join(why, "; "), do)
	}
	best := slices.MinFunc(fit, func(a, b option) int {
		if n.Role == spec.Server && a.servers != b.servers {
			return a.servers - b.servers
		}
		return cmp.Or(b.free-a.free, cmp.Compare(b.memory, a.memory), cmp.Compare(a.host, b.host))
	})
	p.spec.Placed[n.Name] = best.reason(best.free, why)
	n.Host, best.room.cards = best.host, best.cards
	best.allocate(*n)
	return nil
}

// cardsWith assigns a host's cards as if a node were there, or says why it cannot be: it would have
// no cards, or take those that another node has without it.
func (p *placing) cardsWith(r *room, n *spec.Node) (*Allotment, string) {
	if !r.up {
		return nil, "is down"
	}
	n.Host = r.host
	defer func() { n.Host = spec.AnyHost }()
	with, free := Allot(p.spec, r.host, r.ledger), matching(r.cards, *n)
	for _, other := range p.spec.Machines() {
		switch {
		case with.Shares[other.Name].Err == nil || r.cards.Shares[other.Name].Err != nil:
		case free < n.GPUs.Count:
			return nil, "has " + such(free)
		case other.Name != n.Name:
			return nil, fmt.Sprintf("has %s, and %s would have none", such(free), other.Name)
		default:
			return nil, fmt.Sprintf("has %s, and one VM must have all of an IOMMU group", such(free))
		}
	}
	return with, ""
}

// matching counts the cards that an allotment leaves for a node.
func matching(a *Allotment, n spec.Node) (cards int) {
	for _, g := range a.left {
		if n.HasGPUs() && Candidate(n, g) && unsuitedReason(n, g) == "" {
			cards++
		}
	}
	return cards
}

// missing says what of a node's wishes, but its cards, a host does not have, or returns "".
func (r *room) missing(n spec.Node) string {
	disks := []string{n.OSDisk.Storage}
	for _, d := range n.Disks {
		disks = append(disks, d.Storage)
	}
	switch {
	case r.memory < n.Memory:
		return fmt.Sprintf("has %s of memory left", max(r.memory, 0)/proxmox.GiB*proxmox.GiB)
	case r.cpus < n.Cores:
		return fmt.Sprintf("has %d CPUs", r.cpus)
	case n.Network.Bridge != "" && len(r.bridges) > 0 && !slices.Contains(r.bridges, n.Network.Bridge):
		return "has no bridge " + n.Network.Bridge
	}
	for _, card := range n.Networks {
		if len(r.bridges) > 0 && !slices.Contains(r.bridges, card.Bridge) {
			return "has no bridge " + card.Bridge
		}
	}
	for _, d := range disks {
		if !slices.Contains(r.storages, d) {
			return "has no storage " + d
		}
	}
	return ""
}

func such(free int) string { return strings.Replace(GPUs(free), " GPU", " such GPU", 1) + " free" }

// freeOnAll counts the free cards of all hosts that match a node's request.
func (p *placing) freeOnAll(n spec.Node) (sum int) {
	for _, r := range p.rooms {
		if r.cards != nil {
			sum += matching(r.cards, n)
		}
	}
	return sum
}

func wants(n spec.Node) string {
	out := fmt.Sprintf("%d cores, %s", n.Cores, n.Memory)
	if n.HasGPUs() {
		out += ", " + GPUs(n.GPUs.Count)
		if n.GPUs.Model != "" {
			out += " of model " + n.GPUs.Model
		}
	}
	return out
}

// reason says why a node is placed on its host, which has so many cards for it.
func (r *room) reason(free int, others []string) string {
	left := fmt.Sprintf("%s of memory", r.memory/proxmox.GiB*proxmox.GiB)
	if free > 0 {
		left = fmt.Sprintf("%s and %s", GPUs(free), left)
	}
	out := fmt.Sprintf("on %s, which has %s free", r.host, left)
	if len(others) > 0 {
		out += "; " + strings.Join(others, ", ")
	}
	return out
}
