// Package proxmoxcsi plays the controller of Proxmox's storage driver: it makes the requests of
// sergelogvinov/proxmox-csi-plugin v0.19.1 (pkg/csi/controller.go, utils.go) and go-proxmox v0.2.0, in their order.
//
// Missing: snapshots, clones, replication, the sizes that a claim may be rounded to, caches of Proxmox's answers.
package proxmoxcsi
