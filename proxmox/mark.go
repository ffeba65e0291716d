package proxmox

import (
	"crypto/rand"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// A VM's tags say who owns it and which VM it is: in addition to the owner's tag it carries a mark,
// the tag OWNER_VMID_UUID with the first digits of its SMBIOS UUID.
//
// The owner's tag alone proves nothing. Proxmox copies tags, description and every other line when
// it clones a VM, but the clone gets its own VMID, UUID and interface addresses (clone_vm in
// PVE/API2/Qemu.pm). A backup that is restored to another VMID keeps even its UUID and addresses,
// unless the user asks for unique ones (restore_update_config_line in PVE/QemuServer.pm). So the
// mark includes both VMID and UUID, and does not match any copy.

// markFor returns the tag of the one machine of owner's that has this VMID and this UUID.
func markFor(owner string, vmid int, uuid string) string {
	return fmt.Sprintf("%s_%d_%.8s", strings.ToLower(owner), vmid, strings.ToLower(uuid))
}

var markTail = regexp.MustCompile(`^([0-9]+)_[0-9a-f]{8}$`)

// markedAs returns the VMID in a tag that is a mark of owner's, or 0 for any other tag.
func markedAs(owner, tag string) int {
	tail, found := strings.CutPrefix(tag, strings.ToLower(owner)+"_")
	if m := markTail.FindStringSubmatch(tail); found && m != nil {
		vmid, _ := strconv.Atoi(m[1])
		return vmid
	}
	return 0
}

// marksOf returns the VMIDs in those tags that are marks of owner's.
func marksOf(owner string, tags []string) []int {
	var out []int
	for _, t := range tags {
		if vmid := markedAs(owner, t); vmid != 0 {
			out = append(out, vmid)
		}
	}
	return out
}

// withoutMarks returns the tags that are not marks of owner's.
func withoutMarks(owner string, tags []string) []string {
	return slices.DeleteFunc(slices.Clone(tags), func(t string) bool { return markedAs(owner, t) != 0 })
}

// newUUID returns a random UUID (version 4), as Proxmox makes them.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// uuid returns the VM's SMBIOS UUID, or "" if it has none or its configuration was not read.
func (v *VM) uuid() string { return wire.ParseLenient(v.config["smbios1"]).Get("uuid") }

// mayBe reports whether v, as it is now, may be the machine that was seen before.
func (v *VM) mayBe(seen *VM) bool {
	return seen.uuid() == "" || strings.EqualFold(v.uuid(), seen.uuid())
}

// replacedError returns the error for a VM for which VM.mayBe is false.
func replacedError(seen *VM) error {
	return fmt.Errorf("proxmox: VM %d on %s is no longer the machine %s: it has another UUID and is not changed",
		seen.VMID, seen.Host, seen.Name)
}

// HasOwnerTag reports whether the VM carries the tag owner, or a mark of owner's. Copies of our VMs do,
// too.
func (v *VM) HasOwnerTag(owner string) bool { return HasOwnerTag(owner, v.Tags) }

// HasOwnerTag reports whether owner's tag or a mark of owner's is among tags.
func HasOwnerTag(owner string, tags []string) bool {
	return slices.Contains(tags, strings.ToLower(owner)) || len(marksOf(owner, tags)) > 0
}

// OwnedBy reports whether the VM belongs to owner, by its mark or because it is half-made. The mark is
// a tag, and is repeated in the notes: the VM stays owner's if somebody removes the tags, unless
// another owner has taken it over since.
func (v *VM) OwnedBy(owner string) bool {
	if v.halfMade(owner) {
		return true
	}
	mark := markFor(owner, v.VMID, v.uuid())
	return v.uuid() != "" && (slices.Contains(v.Tags, mark) || v.noteHasMark(owner, mark))
}

// halfMade reports whether the VM is a clone of ours that is not configured yet. During the
// configuration, Proxmox writes down one option after another and applies all of them at the end
// (update_vm_api and vmconfig_apply_pending of qemu-server): the notes may be set before the tags.
func (v *VM) halfMade(owner string) bool {
	text := halfMadeNotes(owner, v.VMID)
	return v.Description == text || v.notes == text
}

// foreignReason says why a VM is not ours although it resembles one of ours.
func (v *VM) foreignReason(owner string) string {
	named := marksOf(owner, v.Tags)
	switch {
	case !v.HasOwnerTag(owner):
		return "does not carry the tag " + owner
	case slices.Contains(named, v.VMID):
		return "is marked as a VM with another UUID"
	case len(named) > 0:
		return fmt.Sprintf("is marked as VM %d, so it is a copy: a clone, or a backup restored to another VMID", named[0])
	}
	return fmt.Sprintf("carries the tag %s without a mark of its own", owner)
}
