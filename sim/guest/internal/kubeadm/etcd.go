package kubeadm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
)

// member is one of etcd's.
type member struct {
	name    string // "": it was announced and has not started yet
	address netip.Addr
	learner bool
	runs    bool
	lost    bool // its disk is gone
}

// working is how many voters run. c.mu must be held.
func (c *cluster) working() (count int) {
	for _, m := range c.members {
		if m.runs && !m.learner {
			count++
		}
	}
	return count
}

// voters are all that count. c.mu must be held.
func (c *cluster) voters() (count int) {
	for _, m := range c.members {
		if !m.learner {
			count++
		}
	}
	return count
}

// quorate reports whether more than half of etcd's voters run.
func (c *cluster) quorate() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.working() > c.voters()/2
}

// answers reports whether a server's API does: its own member is one, and etcd works.
func (n *node) answers() bool {
	all := network.StateOf[servers](n.sys.Config.Network)
	return all.get(n.sys.Answers()) == n && n.cluster.isVoter(n.member) && n.cluster.quorate()
}

// isVoter reports whether a member is more than a learner, which serves no API server.
func (c *cluster) isVoter(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[id]
	return m != nil && !m.learner
}

func (c *cluster) isMember(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[id] != nil
}

// runs says whether the container of a member does. One that runs has told its name.
func (c *cluster) runs(id, name string, is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[id]; m != nil {
		m.runs = is
		m.name = cmp.Or(m.name, name)
	}
}

// announce is member add --learner for a server that joins: the same one again is fine, a second learner is not
// (server/etcdserver of etcd 3.6, max-learners).
func (c *cluster) announce(address netip.Addr) (id string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, m := range c.members {
		switch {
		case m.address == address:
			return id, nil
		case m.learner:
			return "", fmt.Errorf("etcdserver: too many learner members in cluster")
		}
	}
	id = machine.HexID(8)
	c.members[id] = &member{address: address, learner: true}
	return id, nil
}

// hasRun reports whether a member has had data.
func (c *cluster) hasRun(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[id]
	return m != nil && m.name != ""
}

// promote makes a learner that runs a voter.
func (c *cluster) promote(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[id]
	if m == nil || !m.runs {
		return fmt.Errorf("the etcd member %s is not started", id)
	}
	m.learner = false
	return nil
}

// etcdctl is member list and member remove in etcd's container.
func (n *node) etcdctl(ctx context.Context, p *machine.Proc, args []string) int {
	c := n.cluster
	if !n.answers() {
		return p.Fail("{\"level\":\"warn\",\"msg\":\"retrying of unary invoker failed\"}\nError: context deadline exceeded")
	}
	if p.Wait(ctx, 200*time.Millisecond) != nil {
		return 1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case slices.Equal(args, []string{"member", "list"}):
		for _, id := range slices.Sorted(maps.Keys(c.members)) {
			m, status, client := c.members[id], "started", ""
			if m.name == "" {
				status = "unstarted"
			} else {
				client = "https://" + m.address.String() + ":2379"
			}
			p.Printf("%s, %s, %s, https://%s:2380, %s, %t\n", id, status, m.name, m.address, client, m.learner)
		}
		return 0
	case len(args) == 3 && args[0] == "member" && args[1] == "remove":
		m := c.members[args[2]]
		if m == nil {
			return p.Fail("Error: etcdserver: member not found")
		}
		// A removal that would leave too few members that run is refused (strict-reconfig-check).
		left, running := c.voters(), c.working()
		if !m.learner {
			left--
			if m.runs {
				running--
			}
		}
		if running <= left/2 {
			return p.Fail("Error: etcdserver: re-configuration failed due to not enough started members")
		}
		delete(c.members, args[2])
		p.Sys.RecordChange("etcdctl member remove " + cmp.Or(m.name, m.address.String()))
		p.Printf("Member %s removed from cluster %s\n", args[2], c.id)
		return 0
	}
	return p.Fail("etcdctl %v is not simulated", args)
}

// memberOn is the identifier of the member whose data is on a machine's disk.
func memberOn(s *machine.System) string {
	mark, _ := s.Root().ReadFile(etcdMember)
	return disk.Value(mark, "member")
}

// Members returns the names of etcd's members as the server on this machine knows them, in order, as [k3s.Members] does.
func Members(m *machine.Machine) []string {
	s := m.System()
	if s == nil {
		return nil
	}
	n := network.StateOf[servers](s.Config.Network).get(s.Answers())
	if n == nil {
		return nil
	}
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, m := range c.members {
		name := cmp.Or(m.name, m.address.String())
		if !m.runs {
			name += " (away)"
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
