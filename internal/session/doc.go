// Package session is what every command of the Mage targets begins with: it finds
// and reads cluster.yaml, says where it will work, starts the lab where that is the
// endpoint, and binds the cluster to its world.
//
// Each target is one method here; the targets themselves only parse flags.
package session
