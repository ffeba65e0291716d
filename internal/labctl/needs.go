package labctl

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/cps-gpu/homelab/spec"
)

// Needs is what a cluster file needs of the lab. It is the standard input of `labd prepare`, as JSON.
type Needs struct {
	Name  string      `json:"name"` // of the cluster
	Hosts []HostNeeds `json:"hosts"`

	Template        string `json:"template,omitempty"`        // name or VMID of an existing one; empty: none
	TemplateStorage string `json:"templateStorage,omitempty"` // of the first host

	// The network of the nodes, in which the hosts get addresses, and the addresses that are not for them.
	Network netip.Prefix `json:"network"`
	Gateway netip.Addr   `json:"gateway"`
	Bridge  string       `json:"bridge,omitempty"`
	Taken   []netip.Addr `json:"taken,omitempty"`

	Guests      Guests `json:"guests,omitzero"` // real VMs; without Image: the lab makes it
	GuestsPlace string `json:"guestsPlace,omitempty"`
}

// HostNeeds is what one host must have.
type HostNeeds struct {
	Name     string              `json:"name"`
	Cores    int                 `json:"cores"`              // of its largest node
	Memory   spec.Size           `json:"memory"`             // of all its nodes
	Bridges  map[string]bool     `json:"bridges,omitempty"`  // true where VLANs are used on it
	MTUs     map[string]int      `json:"mtus,omitempty"`     // of bridges, if more than the usual 1500 is requested
	Storages map[string][]string `json:"storages,omitempty"` // contents by storage
	Cards    int                 `json:"cards"`
	Models   []string            `json:"models,omitempty"`   // of cards, as requested by the nodes
	Slots    []string            `json:"slots,omitempty"`    // PCI addresses without function that nodes name
	Mappings []string            `json:"mappings,omitempty"` // existing ones, once for each card
	Declared spec.Host           `json:"declared,omitzero"`  // what the file says of it, whatever its nodes need
}

// NeedsOf returns what a cluster needs of the lab. External machines are not part of it.
func NeedsOf(s *spec.Spec) Needs {
	n := Needs{Name: s.Name, Hosts: hostNeeds(s), Template: s.Image.Template,
		Network: s.Network.Prefix, Gateway: s.Network.Gateway, Bridge: s.Network.Bridge,
		Taken:  append([]netip.Addr{s.Network.Gateway, s.K3s.VIP}, s.Network.DNS...),
		Guests: GuestsOf(s), GuestsPlace: s.LabGuests.Place}
	n.Guests.Image = s.LabGuests.Image
	if len(s.Proxmox.Hosts) > 0 {
		n.TemplateStorage = s.Proxmox.Hosts[0].TemplateStorage
	}
	for _, node := range s.Machines() {
		n.Taken = append(n.Taken, node.Address.Addr())
	}
	n.Taken = slices.DeleteFunc(n.Taken, func(a netip.Addr) bool { return !a.IsValid() })
	return n
}

// GuestsOf returns the guests that a cluster wants in the lab, without their image.
func GuestsOf(s *spec.Spec) Guests {
	if !s.LabGuests.QEMU {
		return Guests{}
	}
	first := s.Nodes[0].Network // all have the same
	return Guests{Network: first.Prefix.Masked(), Gateway: first.Gateway, Internet: s.LabGuests.Internet}
}

// hostNeeds collects the requirements of each host, by name.
func hostNeeds(s *spec.Spec) []HostNeeds {
	all := map[string]*HostNeeds{}
	host := func(name string) *HostNeeds {
		if all[name] == nil {
			all[name] = &HostNeeds{Name: name, Bridges: map[string]bool{}, MTUs: map[string]int{}, Storages: map[string][]string{}}
		}
		return all[name]
	}
	for _, h := range s.Proxmox.Hosts {
		if h.Name != spec.AnyHost {
			host(h.Name).Declared = h
		}
	}
	for _, n := range s.Machines() {
		switch {
		case n.External:
		case n.Host == spec.AnyHost:
			if len(all) == 0 {
				host("pve1")
			}
			roomiest(all).node(s, n)
		default:
			host(n.Host).node(s, n)
		}
	}
	var out []HostNeeds
	for _, name := range slices.Sorted(maps.Keys(all)) {
		h := all[name]
		for storage := range h.Declared.Storage {
			h.storage(storage, "images")
		}
		h.Cards = max(h.Cards, h.Declared.GPUs)
		out = append(out, *h)
	}
	return out
}

// roomiest is the host for a node with host: auto: the one with the most free cards, then with
// the smallest load.
func roomiest(all map[string]*HostNeeds) *HostNeeds {
	return slices.MinFunc(slices.Collect(maps.Values(all)), func(a, b *HostNeeds) int {
		return cmp.Or(cmp.Compare(a.Cards-a.Declared.GPUs, b.Cards-b.Declared.GPUs), cmp.Compare(a.Memory, b.Memory), cmp.Compare(a.Name, b.Name))
	})
}

func (w *HostNeeds) storage(name, content string) {
	if name != "" && !slices.Contains(w.Storages[name], content) {
		w.Storages[name] = append(w.Storages[name], content)
	}
}

func (w *HostNeeds) node(s *spec.Spec, n spec.Node) {
	w.Cores = max(w.Cores, n.Cores)
	w.Memory += n.Memory
	w.Bridges[n.Network.Bridge] = w.Bridges[n.Network.Bridge] || n.Network.VLAN != 0
	if mtu := n.Network.MTU; mtu > usualMTU {
		w.MTUs[n.Network.Bridge] = max(mtu, w.MTUs[n.Network.Bridge])
	}
	w.storage(n.OSDisk.Storage, "images")
	for _, d := range n.Disks {
		w.storage(d.Storage, "images")
	}
	w.storage(s.Image.ImageStorage, "import")
	w.storage(s.Image.SeedStorage, "iso")
	w.storage(w.Declared.TemplateStorage, "images")
	w.Cards += n.GPUs.Count
	if n.GPUs.Count > 0 && n.GPUs.Model != "" && !slices.Contains(w.Models, n.GPUs.Model) {
		w.Models = append(w.Models, n.GPUs.Model)
	}
	for _, a := range n.GPUs.PCI {
		w.Slots = append(w.Slots, a.Whole().String())
	}
	w.Mappings = append(w.Mappings, n.GPUs.Mapping...)
}
