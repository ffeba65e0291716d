// Package qemu gives the VMs of a simulated Proxmox VE real guests: QEMU runs them on this
// machine, by emulation, so that it needs no privileges and no KVM.
//
// A [Hypervisor] replaces package guest in pvesim. Hosts, storages, tasks and permissions stay
// simulated. These parts of a VM are real: power, CPUs and memory, disks with growth and
// hot-plugging, the CD drive, network cards, the guest agent, and everything in the guest,
// which is the Debian 13 that [Debian] builds from Debian's packages.
//
// # What is as on a real host
//
// The devices have the ids and the places that qemu-server gives them
// (PVE/QemuServer/DriveDevice.pm, PCI.pm), so that the guest sees what it would see
// there: since machine version 10.0 a SCSI disk has the id drive-scsi1 in page 0x83 of
// its vital product data and its serial in page 0x80 alone; before, both are the serial.
//
// # What is different
//
// The kernel is booted directly, whatever the VM's firmware is, because OVMF and GRUB take
// minutes in emulation; so it is always the image's own. There is no display, no USB, no
// passed-through card. There is one CPU, of QEMU's own kind; with KVM at most as many as this
// machine has, and like its own. A guest has no internet. It is in a network of its own, and
// reachable through pvesim's at the address that its agent reports: two guests cannot reach
// each other, unless there is a [LAN] for them. A card is told an MTU only if its own setting has
// one, not its bridge's. A disk can be cloned only while no machine uses it.
package qemu
