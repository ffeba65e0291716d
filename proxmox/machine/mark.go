package machine

import (
	"crypto/rand"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// A machine says itself who owns it, and which one it is: beside the owner's tag it
// carries a mark, the tag OWNER_VMID_UUID with the first digits of its SMBIOS UUID.
//
// The owner's tag alone proves nothing. Proxmox copies tags, description and every other
// line when it clones, but the clone has a VMID, a UUID and interface addresses of its own
// (clone_vm in PVE/API2/Qemu.pm). A backup that is restored to another VMID keeps even its
// UUID and its addresses, unless they are asked to be unique (restore_update_config_line
// in PVE/QemuServer.pm). So the mark names both, and fits none of the copies.

// Mark is the tag of the one machine of owner's that has this VMID and this UUID.
func Mark(owner string, vmid int, uuid string) string {
	return fmt.Sprintf("%s_%d_%.8s", strings.ToLower(owner), vmid, strings.ToLower(uuid))
}

var markTail = regexp.MustCompile(`^([0-9]+)_[0-9a-f]{8}$`)

// markedAs returns the VMID that a tag names which is a mark of owner's, 0 for any other tag.
func markedAs(owner, tag string) int {
	tail, found := strings.CutPrefix(tag, strings.ToLower(owner)+"_")
	if m := markTail.FindStringSubmatch(tail); found && m != nil {
		vmid, _ := strconv.Atoi(m[1])
		return vmid
	}
	return 0
}

// Marks returns the VMIDs that the marks of owner's among tags name.
func Marks(owner string, tags []string) []int {
	var out []int
	for _, t := range tags {
		if vmid := markedAs(owner, t); vmid != 0 {
			out = append(out, vmid)
		}
	}
	return out
}

// WithoutMarks returns the tags that are no marks of owner's.
func WithoutMarks(owner string, tags []string) []string {
	return slices.DeleteFunc(slices.Clone(tags), func(t string) bool { return markedAs(owner, t) != 0 })
}

// NewUUID makes a UUID of random digits (version 4), as Proxmox makes them.
func NewUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // which never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// uuid is the VM's SMBIOS UUID; "" where it has none, or its configuration was not read.
func (v *VM) uuid() string { return wire.Loose(v.config["smbios1"]).Get("uuid") }

// SameAs reports whether v, as it is now, may be the machine that was seen before.
func (v *VM) SameAs(seen *VM) bool {
	return seen.uuid() == "" || strings.EqualFold(v.uuid(), seen.uuid())
}

// OtherVM is the error where is is false.
func OtherVM(seen *VM) error {
	return fmt.Errorf("proxmox: VM %d on %s is no longer the machine %s: it has another UUID and is not changed",
		seen.VMID, seen.Host, seen.Name)
}

// Tagged reports whether the VM carries the tag owner, which copies of ours do as well.
func (v *VM) Tagged(owner string) bool { return slices.Contains(v.Tags, strings.ToLower(owner)) }

// Ours reports whether the VM belongs to owner, by its mark or that of a half-made one.
func (v *VM) Ours(owner string) bool {
	return v.HalfMade(owner) || v.uuid() != "" && v.Tagged(owner) && slices.Contains(v.Tags, Mark(owner, v.VMID, v.uuid()))
}

// HalfMade reports whether the VM is a clone of ours that was not configured yet. While it
// SameAs being configured, option after option is written down to be applied at once in the
// end (update_vm_api and vmconfig_apply_pending of qemu-server): notes may come before tags.
func (v *VM) HalfMade(owner string) bool {
	text := HalfMadeNotes(owner, v.VMID)
	return v.Description == text || v.notes == text
}

// Abandoned reports whether the VM is what an earlier version has left that was cut off
// between a clone and its configuration. Its notes named no VMID, so a copy of one has
// them, too. It is one only while nothing shows that anybody has used it: it is off and has
// no snapshot, no device, no second disk, and no tag but owner's. Whether it ever ran its
// configuration does not show.
func (v *VM) Abandoned(owner string) bool {
	alien := func(tag string) bool { return tag != strings.ToLower(owner) }
	return v.Description == "Unfinished: this VM is being made for "+owner+"." &&
		!v.Running && !v.Template && v.config["vmstate"] == "" && v.config["parent"] == "" &&
		len(v.GPUs) == 0 && len(v.Disks) < 2 && len(v.Unused) == 0 && !slices.ContainsFunc(v.Tags, alien)
}

// Unlike says why a VM that is not ours is not, although it may look so.
func (v *VM) Unlike(owner string) string {
	named := Marks(owner, v.Tags)
	switch {
	case v.Abandoned(owner):
		return "was left by an earlier version that was interrupted while it created the VM"
	case !v.Tagged(owner):
		return "does not carry the tag " + owner
	case slices.Contains(named, v.VMID):
		return "is marked as a VM with another UUID"
	case len(named) > 0:
		return fmt.Sprintf("is marked as VM %d, so it is a copy: a clone, or a backup restored to another VMID", named[0])
	}
	return fmt.Sprintf("carries the tag %s without a mark of its own", owner)
}

// HasMAC reports whether one of the interfaces has a MAC address, in capitals or not; none
// has "".
func HasMAC(nics []NIC, address string) bool {
	return address != "" && slices.ContainsFunc(nics, func(n NIC) bool { return strings.EqualFold(n.MAC, address) })
}
