package kubeadm

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
	"github.com/cps-gpu/homelab/sim/guest/internal/plane"
)

// Where kubeadm and kubelet put things.
const (
	etc        = "/etc/kubernetes"
	manifests  = etc + "/manifests"
	kubelet    = "/var/lib/kubelet"
	etcdMember = "/var/lib/etcd/member/snap/db" // stands for etcd's data
)

// cluster is what etcd has. It stays while its servers are off, as it would on their disks.
type cluster struct {
	id    string
	ca    []byte // PEM
	key   []byte // of ca, PEM
	plane plane.Plane
	net   *network.Network

	mu      sync.Mutex
	version string // of the control plane, as kubeadm-config has it
	bound   bool   // admin.conf has rights
	tokens  map[string]token
	certs   sharedCerts
	members map[string]*member // of etcd, by their IDs
	vip     virtual
}

type token struct {
	secret, description string
	expires             time.Time
}

func (t token) over() bool { return !t.expires.IsZero() && !time.Now().Before(t.expires) }

// sharedCerts is the Secret kubeadm-certs.
type sharedCerts struct {
	key     string // that decrypts it
	expires time.Time
}

// Evict implements [network.Cluster].
func (c *cluster) Evict(address netip.Addr) (over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lost := false
	for id, m := range c.members {
		if m.address == address {
			delete(c.members, id)
			lost = true
		}
	}
	return lost && c.working() == 0
}

// Forget implements [network.Cluster].
func (c *cluster) Forget(d *disk.Disk) (over bool) {
	mark, err := d.ReadFile(etcdMember)
	if err != nil || disk.Value(mark, "cluster") != c.id {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[disk.Value(mark, "member")]; m != nil {
		m.lost = true
	}
	for _, m := range c.members {
		if !m.lost {
			return false
		}
	}
	return true
}

// Close implements [network.Cluster].
func (c *cluster) Close() { _ = c.plane.Close() }

// clusterOn is the cluster whose etcd is on a machine's disk, or nil.
func clusterOn(s *machine.System) *cluster {
	mark, err := s.Root().ReadFile(etcdMember)
	if err != nil || s.Config.Network == nil {
		return nil
	}
	c, _ := network.ClusterOf(s.Config.Network, disk.Value(mark, "cluster")).(*cluster)
	return c
}

// state is what of Kubernetes is in a running system.
type state struct{ running atomic.Pointer[node] }

func stateOf(s *machine.System) *state { return machine.StateOf[state](s) }

// servers are those whose API server runs, by what they are to a network.
type servers struct {
	mu sync.Mutex
	by map[network.Host]*node
}

func (all *servers) set(h network.Host, n *node) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.by == nil {
		all.by = map[network.Host]*node{}
	}
	if all.by[h] = n; n == nil {
		delete(all.by, h)
	}
}

func (all *servers) get(h network.Host) *node {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.by[h]
}

// reach returns the cluster whose API answers at an address.
func reach(ctx context.Context, s *machine.System, address string) (*cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Scale(10*time.Second))
	defer cancel()
	h, to, err := network.Lookup(s.Config.Network, ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	n := network.StateOf[servers](s.Config.Network).get(h)
	if n == nil || to.Port != apiPort || !n.answers() {
		return nil, network.RefusedError(to)
	}
	return n.cluster, nil
}

const apiPort = 6443

// Listen is the API server's port of a machine, nil where there is none.
func Listen(s *machine.System) network.Handler {
	n := network.StateOf[servers](s.Config.Network).get(s.Answers())
	if n == nil || !n.answers() {
		return nil
	}
	return func(ctx context.Context, conn net.Conn) {
		far, err := n.cluster.plane.Dial(ctx)
		if err != nil {
			_ = conn.Close()
			return
		}
		end := context.AfterFunc(ctx, func() { _ = errors.Join(conn.Close(), far.Close()) })
		defer end()
		var both sync.WaitGroup
		for _, pair := range [][2]net.Conn{{conn, far}, {far, conn}} {
			both.Go(func() {
				_, _ = io.Copy(pair[0], pair[1])
				_ = errors.Join(conn.Close(), far.Close())
			})
		}
		both.Wait()
	}
}
