// Package hostprep prepares Proxmox VE hosts for a cluster's file: the privileges of its API
// token, the storages, and, as root on each host, what passing GPUs through to VMs needs (IOMMU,
// vfio). [Prep] makes a graph of it.
//
// [Observe] looks at a host through any [remote.Runner] that is root there, and
// changes nothing. [Spec.Changes] is pure: it says which files would get which
// content, which commands would run, why, and how to undo it. [Apply] does
// exactly what such a [Change] says, and refuses when a file is no longer what was
// looked at. So what a person has read in the plan is what happens, and once it has
// happened [Spec.Changes] is empty.
//
// What is changed, where it has to be:
//
//   - the kernel's command line: intel_iommu=on for Intel before Linux 6.8, iommu=pt,
//     and nothing that switches the IOMMU off. It is in /etc/default/grub for GRUB and
//     in /etc/kernel/cmdline for systemd-boot, which Proxmox uses on ZFS with UEFI; the
//     ESPs are asked which of the two is there. Other options, comments and quotes stay.
//   - the modules of vfio are loaded at boot. vfio_virqfd, which Linux has not had since
//     6.2, is taken out of lists where old instructions put it.
//   - vfio-pci takes every function of the cards before the host's own drivers do.
//     They are not blacklisted: another card keeps its driver.
//
// [Spec.Reboot] says what of that waits for a reboot, [Reboot] does one and waits for
// the host, and [Spec.Notes] what no file can fix: an IOMMU that is off in the
// firmware, a card that shares its IOMMU group. An ACS override is never set: it
// makes groups look apart that are not, so one VM's card could reach another's memory.
//
// [Grants] and [Uses] say what a file asks of hosts; [Access.ObserveAccess], [Access.Changes] and [Access.MakeToken] do the same for what is common to
// all hosts of a Proxmox cluster: storages' content types, roles, user, token.
//
// Sources: the Proxmox VE administration guide, chapters PCI(e) Passthrough and Host
// Bootloader; proxmox-kernel-helper's proxmox-boot-tool; pve-installer for what a fresh
// host looks like.
package hostprep
