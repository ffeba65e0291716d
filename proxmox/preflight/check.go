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
	brief     bool             // runs also when nothing is created
	asked     func(*Want) bool // whether the check applies; nil: always
	find      func(*Want, *seen) []Finding
}

// checks lists all checks, in the order in which a person would fix what they find.
func checks() []check {
	gpus := (*Want).wantsGPUs
	driver := func(w *Want) bool { return w.Driver != nil && w.wantsGPUs() }
	granted := func(w *Want) bool { return len(w.Grants) > 0 }
	cloned := func(w *Want) bool { return w.Clones != nil }
	addressed := func(w *Want) bool { return len(w.Addresses) > 0 }
	return []check{
		{id: "host", title: "every host exists, is online and in the majority", find: checkHosts},
		{id: "PX20", title: "the version of Proxmox VE is supported", find: checkVersion},
		{id: "PX1", title: "the token has the privileges it needs", asked: granted, find: checkGrants},
		{id: "token", title: "the token does not expire soon, and is not root's", find: checkToken},
		{id: "clock", title: "hosts and this machine agree on the time", find: checkClocks},
		{id: "name", title: "no other VM has the name of one of ours", brief: true, find: checkNames},
		{id: "vmid", title: "requested VMIDs are free", find: checkVMIDs},
		{id: "stub", title: "no VM is left incomplete", find: checkStubs},
		{id: "storage", title: "storages exist, are active, and have room", brief: true, find: checkStorages},
		{id: "PX14", title: "storages take the content they are used for", brief: true, find: checkContents},
		{id: "clone", title: "machines can be cloned from their template", asked: cloned, find: checkClones},
		{id: "network", title: "bridges exist and carry the VLANs", find: checkNetworks},
		{id: "address", title: "nobody has an address or MAC that is meant for us", asked: addressed, find: checkAddresses},
		{id: "cpu", title: "no VM has more cores than its host", find: checkCores},
		{id: "PX21", title: "memory and disks are not overcommitted", find: checkPromises},
		{id: "PX6", title: "machines with GPUs find their memory free when they start", asked: gpus, find: checkStart},
		{id: "PX3", title: "the IOMMU is on and cards have IOMMU groups of their own", asked: gpus, find: checkIOMMU},
		{id: "PX2", title: "resource mappings fit the hardware", asked: gpus, find: checkMappings},
		{id: "PX4", title: "no card is assigned twice, and there are enough", asked: gpus, find: checkCards},
		{id: "PX7", title: "machines with GPUs have q35, OVMF and the host's CPU", asked: gpus, find: checkMachines},
		{id: "PX9", title: "the host does not use the cards", asked: gpus, find: checkDrivers},
		{id: "PX19", title: "the host loads no module that its kernel lacks", asked: gpus, find: checkModules},
		{id: "N1", title: "there is a driver for the cards", asked: driver, find: checkDriver},
		{id: "N7", title: "that driver has modules for the machines' kernel", asked: driver, find: checkPrebuilt},
	}
}

// Check checks whether hosts can run what is wanted. It changes nothing. Problems are in the
// report; the error is for when no host answers at all.
func Check(ctx context.Context, c *proxmox.Client, w Want, o Options) (*Report, error) {
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
		if o.Brief && !c.brief || c.asked != nil && !c.asked(&w) {
			continue
		}
		r.Checks++
		found := once(c.find(&w, s))
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

// each calls find for every host that answers.
func each(w *Want, s *seen, find func(Host, *hostSeen) []Finding) []Finding {
	var out []Finding
	for _, h := range w.Hosts {
		if seen := s.on[h.Name]; seen.away != nil {
			out = append(out, notSeen(h.Name, seen.away))
		} else {
			out = append(out, find(h, seen)...)
		}
	}
	return out
}
