// Package session implements the commands of the Mage targets: it finds and reads
// cluster.yaml, says where it works, starts the lab if that is the endpoint, and binds the
// cluster to its world.
//
// Each target is one method here; the targets themselves only parse flags.
package session
