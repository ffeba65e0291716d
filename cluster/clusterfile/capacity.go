package clusterfile

import (
	"fmt"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/offer"
)

// capacitySection completes and checks what nodes ask of their hosts.
type capacitySection struct{ *resolver }

// nodeHost checks that the declared hosts include the node's.
func (r capacitySection) nodeHost(n plannedNode) {
	declared := r.declared
	if !n.OnProxmox() {
		return
	}
	at := any(&n.Host)
	if !r.IsSet(&n.Host) {
		at = &r.spec.Proxmox.Host
	}
	switch {
	case n.Unplaced() && len(declared) == 0:
		r.Wrong(at, "host: auto has nothing to choose from", "write proxmox.hosts with the names of the hosts, e.g. hosts: {pve1: {}, pve2: {}}")
	case n.Unplaced() && n.Adopt:
		r.Wrong(at, fmt.Sprintf("node %s is an existing VM, which has a host already", n.Name), "write host: and the name of the host that has it")
	case n.Unplaced() && len(n.GPUs.PCI) > 0:
		r.Wrong(at, fmt.Sprintf("node %s names its cards but not their host", n.Name), "write host: and the name, or gpus: and how many")
	case n.Unplaced() && len(n.GPUs.Mapping) > 0:
		r.Wrong(at, fmt.Sprintf("node %s names mappings, which host: auto does not follow", n.Name), "write host: and the name of the host that has the cards")
	case n.Unplaced() && len(n.Devices) > 0:
		r.Wrong(at, fmt.Sprintf("node %s has devices, which host: auto does not look for", n.Name), "write host: and the name of the host that has them")
	case !nodeName.MatchString(n.Host):
		r.Wrong(at, fmt.Sprintf("%q cannot be a Proxmox host's name", n.Host), "write the name that the left column of the web interface shows")
	case len(declared) > 0 && r.host(n.Host) == nil && !n.Unplaced():
		r.Wrong(at, fmt.Sprintf("there is no host %q under proxmox.hosts", n.Host), decode.OrSuggest(n.Host, r.hostNames()))
	}
}

// card is one device on one host.
type card struct {
	host string
	pci  spec.PCIAddress
}

// cards checks that no card is assigned twice, in any spelling.
func (r capacitySection) cards() {
	seen := map[card]any{}
	owner := map[card]string{}
	for _, n := range r.machines() {
		for i, a := range n.GPUs.PCI {
			key := card{n.Host, a.Whole()}
			at := any(&n.GPUs.PCI[i])
			first, ok := seen[key]
			if ok && owner[key] == n.Name {
				r.Wrong(at, fmt.Sprintf("GPU %s is named twice for node %s", key.pci, n.Name), "name another, or remove it")
				continue
			}
			if ok {
				r.Wrong(at, fmt.Sprintf("GPU %s on %s is requested by %s and by %s, first in %s", key.pci, n.Host, owner[key], n.Name, r.Line(first)), "give each card to one node")
				continue
			}
			seen[key], owner[key] = at, n.Name
		}
	}
}

// demand is the sum of what is requested from a host.
type demand struct {
	memory  spec.Size
	cores   int
	gpus    int
	storage map[string]spec.Size
}

// capacity compares sums with the declared capacity of hosts. Memory and GPUs cannot be
// overcommitted; CPUs and thin disks can, with a warning.
func (r capacitySection) capacity() {
	loads := map[string]*demand{}
	for _, n := range r.spec.Machines() {
		if !n.OnProxmox() {
			continue
		}
		l := loads[n.Host]
		if l == nil {
			l = &demand{storage: map[string]spec.Size{}}
			loads[n.Host] = l
		}
		l.memory += n.Memory
		l.cores += n.Cores
		l.gpus += n.GPUs.Count
		l.storage[n.OSDisk.Storage] += n.OSDisk.Size
		for _, d := range n.Disks {
			l.storage[d.Storage] += d.Size
		}
	}
	for _, n := range r.machines() {
		if n.OnProxmox() {
			r.coresFit(n)
		}
		if more := offer.OverReservedText(r.spec, *n.Node); more != "" && n.Boot == nil {
			r.Wrong(&r.spec.K3s.AgentConfig, fmt.Sprintf("kube-reserved, system-reserved and eviction-hard keep %s: its kubelet does not start", more), "reserve less: they are the same for all nodes")
		}
	}
	for i := range r.declared {
		if l := loads[r.declared[i].Name]; l != nil {
			r.fits(&r.declared[i], l)
		}
	}
}

func (r capacitySection) coresFit(n plannedNode) {
	if h := r.host(n.Host); h != nil && r.IsSet(&h.Cores) && n.Cores > h.Cores {
		r.Wrong(&n.Cores, fmt.Sprintf("node %s has %d cores and its host %s has %d", n.Name, n.Cores, n.Host, h.Cores), "Proxmox starts no VM with more vCPUs than the host has: write less")
	}
}

func (r capacitySection) fits(h *spec.Host, l *demand) {
	if r.IsSet(&h.Memory) && l.memory > h.Memory {
		r.Wrong(&h.Memory, fmt.Sprintf("machines on %s need %s of memory and it has %s", h.Name, l.memory.Approximate(),
			h.Memory.Approximate()), "give them less, or put some on another host; passed-through GPUs pin all of a VM's memory")
	}
	if r.IsSet(&h.GPUs) && l.gpus > h.GPUs {
		r.Wrong(&h.GPUs, fmt.Sprintf("nodes on %s need %d GPUs and it has %d", h.Name, l.gpus, h.GPUs), "ask for fewer, or put some nodes on another host")
	}
	if r.IsSet(&h.Cores) && l.cores > 2*h.Cores {
		r.Warn(&h.Cores, fmt.Sprintf("machines on %s have %d vCPUs and it has %d CPUs", h.Name, l.cores, h.Cores), "they will wait for each other")
	}
	for _, name := range sortedNames(h.Storage) {
		if need := l.storage[name]; need > h.Storage[name] {
			r.Warn(r.MemberAt(&h.Storage, name), fmt.Sprintf("disks on storage %s of %s may grow to %s and it has %s", name, h.Name,
				need.Approximate(), h.Storage[name].Approximate()),
				"thin disks allow that until they are full, and then all VMs on it stop: watch it")
		}
	}
}
