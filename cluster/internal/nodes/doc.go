// Package nodes is the machines of a cluster as one sees them from inside: who may log in,
// which host keys they show, whether their first boot is over, and their disks, passwords
// and exports. Nodes remember what one run has seen of them; connections outlive it.
package nodes
