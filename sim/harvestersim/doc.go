// Package harvestersim is a Harvester cluster for tests: its API, with a small controller that does what KubeVirt's and
// Harvester's do, and simulated machines that answer over SSH.
//
// The API is package kubesim's, without sockets. The controller imports images, makes volumes of a machine's templates,
// enables claimed PCI devices, and starts and stops machines: an instance is scheduled by what its devices and its
// memory ask of the nodes, boots a guest from the image with the cloud-init documents of its Secret, and writes its
// serial console to the log of its pod. Its webhooks refuse and change what the real ones do.
//
// Sources: harvester/harvester v1.8.0 (pkg/controller/master/virtualmachine, pkg/image, pkg/webhook/resources),
// harvester/pcidevices v1.8.1 (pkg/controller, pkg/webhook), kubevirt/kubevirt v1.7.0 (pkg/virt-controller/watch/vm).
//
// Missing: users and their rights, live migration, hot plugging, snapshots and backups, quotas, images of CDI, USB
// devices and vGPUs, Longhorn behind its volumes.
package harvestersim
