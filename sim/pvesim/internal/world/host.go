package world

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/networkfile"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// Host is a node at run time.
type Host struct {
	model.Host
	number  int // among the hosts, by name
	Devices map[string]*model.PCIDevice
	Stores  map[string]*Storage
	Shell   *guest.Machine // where root logs in, once somebody wants to
	Tells   time.Time      // when its pvestatd makes its next round
	daemon  daemon

	Settings nodeSettings

	Interfaces networkfile.Interfaces // what /etc/network/interfaces says; nil until somebody asks
	Staged     networkfile.Interfaces // what it shall say when the network is applied
}

func newHost(h model.Host, shared map[string]*Storage) *Host {
	h = freshHost(h)
	out := &Host{Host: h, Devices: map[string]*model.PCIDevice{}, Stores: map[string]*Storage{}}
	for i := range h.PCI {
		d := h.PCI[i]
		out.Devices[d.Address] = &d
	}
	for _, st := range h.Storages {
		if st.Shared && shared[st.Name] != nil {
			out.Stores[st.Name] = shared[st.Name]
			continue
		}
		one := &Storage{Storage: st, Host: h.Name, Volumes: map[string]*Volume{}}
		out.Stores[st.Name] = one
		if st.Shared {
			one.Host = ""
			shared[st.Name] = one
		}
	}
	return out
}

// freshHost is what the API shows of a node whose cards the host's drivers have.
func freshHost(h model.Host) model.Host {
	if !h.OS.Fresh {
		return h
	}
	h.PCI = slices.Clone(h.PCI)
	for i := range h.PCI {
		if vendor, _, _ := strings.Cut(h.PCI[i].ID, ":"); vendor == "10de" {
			h.PCI[i].HeldByHost = true
		}
	}
	c := guest.HostConfig{Kernel: (&Host{Host: h}).RunningKernel(), Intel: strings.Contains(h.CPUModel, "Intel"), Cmdline: h.OS.Cmdline}
	h.NoIOMMU = h.NoIOMMU || !c.WouldHaveIOMMU()
	return h
}

// NUMA is what the kernel says of a device: nothing where there is one node only.
func NUMA(h model.Host, d model.PCIDevice) int {
	if h.NUMANodes < 2 {
		return -1
	}
	return d.NUMANode
}

// Nodes returns the nodes' names in order.
func (s *State) Nodes() []string { return slices.Sorted(maps.Keys(s.Hosts)) }

// RunningKernel is the release of the kernel that a node has booted.
func (h *Host) RunningKernel() string {
	if h.Kernel != "" {
		return h.Kernel
	}
	return usualKernel
}

// usualKernel is what a host runs unless its model says otherwise.
const usualKernel = "6.17.4-1-pve"

// SearchDomain is that of the host's own name.
func (h *Host) SearchDomain() string {
	if h.Settings.DNS["search"] != "" {
		return h.Settings.DNS["search"]
	}
	if h.Domain != "" {
		return h.Domain
	}
	return "example.internal"
}

// MadeUp is the host's address on its i-th bridge where the model has none.
func (h *Host) MadeUp(i int) string { return fmt.Sprintf("192.0.2.%d", 16*h.number+i+1) }

// IP is the address that the other nodes know a node by.
func (s *State) IP(node string) string {
	for _, n := range s.Nodes() {
		if n != node {
			continue
		}
		h := s.Hosts[n]
		for _, b := range h.Bridges {
			if p, err := netip.ParsePrefix(h.CIDRs[b]); err == nil {
				return p.Addr().String()
			}
		}
		return h.MadeUp(0)
	}
	return ""
}

// UsedMemory is what the machines of a node have taken, and what the model says.
func (s *State) UsedMemory(node string) int64 {
	n := int64(2 * model.GiB)
	if h := s.Hosts[node]; h != nil {
		n += int64(h.Used)
	}
	for _, v := range s.VMs {
		if v.Running && v.Node == node {
			n += v.Memory()
		}
	}
	return n
}

// Volume finds what a volume ID names; the storage is nil where it is not one.
func (h *Host) Volume(volid string) (*Storage, string) {
	name, rest, ok := strings.Cut(volid, ":")
	if !ok {
		return nil, ""
	}
	return h.Stores[name], rest
}

// Lookup returns a volume that must be there.
func (h *Host) Lookup(volid string) (*Storage, *Volume, error) {
	name, _, _ := strings.Cut(volid, ":")
	st, rest := h.Volume(volid)
	if st == nil {
		return nil, nil, answer.Die("storage '%s' does not exist", name)
	}
	v := st.Volumes[rest]
	if v == nil {
		return st, nil, answer.Die("volume '%s' does not exist", volid)
	}
	return st, v, nil
}
