package network

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// Cluster is what servers on a network have formed. It stays while they are off, and
// ends with the last of their disks.
type Cluster interface {
	// Evict is told that somebody else has an address now: the machine that had it was
	// recreated. It reports whether nothing of the cluster runs any more, as of one that
	// has lost a server by this.
	Evict(address netip.Addr) (over bool)
	// Forget is told that a disk is gone, and reports whether it was the last.
	Forget(d *disk.Disk) (over bool)
	// Close ends the control plane.
	Close()
}

// ClusterOf returns the cluster of that identifier, or nil.
func ClusterOf(n *Network, id string) Cluster {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.clusters[id]
}

// Adopt makes a cluster known, whose first server has that address. Clusters that had a
// server there have lost it.
func Adopt(n *Network, id string, c Cluster, address netip.Addr) {
	n.drop(func(old Cluster) bool { return old.Evict(address) })
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.clusters == nil {
		n.clusters = map[string]Cluster{}
	}
	n.clusters[id] = c
}

// Forget is told that an OS disk is gone. The cluster of the server on it counts
// it as a dead member until its Node is deleted; a control plane of which no disk
// is left is closed.
func (n *Network) Forget(d *disk.Disk) {
	n.drop(func(c Cluster) bool { return c.Forget(d) })
}

// drop closes the clusters that are over.
func (n *Network) drop(over func(Cluster) bool) {
	n.mu.Lock()
	all := maps.Clone(n.clusters)
	n.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if !over(all[id]) {
			continue
		}
		n.mu.Lock()
		delete(n.clusters, id)
		n.mu.Unlock()
		all[id].Close()
	}
}
