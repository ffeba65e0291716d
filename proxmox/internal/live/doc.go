// Package live lists hosts and VMs as they are now: Proxmox's own list of all VMs is up to 11 s
// old in part, so each host is asked itself.
package live
