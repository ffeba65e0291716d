package cluster

import (
	"context"
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/preflight"
)

// Strays lists VMs that have the cluster's tag but do not belong to it: copies of its
// machines, and VMs that were tagged by hand. No command changes them.
func (c *Cluster) Strays(ctx context.Context) ([]preflight.Finding, error) {
	return c.site.flow().strays(ctx)
}

func (c *holdings) strays(ctx context.Context) ([]preflight.Finding, error) {
	if c.Proxmox == nil {
		return nil, nil
	}
	all, err := c.Proxmox.VMs.Strays(ctx, names.Tag(c.spec))
	if err != nil || len(all) == 0 {
		return nil, err
	}
	ours, err := c.Proxmox.VMs.List(ctx, names.Tag(c.spec))
	if err != nil {
		return nil, err
	}
	out := make([]preflight.Finding, len(all))
	for i, stray := range all {
		there := slices.ContainsFunc(ours, func(vm proxmox.Summary) bool { return vm.Name == stray.Name })
		out[i] = c.strayFinding(stray, there)
	}
	return out, nil
}

// strayFinding describes a stray and what to do about it. there means that a machine of this
// cluster has its name.
func (c *holdings) strayFinding(s proxmox.Stray, there bool) preflight.Finding {
	name := s.Name
	if name == "" {
		name = "without a name"
	}
	seen := fmt.Sprintf("VM %d (%s) on %s has the tag %s but is not a machine of this cluster: it %s. homelab does not change, stop or destroy it",
		s.VMID, name, s.Host, names.Tag(c.spec), s.Reason)
	for _, g := range s.GPUs {
		seen += fmt.Sprintf("; its %s claims a GPU of %s when it starts (qm set %d --delete %s)", g.Slot, g.Mapping, s.VMID, printable.Word(g.Slot))
	}
	cure := fmt.Sprintf("to end this warning, as root on %s: %s", s.Host, s.UntagCommand(names.Tag(c.spec)))
	switch {
	case there || s.Template:
	case slices.Contains(s.Tags, spec.KeepsData):
		cure = fmt.Sprintf("it is a copy of an NFS server, which homelab does not use under any name; its data stays on it, also without the tag: "+
			"copy what you need. To end this warning, as root on %s: %s", s.Host, s.UntagCommand(names.Tag(c.spec)))
	case c.spec.HasMachine(s.Name):
		cure = fmt.Sprintf("to use it as the node %s: adopt: true there; otherwise rename it, or %s", s.Name, cure)
	default:
		cure = fmt.Sprintf("if it belongs to this cluster and is not needed: destroy it in Proxmox; %s", cure)
	}
	return preflight.Finding{
		ID: "stray", Title: "what has the cluster's tag is the cluster's", Subject: name, Verdict: preflight.Warning, Evidence: seen, Cure: cure,
	}
}
