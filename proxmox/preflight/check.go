package preflight

import (
	"context"
	"slices"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
)

// Options configure [Check].
type Options struct {
	// SSH returns a root shell on a host; nil: checks that need a shell are skipped.
	SSH func(ctx context.Context, host string) (remote.Runner, error)
	// Exact asks for the permissions on every path of the grants, with one request each. One
	// request for all paths does not show entries that remove everything (NoAccess). Paths that
	// could inherit from another of the grants are asked for even without Exact.
	Exact bool
	// Brief runs only the checks that matter when nothing is created: names and storages.
	Brief bool
}

// check is one check, of one thing.
type check struct {
	id, title string
	when      string                   // what an error or, with (!), a warning says, for docs/host-check.md; ‘x’ is x as it is written
	brief     bool                     // runs also when nothing is created
	requested func(*Requirements) bool // whether the check applies; nil: always
	find      func(*Requirements, *observation) []Finding
	// Or it is made for every host that answers, of those with GPUs if it is about them.
	host func(*Requirements, *observation, Host, *hostObservation) []Finding
	fact func(*hostObservation) error // why what it judges is not known; nil: it says so itself
	gpus bool
}

// checks lists all checks, in the order in which a person would fix what they find.
func checks() []check {
	gpus := (*Requirements).wantsGPUs
	driver := func(w *Requirements) bool { return w.Driver != nil && w.wantsGPUs() }
	granted := func(w *Requirements) bool { return len(w.Grants) > 0 }
	cloned := func(w *Requirements) bool { return w.Clones != nil }
	addressed := func(w *Requirements) bool { return len(w.Addresses) > 0 }
	return []check{
		{id: "host", title: "every host exists, is online and in the majority", find: checkHosts,
			when: "no host has the name; it is off; the Proxmox cluster has no majority"},
		{id: "PX20", title: "the version of Proxmox VE is supported", find: checkVersion,
			when: "older than 8.4; newer than 9 (!); hosts of both (!)"},
		{id: "PX1", title: "the token has the privileges it needs", requested: granted, find: checkGrants,
			when: "a privilege is missing; a VM needs an option that only root@pam can set, or has a PCI device by its address; the token may not set tags, or probably not (!)"},
		{id: "token", title: "the token does not expire soon, and is not root's", find: checkToken,
			when: "it expires within two weeks (!); it is root's (!)"},
		{id: "clock", title: "hosts and this machine agree on the time", host: checkClocks,
			fact: func(h *hostObservation) error { return h.skew.err },
			when: "more than 30 s apart (!)"},
		{id: "name", title: "no other VM has the name of one of ours", brief: true, find: checkNames,
			when: "one has"},
		{id: "vmid", title: "requested VMIDs are free", find: checkVMIDs,
			when: "one is taken, possibly by a VM that the token may not see"},
		{id: "stub", title: "no VM is left incomplete", find: checkStubs,
			when: "an interrupted create left a nameless, locked VM (!); only root can remove it"},
		{id: "pool", title: "resource pools exist", requested: (*Requirements).wantsPools, find: checkPools,
			when: "‘resourcePool’ names one that does not exist, or that the token may not see"},
		{id: "firewall", title: "security groups exist", requested: (*Requirements).wantsGroups, find: checkGroups,
			when: "‘securityGroups’ names one that does not exist"},
		{id: "storage", title: "storages exist, are active, and have room", brief: true, host: checkStorages,
			fact: func(h *hostObservation) error { return h.storages.err },
			when: "one is missing, disabled, not for this host, unreachable or full; less than 5 % is free (!)"},
		{id: "PX14", title: "storages take the content they are used for", brief: true, host: checkContents,
			fact: func(h *hostObservation) error { return h.storages.err },
			when: "the content type ‘iso’, ‘import’ or ‘images’ is missing; no disk can be created on the storage"},
		{id: "volume", title: "existing volumes are there and free", brief: true, requested: func(w *Requirements) bool { return w.Volumes != nil }, host: checkVolumes,
			when: "‘volume’ names one that is not on the host, or a disk of another VM, running or not"},
		{id: "clone", title: "machines can be cloned from their template", requested: cloned, host: checkClones,
			when: "‘image.template’ is missing or unusable; a machine's storage cannot have clones of it ([templates.md](templates.md#linked-or-whole))"},
		{id: "network", title: "bridges exist and carry the VLANs", host: checkNetworks,
			when: "the bridge is missing, down, or no bridge; it or the VNet does not carry the VLAN (sometimes !); an MTU larger than the bridge's, or one that the bridge does not state (!)"},
		{id: "address", title: "nobody has an address or MAC that is meant for us", requested: addressed, find: checkAddresses,
			when: "a host, another VM or container, or another cluster has it; something answers there; for the VIP and the load balancer of a cluster that exists (!)"},
		{id: "cpu", title: "no VM has more cores than its host", host: checkCores,
			when: "one has: Proxmox does not start it"},
		{id: "PX21", title: "memory and disks are not overcommitted", find: checkPromises,
			when: "our VMs and the others that run need more memory than the host has (! if no VM with a GPU has to start); disks may grow beyond the pool (!), or take more than is free at once"},
		{id: "PX6", title: "machines with GPUs find their memory free when they start", requested: gpus, host: checkStart,
			when: "less is free now than they pin (!): ZFS's cache shrinks slowly"},
		{id: "PX3", title: "the IOMMU is on and cards have IOMMU groups of their own", requested: gpus, gpus: true, host: checkIOMMU,
			fact: func(h *hostObservation) error { return h.cards.err },
			when: "no card has a group; a requested card shares its group with another kind of device"},
		{id: "PX2", title: "resource mappings fit the hardware", requested: gpus, gpus: true, host: checkMappings,
			fact: func(h *hostObservation) error { return h.mappings.err },
			when: "one that the file names is missing, was made for other hardware, or holds no whole NVIDIA card; one of ours was (!), which ‘cluster:up’ recreates"},
		{id: "PX4", title: "no card is assigned twice, and there are enough", requested: gpus, find: checkCards,
			when: "another VM or a container claims the card, running or not; a host has fewer cards than requested; an IOMMU group would be divided; no driver supports all cards of a node"},
		{id: "device", title: "devices that are passed through are there and free", requested: (*Requirements).wantsDevices, host: checkDevices,
			when: "a device of ‘devices’ is missing, has no IOMMU group or shares it, is claimed by another VM, is what the host uses itself, or may be; its mapping is missing or does not fit"},
		{id: "PX7", title: "machines with GPUs have q35, OVMF and the host's CPU", requested: gpus, find: checkMachines,
			when: "another machine type; SeaBIOS (!); another CPU type (!)"},
		{id: "PX9", title: "the host does not use the cards", requested: gpus, gpus: true, host: checkDrivers,
			fact: func(h *hostObservation) error { return h.probe.err },
			when: "over SSH: a driver of the host holds the GPU, or another function of the card (!), or the host's console is on it (!)"},
		{id: "PX19", title: "the host loads no module that its kernel lacks", requested: gpus, gpus: true, host: checkModules,
			fact: func(h *hostObservation) error { return h.probe.err },
			when: "over SSH: ‘vfio_virqfd’, from guides older than kernel 6.2 (!)"},
		{id: "N1", title: "there is a driver for the cards", requested: driver, gpus: true, host: checkDriver,
			fact: func(h *hostObservation) error { return h.cards.err },
			when: "the branch or flavour in the file does not fit the chip, or is no longer supported; a card is not in our table (!)"},
		{id: "N7", title: "that driver has modules for the machines' kernel", requested: driver, find: checkPrebuilt,
			when: "with ‘mode: prebuilt’, the release is not known to have signed modules for each kernel (!)"},
	}
}

// Check checks whether hosts can run what is wanted. It changes nothing. Problems are in the
// report; the error is for when no host answers at all.
func Check(ctx context.Context, c *proxmox.Client, w Requirements, o Options) (*Report, error) {
	s, err := observe(ctx, c, &w, o)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	for _, h := range w.Hosts {
		r.Hosts = append(r.Hosts, h.Name)
	}
	slices.Sort(r.Hosts)
	for _, c := range checks() {
		if o.Brief && !c.brief || c.requested != nil && !c.requested(&w) {
			continue
		}
		r.Checks++
		found := withoutDuplicates(c.findings(&w, s))
		if len(found) == 0 {
			found = []Finding{{Verdict: OK}}
		}
		for _, f := range found {
			f.ID, f.Title = c.id, c.title
			r.Findings = append(r.Findings, f)
		}
	}
	return r, nil
}

// findings returns what the check finds.
func (c check) findings(w *Requirements, s *observation) []Finding {
	if c.host == nil {
		return c.find(w, s)
	}
	return eachHost(w, s, func(h Host, seen *hostObservation) []Finding {
		if c.gpus && len(w.gpus(h.Name)) == 0 {
			return nil
		}
		if c.fact != nil {
			if err := c.fact(seen); err != nil {
				return []Finding{unobservedFinding(h.Name, err)}
			}
		}
		return c.host(w, s, h, seen)
	})
}

// eachHost calls find for every host that answers.
func eachHost(w *Requirements, s *observation, find func(Host, *hostObservation) []Finding) []Finding {
	var out []Finding
	for _, h := range w.Hosts {
		if seen := s.byHost[h.Name]; seen.offline != nil {
			out = append(out, unobservedFinding(h.Name, seen.offline))
		} else {
			out = append(out, find(h, seen)...)
		}
	}
	return out
}
