// Package machine says what a VM should be, what one was seen to be, and what lies between. It
// is pure: it asks nobody and changes nothing, that is package proxmox.
//
// A [Spec] is what a VM should be, a [VM] what Proxmox's configuration of it says ([Read]), and
// [Spec.Diff] compares the two; [Rules] is the table of what it takes to change each thing. For
// package proxmox, [Spec.Changes] has the config keys that make each difference go away.
//
// A VM is its owner's by a tag and a [Mark], which fits no copy of it: [VM.Ours], [VM.Unlike].
package machine
