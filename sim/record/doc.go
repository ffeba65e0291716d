// Package record turns a Proxmox VE host into a model of package pvesim, so that
// what happens on it can be tried without it.
//
// It reads over the API alone, with GET requests and nothing else: hosts, CPUs,
// memory, PCI devices, storages with their files, bridges, machines with their
// configurations, mappings, pools, and who may do what. A token with PVEAuditor on /
// is enough; what it may not see is left out and named in what [Read] returns.
//
// # What stays behind
//
// No secret comes along: passwords and the secrets of tokens are not in the API's
// answers to begin with; descriptions, comments, arguments for QEMU, hook scripts and
// the comments of SSH keys, where people put such things, are left out. With
// [Options].Anonymous names, addresses and serial numbers are replaced too, alike in
// all places, so that the model still holds together.
//
// # What the API does not tell
//
// The NUMA node of a PCI device, which is 0 in the model, and what nvidia-smi would
// call a card: add numaNode and product by hand where they matter. What is inside of
// disks is not copied; machines of the model have no living guests, unless an image
// is named.
package record
