// Package labneeds says what a cluster file needs of the lab.
package labneeds

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/nvidia"
)

// NeedsOf returns what a cluster needs of the lab. External machines are not part of it.
func NeedsOf(s *spec.Spec) labctl.Needs {
	n := labctl.Needs{Name: s.Name, Hosts: hostNeeds(s), Templates: templatesOf(s), Pools: s.ResourcePools(), Groups: s.SecurityGroups(),
		Network: s.Network.Prefix, Gateway: s.Network.Gateway, Bridge: s.Network.Bridge,
		Taken:  append([]netip.Addr{s.Network.Gateway, s.K3s.VIP}, s.Network.DNS...),
		Guests: Guests(s), GuestsPlace: s.LabGuests.Place}
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

// templatesOf are the templates that the file names.
func templatesOf(s *spec.Spec) []string {
	all := []string{s.Image.Template}
	for _, vm := range s.VMs {
		all = append(all, vm.Template)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(name string) bool { return name == "" })
}

// Guests returns what a cluster wants to be real in the lab, without the image of VMs; for nil,
// what a file that says nothing wants.
func Guests(s *spec.Spec) labctl.Guests {
	if s == nil || !s.LabGuests.QEMU() {
		return labctl.Guests{Kubernetes: s != nil && s.LabGuests.Kubernetes()}
	}
	first := s.Nodes[0].Network // all have the same
	return labctl.Guests{Network: first.Prefix.Masked(), Gateway: first.Gateway, Internet: s.LabGuests.Internet.IsOn()}
}

// hostNeed is what one host must have, as it is collected.
type hostNeed struct {
	labctl.HostNeeds
	templates string // storage of its template
}

// model finds a card of a model in NVIDIA's own list.
func model(asked string) labctl.Model {
	for _, g := range nvidia.GPUs() {
		if strings.Contains(strings.ToLower(g.Name), strings.ToLower(asked)) {
			return labctl.Model{Asked: asked, Name: g.Name, ID: g.ID.String()}
		}
	}
	return labctl.Model{Asked: asked}
}

// hostNeeds collects the requirements of each host, by name.
func hostNeeds(s *spec.Spec) []labctl.HostNeeds {
	all := map[string]*hostNeed{}
	host := func(name string) *hostNeed {
		if all[name] == nil {
			all[name] = &hostNeed{HostNeeds: labctl.HostNeeds{Name: name, Bridges: map[string]bool{}, MTUs: map[string]int{},
				Storages: map[string][]string{}}}
		}
		return all[name]
	}
	for _, h := range s.Proxmox.Hosts {
		if h.Name != spec.AnyHost {
			w := host(h.Name)
			w.templates = h.TemplateStorage
			w.Declared = labctl.Declaration{Cores: h.Cores, Memory: int64(h.Memory), GPUs: h.GPUs, Storage: map[string]int64{}}
			for name, size := range h.Storage {
				w.Declared.Storage[name] = int64(size)
			}
		}
	}
	for _, n := range s.Machines() {
		switch {
		case !n.OnProxmox():
		case n.Host == spec.AnyHost:
			if len(all) == 0 {
				host("pve1")
			}
			bestHost(all).node(s, n)
		default:
			host(n.Host).node(s, n)
		}
	}
	var out []labctl.HostNeeds
	for _, name := range slices.Sorted(maps.Keys(all)) {
		h := all[name]
		for storage := range h.Declared.Storage {
			h.storage(storage, "images")
		}
		h.Cards = max(h.Cards, h.Declared.GPUs)
		out = append(out, h.HostNeeds)
	}
	return out
}

// bestHost is the host for a node with host: auto: the one with the most free cards, then with
// the smallest load.
func bestHost(all map[string]*hostNeed) *hostNeed {
	return slices.MinFunc(slices.Collect(maps.Values(all)), func(a, b *hostNeed) int {
		return cmp.Or(cmp.Compare(a.Cards-a.Declared.GPUs, b.Cards-b.Declared.GPUs), cmp.Compare(a.Memory, b.Memory), cmp.Compare(a.Name, b.Name))
	})
}

func (w *hostNeed) storage(name, content string) {
	if name != "" && !slices.Contains(w.Storages[name], content) {
		w.Storages[name] = append(w.Storages[name], content)
	}
}

func (w *hostNeed) node(s *spec.Spec, n spec.Node) {
	w.Cores = max(w.Cores, n.Cores)
	w.Memory += int64(n.Memory)
	w.Bridges[n.Network.Bridge] = w.Bridges[n.Network.Bridge] || n.Network.VLAN != 0
	if mtu := n.Network.MTU; mtu > 0 {
		w.MTUs[n.Network.Bridge] = max(mtu, w.MTUs[n.Network.Bridge])
	}
	for _, card := range n.Networks {
		w.Bridges[card.Bridge] = w.Bridges[card.Bridge] || card.VLAN != 0
		if card.MTU > 0 {
			w.MTUs[card.Bridge] = max(card.MTU, w.MTUs[card.Bridge])
		}
	}
	w.storage(n.OSDisk.Storage, "images")
	for _, d := range n.Disks {
		w.storage(d.Storage, "images")
	}
	w.storage(s.Image.ImageStorage, "import")
	w.storage(s.Image.SeedStorage, "iso")
	w.storage(w.templates, "images")
	w.Cards += n.GPUs.Count
	if asked := n.GPUs.Model; n.HasGPUs() && asked != "" && !slices.ContainsFunc(w.Models, func(m labctl.Model) bool { return m.Asked == asked }) {
		w.Models = append(w.Models, model(asked))
	}
	for _, a := range n.GPUs.PCI {
		w.Slots = append(w.Slots, a.Whole().String())
	}
	w.Mappings = append(w.Mappings, n.GPUs.Mapping...)
	for _, d := range n.Devices {
		if d.USB != "" {
			w.USB = append(w.USB, strings.TrimSuffix(d.USB+" "+d.Port, " "))
			continue
		}
		w.Devices = append(w.Devices, d.PCI)
	}
}
