// Package unit has the two values that a cluster's file, Proxmox VE and people write in
// several ways, and which are one type each here: an amount of bytes and the place of a
// PCI device.
package unit
