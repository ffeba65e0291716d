package labmodel

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim"
	"github.com/cps-gpu/homelab/spec"
)

// need is what one host must have for a cluster file.
type need struct {
	name     string
	cores    int                 // of its largest node
	memory   pvesim.Size         // of all its nodes
	bridges  map[string]bool     // true where VLANs are used on it
	mtus     map[string]int      // of bridges, if more than the usual 1500 is requested
	storages map[string][]string // contents by storage
	cards    int
	models   []string // of cards, as requested by the nodes
	pci      []spec.PCIAddress
	mappings []string
	declared spec.Host
}

// needs collects the requirements of each host, by name.
func needs(s *spec.Spec) []*need {
	all := map[string]*need{}
	host := func(name string) *need {
		if all[name] == nil {
			all[name] = &need{name: name, bridges: map[string]bool{}, mtus: map[string]int{}, storages: map[string][]string{}}
		}
		return all[name]
	}
	for _, h := range s.Proxmox.Hosts {
		if h.Name != spec.AnyHost {
			host(h.Name).declared = h
		}
	}
	for _, n := range s.Machines() {
		switch {
		case n.External:
		case n.Host == spec.AnyHost:
			roomiest(all).node(s, n)
		default:
			host(n.Host).node(s, n)
		}
	}
	var out []*need
	for _, name := range slices.Sorted(maps.Keys(all)) {
		h := all[name]
		for storage := range h.declared.Storage {
			h.storage(storage, "images")
		}
		h.cards = max(h.cards, h.declared.GPUs)
		out = append(out, h)
	}
	return out
}

// roomiest is the host for a node with host: auto: the one with the most free cards, then with
// the smallest load.
func roomiest(all map[string]*need) *need {
	if len(all) == 0 {
		all["pve1"] = &need{name: "pve1", bridges: map[string]bool{}, mtus: map[string]int{}, storages: map[string][]string{}}
	}
	return slices.MinFunc(slices.Collect(maps.Values(all)), func(a, b *need) int {
		return cmp.Or(cmp.Compare(a.cards-a.declared.GPUs, b.cards-b.declared.GPUs), cmp.Compare(a.memory, b.memory), cmp.Compare(a.name, b.name))
	})
}

func (w *need) storage(name, content string) {
	if name != "" && !slices.Contains(w.storages[name], content) {
		w.storages[name] = append(w.storages[name], content)
	}
}

// usualMTU is the default MTU of a bridge.
const usualMTU = 1500

func (w *need) node(s *spec.Spec, n spec.Node) {
	w.cores = max(w.cores, n.Cores)
	w.memory += pvesim.Size(n.Memory)
	w.bridges[n.Network.Bridge] = w.bridges[n.Network.Bridge] || n.Network.VLAN != 0
	if mtu := n.Network.MTU; mtu > usualMTU {
		w.mtus[n.Network.Bridge] = max(mtu, w.mtus[n.Network.Bridge])
	}
	w.storage(n.OSDisk.Storage, "images")
	for _, d := range n.Disks {
		w.storage(d.Storage, "images")
	}
	w.storage(s.Image.ImageStorage, "import")
	w.storage(s.Image.SeedStorage, "iso")
	w.storage(w.declared.TemplateStorage, "images")
	w.cards += n.GPUs.Count
	if n.GPUs.Count > 0 && n.GPUs.Model != "" && !slices.Contains(w.models, n.GPUs.Model) {
		w.models = append(w.models, n.GPUs.Model)
	}
	w.pci = append(w.pci, n.GPUs.PCI...)
	w.mappings = append(w.mappings, n.GPUs.Mapping...)
}

// Lacks says what the hosts of a model lack for a cluster file; nothing if they can run it.
func Lacks(m pvesim.Model, s *spec.Spec) []string {
	var out []string
	for _, want := range needs(s) {
		i := slices.IndexFunc(m.Hosts, func(h pvesim.Host) bool { return h.Name == want.name })
		if i < 0 {
			out = append(out, fmt.Sprintf("there is no host %s", want.name))
			continue
		}
		out = append(out, want.lacks(m.Hosts[i], m)...)
	}
	if t := s.Image.Template; t != "" && !slices.ContainsFunc(m.VMs, func(v pvesim.VM) bool {
		return v.Config["template"] == "1" && (v.Name == t || strconv.Itoa(v.ID) == t)
	}) {
		out = append(out, fmt.Sprintf("there is no template %s", t))
	}
	return out
}

func (w *need) lacks(h pvesim.Host, m pvesim.Model) (out []string) {
	say := func(format string, args ...any) { out = append(out, h.Name+" "+fmt.Sprintf(format, args...)) }
	if h.CPUs < max(w.cores, w.declared.Cores) {
		say("has %d CPUs, and not %d", h.CPUs, max(w.cores, w.declared.Cores))
	}
	free := h.Memory - h.Used - spared(m, h.Name)
	if wanted := max(w.memory, pvesim.Size(w.declared.Memory)-spared(m, h.Name)); free < wanted {
		say("has %s of memory to give, and not %s", free, wanted)
	}
	for _, bridge := range slices.Sorted(maps.Keys(w.bridges)) {
		if !slices.Contains(h.Bridges, bridge) {
			say("has no bridge %s", bridge)
		}
		if have := max(h.MTUs[bridge], usualMTU); have < w.mtus[bridge] {
			say("has a bridge %s with an MTU of %d, and not %d", bridge, have, w.mtus[bridge])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.storages)) {
		for _, content := range w.storages[name] {
			if !slices.ContainsFunc(h.Storages, func(st pvesim.Storage) bool { return st.Name == name && slices.Contains(st.Content, content) }) {
				say("has no storage %s for %s", name, content)
			}
		}
	}
	cards := gpus(h)
	if len(cards) < w.cards {
		say("has %d GPUs, and not %d", len(cards), w.cards)
	}
	for _, model := range w.models {
		if !slices.ContainsFunc(cards, func(d pvesim.PCIDevice) bool {
			return strings.Contains(strings.ToLower(d.Name), strings.ToLower(model))
		}) {
			say("has no %s", model)
		}
	}
	for _, a := range w.pci {
		if !slices.ContainsFunc(cards, func(d pvesim.PCIDevice) bool { return strings.HasPrefix(d.Address, slot(a)) }) {
			say("has no GPU at %s", slot(a))
		}
	}
	named := map[string]int{}
	for _, id := range w.mappings {
		named[id]++
	}
	for _, id := range slices.Sorted(maps.Keys(named)) {
		switch have := mappedOn(m, id, h.Name); {
		case have == 0:
			say("has no mapping %s", id)
		case have < named[id]:
			say("has %d cards in the mapping %s, and not %d", have, id, named[id])
		}
	}
	return out
}

// mappedOn counts the cards that a mapping has on a host.
func mappedOn(m pvesim.Model, id, host string) (n int) {
	for _, pm := range m.Mappings {
		for _, entry := range pm.Map {
			if pm.ID == id && strings.Contains(entry, "node="+host+",") {
				n++
			}
		}
	}
	return n
}

// spared is the memory of a host that is not available to the cluster: the host's own, and
// that of its running machines.
func spared(m pvesim.Model, host string) pvesim.Size {
	n := 4 * pvesim.GiB
	for _, v := range m.VMs {
		if v.Node == host && v.Running {
			mib, _ := strconv.ParseInt(v.Config["memory"], 10, 64) // 0 if it is not a number
			n += pvesim.Size(mib) * pvesim.MiB
		}
	}
	return n
}

// gpus are a host's cards, one entry each.
func gpus(h pvesim.Host) []pvesim.PCIDevice {
	return slices.DeleteFunc(slices.Clone(h.PCI), func(d pvesim.PCIDevice) bool {
		return !strings.HasPrefix(d.Class, "03") || !strings.HasPrefix(d.ID, "10de:")
	})
}

// slot is a PCI address without its function.
func slot(a spec.PCIAddress) string {
	return a.Whole().String()
}
