package proxmox

import (
	"slices"

	"github.com/cps-gpu/homelab/proxmox/internal/live"
)

// taggedIn reports whether a VM in a list carries the tag owner, or a mark of owner's.
func taggedIn(r live.Resource, owner string) bool { return Tagged(owner, splitTags(r.Tags)) }

// oursIn reports whether a VM in a list is marked with its VMID as owner's. Only its configuration
// shows whether its UUID is the marked one. A half-made VM may be ours without a mark.
func oursIn(r live.Resource, owner string) bool {
	return slices.Contains(marksOf(owner, splitTags(r.Tags)), int(r.VMID))
}

// maybeOursIn reports whether a VM may be owner's although the list does not prove it: its notes
// may say so.
func maybeOursIn(r live.Resource, owner string) bool {
	return oursIn(r, owner) || taggedIn(r, owner) && len(marksOf(owner, splitTags(r.Tags))) == 0
}

// summaryOf returns the VM in a list, without whether it runs.
func summaryOf(r live.Resource) Summary {
	return Summary{
		Name: r.Name, VMID: int(r.VMID), Host: r.Node, Template: bool(r.Template), Locked: r.Lock,
		Tags: splitTags(r.Tags), Cores: int(r.MaxCPU), Memory: Size(r.MaxMem),
	}
}
