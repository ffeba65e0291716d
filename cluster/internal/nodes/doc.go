// Package nodes is the machines of a cluster as one sees them from inside: who may log in,
// which host keys they show, whether their first boot is over, and their disks, passwords
// and exports. SeenOf is what one run has observed of a machine.
package nodes
