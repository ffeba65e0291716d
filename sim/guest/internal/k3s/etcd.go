package k3s

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// member is one of etcd's.
type member struct {
	id      string // on the server's disk
	address netip.Addr
	node    bool // its Node object has been there
	lost    bool // its disk is gone
}

// etcdTombstone marks the disk of a server that etcd has let go while it ran.
const etcdTombstone = serverDir + "/db/etcd/tombstone"

// Members returns the names of etcd's members as the K3s server on this machine
// knows them, in order; those that do not run have " (away)" behind them. It is nil
// where no server runs.
func Members(m *machine.Machine) []string {
	n := serverOn(m)
	if n == nil {
		return nil
	}
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(c.members)) {
		if !c.runs(name) {
			name += " (away)"
		}
		out = append(out, name)
	}
	return out
}

// quorate reports whether more than half of etcd's members run.
func (c *cluster) quorate() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.closed && len(c.active) > len(c.members)/2
}

// reap lets members go that do not run and whose Node was deleted, as a controller
// of K3s does. etcd refuses that where too few of the others run.
func (c *cluster) reap(ctx context.Context) {
	c.mu.Lock()
	resting := map[string]member{}
	for name, m := range c.members {
		if m.node && !c.runs(name) {
			resting[name] = m
		}
	}
	c.mu.Unlock()
	for name, m := range resting {
		if exists, err := nodeExists(ctx, c.plane, name); err != nil || exists {
			continue
		}
		c.mu.Lock()
		if c.members[name] == m && !c.runs(name) && len(c.active) > (len(c.members)-1)/2 {
			delete(c.members, name)
		}
		c.mu.Unlock()
	}
}

// runs reports whether a server is up. c.mu must be held.
func (c *cluster) runs(name string) bool {
	for _, n := range c.active {
		if n.name == name {
			return true
		}
	}
	return false
}

// isMember reports whether etcd knows a server by that identifier.
func (c *cluster) isMember(name, id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[name].id == id
}

// leaveEtcd is the end of a server's process: one that was removed from etcd
// meanwhile joins again when it starts again.
func (n *node) leaveEtcd() {
	n.cluster.reap(context.WithoutCancel(n.sys.Context())) // which is over when the power is cut
	if !n.cluster.isMember(n.name, n.member) {
		n.sys.Root().Save(etcdTombstone, "", 0o600)
	}
}

// clearTombstone clears a tombstone and what lies under it.
func (n *node) clearTombstone(v *disk.View) {
	if _, err := v.Stat(etcdTombstone); err != nil {
		return
	}
	n.say("info", "etcd has been removed from this server: it will join again")
	_ = v.Remove(etcdMark)
	_ = v.Remove(etcdTombstone)
}

// Evict implements [network.Cluster].
func (c *cluster) Evict(address netip.Addr) (over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lost := false
	for name, m := range c.members {
		if m.address == address {
			delete(c.members, name)
			lost = true
		}
	}
	return lost && len(c.active) == 0
}

// Forget implements [network.Cluster].
func (c *cluster) Forget(d *disk.Disk) (over bool) {
	mark, err := d.ReadFile(etcdMark)
	if err != nil || disk.Value(mark, "cluster") != c.id {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	left := 0
	for name, m := range c.members {
		if m.id == disk.Value(mark, "member") {
			m.lost = true
			c.members[name] = m
		}
		if !m.lost {
			left++
		}
	}
	return left == 0
}
