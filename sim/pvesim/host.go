package pvesim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
)

// host is a node at run time.
type host struct {
	Host
	number   int // among the hosts, by name
	devices  map[string]*PCIDevice
	storages map[string]*storage
	shell    *guest.Machine // where root logs in, once somebody wants to
	tells    time.Time      // when its pvestatd makes its next round
	daemon   daemon

	settings nodeSettings

	made   interfaces // what /etc/network/interfaces says; nil until somebody asks
	staged interfaces // what it shall say when the network is applied
}

func newHost(h Host, shared map[string]*storage) *host {
	h = freshHost(h)
	out := &host{Host: h, devices: map[string]*PCIDevice{}, storages: map[string]*storage{}}
	for i := range h.PCI {
		d := h.PCI[i]
		out.devices[d.Address] = &d
	}
	for _, st := range h.Storages {
		if st.Shared && shared[st.Name] != nil {
			out.storages[st.Name] = shared[st.Name]
			continue
		}
		one := &storage{Storage: st, host: h.Name, volumes: map[string]*volume{}}
		out.storages[st.Name] = one
		if st.Shared {
			one.host = ""
			shared[st.Name] = one
		}
	}
	return out
}

// freshHost is what the API shows of a node whose cards the host's drivers have.
func freshHost(h Host) Host {
	if !h.OS.Fresh {
		return h
	}
	h.PCI = slices.Clone(h.PCI)
	for i := range h.PCI {
		if vendor, _, _ := strings.Cut(h.PCI[i].ID, ":"); vendor == "10de" {
			h.PCI[i].HeldByHost = true
		}
	}
	c := guest.HostConfig{Kernel: (&host{Host: h}).kernel(), Intel: strings.Contains(h.CPUModel, "Intel"), Cmdline: h.OS.Cmdline}
	h.NoIOMMU = h.NoIOMMU || !c.WouldHaveIOMMU()
	return h
}

// numa is what the kernel says of a device: nothing where there is one node only.
func numa(h Host, d PCIDevice) int {
	if h.NUMANodes < 2 {
		return -1
	}
	return d.NUMANode
}

// nodes returns the nodes' names in order.
func (s *state) nodes() []string { return slices.Sorted(maps.Keys(s.hosts)) }

func (h *host) kernel() string {
	if h.Kernel != "" {
		return h.Kernel
	}
	return usualKernel
}

// usualKernel is what a host runs unless its model says otherwise.
const usualKernel = "6.17.4-1-pve"

// domain is that of the host's own name.
func (h *host) domain() string {
	if h.settings.dns["search"] != "" {
		return h.settings.dns["search"]
	}
	if h.Domain != "" {
		return h.Domain
	}
	return "example.internal"
}

// madeUp is the host's address on its i-th bridge where the model has none.
func (h *host) madeUp(i int) string { return fmt.Sprintf("192.0.2.%d", 16*h.number+i+1) }

// ip is the address that the other nodes know a node by.
func (s *state) ip(node string) string {
	for _, n := range s.nodes() {
		if n != node {
			continue
		}
		h := s.hosts[n]
		for _, b := range h.Bridges {
			if p, err := netip.ParsePrefix(h.CIDRs[b]); err == nil {
				return p.Addr().String()
			}
		}
		return h.madeUp(0)
	}
	return ""
}

func (s *state) usedMemory(node string) int64 {
	n := int64(2 * GiB)
	if h := s.hosts[node]; h != nil {
		n += int64(h.Used)
	}
	for _, v := range s.vms {
		if v.running && v.node == node {
			n += v.memory()
		}
	}
	return n
}

// volume finds what a volume ID names; the storage is nil where it is not one.
func (h *host) volume(volid string) (*storage, string) {
	name, rest, ok := strings.Cut(volid, ":")
	if !ok {
		return nil, ""
	}
	return h.storages[name], rest
}

// lookup returns a volume that must be there.
func (h *host) lookup(volid string) (*storage, *volume, error) {
	name, _, _ := strings.Cut(volid, ":")
	st, rest := h.volume(volid)
	if st == nil {
		return nil, nil, die("storage '%s' does not exist", name)
	}
	v := st.volumes[rest]
	if v == nil {
		return st, nil, die("volume '%s' does not exist", volid)
	}
	return st, v, nil
}
