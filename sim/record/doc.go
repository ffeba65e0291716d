// Package record turns a Proxmox VE host into a model of package pvesim, so that tests can run
// without it.
//
// It reads only over the API, only with GET requests: hosts, CPUs, memory, PCI devices,
// storages with their files, bridges, machines with their configurations, mappings, pools, and
// permissions. A token with PVEAuditor on / is enough; what it may not see is left out, and
// [Read] lists it.
//
// # What is left out
//
// A model has no secrets: passwords and the secrets of tokens are not in the API's answers;
// descriptions, comments, arguments for QEMU, hook scripts and the comments of SSH keys, where
// people put such things, are left out. With [Options].Anonymous names, addresses and serial
// numbers are replaced too, consistently, so that the model stays valid.
//
// # What the API does not show
//
// The NUMA node of a PCI device, which is 0 in the model, and nvidia-smi's name of a card: add
// numaNode and product by hand if they matter. The contents of disks are not copied; machines
// of the model have no running guests, unless an image is named.
package record
