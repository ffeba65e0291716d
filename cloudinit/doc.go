// Package cloudinit describes a machine's first boot.
//
// [RenderServer] and [RenderWorker] turn a [Machine] into a [NoCloud]: three typed documents
// (user-data, meta-data, network-config) and, with [NoCloud.ISO], the CD-ROM image from which
// cloud-init reads them. A [Bake] describes the machine in which a template is made, and
// [RenderTemplate] renders it in the same way.
//
// Everything here is pure: no file is read, no machine is reached, and equal inputs give equal
// bytes. So a digest of the documents is a good name: an image with the right digest in its
// name is the right image, and need not be read or created again. The instance id has a digest
// too, so cloud-init reads the documents again only if one changed.
//
// Three decisions:
//
//   - The whole user-data is ours. Nothing is merged with a hypervisor's own documents, so
//     hostname, keys and the absence of passwords are on every machine as written here.
//   - Network settings match the interface by MAC address and call it eth0, so nothing depends
//     on the card's slot.
//   - Disks are found by serial number, never by their order or a link's name, and are
//     formatted only if they have no file system.
//
// Do not put secrets into these documents: anyone who may read the storage can read the image,
// as long as it exists. Send join tokens and passwords to the running machine over an
// authenticated connection; a console password may be given as its hash.
//
// On the machine, `cloud-init status --format json` reports the result; [ParseStatus] reads
// it.
package cloudinit
