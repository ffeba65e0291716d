// Package cloudinit says what a machine should be at first boot.
//
// A [Machine] goes in, a [NoCloud] comes out of [RenderServer] or [RenderWorker]:
// three typed documents (user-data, meta-data, network-config) and, by
// [NoCloud.ISO], the CD-ROM image from which cloud-init reads them. A [Bake] goes
// through [RenderTemplate] in the same way and describes the machine in which a
// template is made.
//
// Everything here is pure: no file is read, no machine is reached, and equal
// inputs give equal bytes. That makes a digest of the documents a good name: an
// image with the right digest in its name is the right image, and need be neither
// read nor made again. The instance id carries a digest too, so cloud-init looks
// at a changed document again, and only then.
//
// Three decisions are worth knowing:
//
//   - The whole user-data is ours. Nothing is merged with what a hypervisor would
//     generate, so the hostname, the keys and the absence of passwords are what is
//     written here, on every machine.
//   - Network settings match the interface by MAC address and call it eth0, so
//     nothing depends on the slot in which the hypervisor puts the card.
//   - Disks are found by serial number, never by their order or a link's name, and
//     are formatted only when they carry no file system.
//
// What does not belong in here is anything secret. An image is readable by
// anyone who may read the storage that it lies on, for as long as it lies there.
// Join tokens and passwords go to a running machine, over an authenticated
// connection; a console password goes in as its hash, if it has to.
//
// On the machine, `cloud-init status --format json` tells how it went;
// [ParseStatus] reads that.
package cloudinit
