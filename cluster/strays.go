package cluster

import (
	"context"
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/preflight"
	"github.com/cps-gpu/homelab/spec"
)

// ours are the VMIDs of the machines and templates of this cluster.
func (c *Cluster) ours(ctx context.Context) (map[int]bool, error) {
	vms, err := c.Proxmox.VMs(ctx, names.Tag(c.spec))
	out := make(map[int]bool, len(vms))
	for _, vm := range vms {
		out[vm.VMID] = true
	}
	return out, err
}

// Strays names the VMs that carry the cluster's tag and are not the cluster's: copies of
// its machines, what somebody has tagged by hand, and what an earlier version made and is
// not in the file. They are left alone by everything.
func (c *Cluster) Strays(ctx context.Context) ([]preflight.Finding, error) {
	if c.Proxmox == nil {
		return nil, nil
	}
	all, err := c.Proxmox.Strays(ctx, names.Tag(c.spec))
	if err != nil || len(all) == 0 {
		return nil, err
	}
	ours, err := c.Proxmox.VMs(ctx, names.Tag(c.spec))
	if err != nil {
		return nil, err
	}
	out := make([]preflight.Finding, len(all))
	for i, stray := range all {
		there := slices.ContainsFunc(ours, func(vm proxmox.Summary) bool { return vm.Name == stray.Name })
		out[i] = c.straying(stray, there)
	}
	return out, nil
}

// straying says what a stray is, and what can be done about it. there: a machine of ours
// has its name.
func (c *Cluster) straying(s proxmox.Stray, there bool) preflight.Finding {
	name := s.Name
	if name == "" {
		name = "without a name"
	}
	seen := fmt.Sprintf("VM %d (%s) on %s has the tag %s and is not ours: it %s. Nothing here changes, stops or destroys it",
		s.VMID, name, s.Host, names.Tag(c.spec), s.Why)
	for _, g := range s.GPUs {
		seen += fmt.Sprintf("; its %s takes a GPU of %s when it starts (qm set %d --delete %s)", g.Slot, g.Mapping, s.VMID, g.Slot)
	}
	cure := fmt.Sprintf("not to hear of it any more, as root on %s: %s", s.Host, s.Untag(names.Tag(c.spec)))
	switch {
	case s.Clear() != "":
		cure = s.Clear()
	case there || s.Template:
	case slices.Contains(s.Tags, spec.KeepsData) && !c.takesBack(s):
		cure = fmt.Sprintf("it is a copy of an NFS server and not taken back under any name; its data stays on it as it is, also without the tag: "+
			"copy from it what is wanted. So that it is not spoken of any more, as root on %s: %s", s.Host, s.Untag(names.Tag(c.spec)))
	case slices.Contains(s.Tags, spec.KeepsData):
		cure = fmt.Sprintf("if it is this cluster's NFS server: name: %s under storage.nfs.vm, and cluster:up takes it back with its data; else %s", s.Name, cure)
	case hasMachine(c.spec, s.Name):
		cure = fmt.Sprintf("if it is to be the node %s: adopt: true there; else rename it, or %s", s.Name, cure)
	default:
		cure = fmt.Sprintf("if it is this cluster's and to go: destroy it in Proxmox; %s", cure)
	}
	return preflight.Finding{
		ID: "stray", Title: "what has the cluster's tag is the cluster's", Subject: name, Verdict: preflight.Warning, Evidence: seen, Cure: cure,
	}
}
