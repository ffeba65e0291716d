// Package release says what differs between the releases of Proxmox VE, and between the
// machine types of their QEMU.
package release
