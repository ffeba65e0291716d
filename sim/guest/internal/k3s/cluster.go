package k3s

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
	"github.com/cps-gpu/homelab/sim/guest/internal/plane"
)

// cluster is what the servers of a K3s cluster share: in life, etcd's contents.
// It stays while the servers are off, as it would on their disks.
type cluster struct {
	id          string
	secret      string // of the server token
	agentSecret string // of the agent token; the same unless configured
	ca, caHash  string
	critical    map[string]string
	plane       plane.Plane
	net         *network.Network
	scale       func(time.Duration) time.Duration

	mu        sync.Mutex
	members   map[string]member         // servers in etcd, by node name
	active    []*node                   // servers that run now, the oldest first
	passwords map[string]string         // of nodes, by name
	bootstrap map[string]bootstrapToken // by its ID
	applied   map[string]string         // manifests by file name, with their digests
	vip       netip.Addr
	holder    *node // who has the VIP
	electing  *time.Timer
	judging   *time.Timer // until etcd's leader looks at the members
	closed    bool
}

// kubeVIPTime is how long kube-vip takes to come up; failoverTime, how long the
// others wait for a dead holder with a lease of 15/10/2 s.
const (
	kubeVIPTime  = 3 * time.Second
	failoverTime = 25 * time.Second
)

// certificateAuthority is the one in a kubeconfig, which for K3s is the file whose
// digest is in its tokens.
func certificateAuthority(config []byte) string {
	if k, err := readKubeconfig(config); err == nil && len(k.ca) > 0 {
		return string(k.ca)
	}
	return "-----BEGIN CERTIFICATE-----\n" + base64.StdEncoding.EncodeToString([]byte(machine.HexID(24))) + "\n-----END CERTIFICATE-----\n"
}

func caHash(ca string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(ca))) }

func (c *cluster) serverToken() string { return "K10" + c.caHash + "::server:" + c.secret }

func (c *cluster) agentToken() string {
	if c.agentSecret == c.secret {
		return c.serverToken()
	}
	return "K10" + c.caHash + "::node:" + c.agentSecret
}

var (
	errNotAuthorized = errors.New("not authorized")
	errForbidden     = errors.New("forbidden")
)

// admits checks what a machine comes with, the way the supervisor of a server does: the
// certificate of its node, or its token.
func (c *cluster) admits(n *node, role string) error {
	t := parseToken(n.token)
	if err := c.trusts(t); err != nil {
		return err
	}
	if role == "agent" && c.isKnown(n) {
		return nil
	}
	return c.accepts(t, role)
}

// trusts checks that a token is of this cluster.
func (c *cluster) trusts(t joinToken) error {
	if t.hash != "" && t.hash != c.caHash {
		return fmt.Errorf("token CA hash does not match the Cluster CA certificate hash: %s != %s", t.hash, c.caHash)
	}
	return nil
}

// accepts checks a token.
func (c *cluster) accepts(t joinToken, role string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case t.bootstrap && !c.valid(t.secret):
		return errNotAuthorized
	case t.bootstrap && role == "server":
		return errForbidden
	case t.bootstrap:
		return nil
	case role == "server" && t.user != "node" && t.secret == c.secret,
		role == "agent" && t.secret == c.agentSecret:
		return nil
	}
	return errNotAuthorized
}

// up adds a running server.
func (c *cluster) up(n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active = append(c.active, n)
	if m := c.members[n.name]; !n.never {
		m.node = true
		c.members[n.name] = m
	}
	c.elect(kubeVIPTime)
	c.judge()
}

// down takes a server out that has stopped or lost its power.
func (c *cluster) down(n *node) {
	defer n.leaveEtcd()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, a := range c.active {
		if a == n {
			c.active = append(c.active[:i:i], c.active[i+1:]...)
			break
		}
	}
	c.judge()
	if c.holder != n {
		return
	}
	c.holder = nil
	network.Release(c.net, c.vip, n.sys.Answers())
	c.elect(failoverTime)
}

// elect gives the VIP to a running server after a while. c.mu must be held.
func (c *cluster) elect(after time.Duration) {
	if !c.vip.IsValid() || c.holder != nil || c.closed || len(c.active) == 0 || c.electing != nil {
		return
	}
	c.electing = time.AfterFunc(c.scale(after), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.electing = nil
		if c.closed || c.holder != nil || len(c.active) == 0 {
			return
		}
		c.holder = c.active[0]
		c.net.Register(c.vip, c.holder.sys.Answers())
	})
}

// kubeVIPAddress finds the address in kube-vip's DaemonSet.
var kubeVIPAddress = regexp.MustCompile(`(?m)^[ -]*name: "?address"?\s*\n\s*value: "?([0-9a-fA-F.:]+)"?\s*$|^[ -]*value: "?([0-9a-fA-F.:]+)"?\s*\n\s*name: "?address"?\s*$`)

// saw looks for kube-vip in a manifest that was applied.
func (c *cluster) saw(manifest []byte) {
	if !strings.Contains(string(manifest), "kube-vip") {
		return
	}
	m := kubeVIPAddress.FindSubmatch(manifest)
	if m == nil {
		return
	}
	addr, err := netip.ParseAddr(string(m[1]) + string(m[2]))
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.vip != addr && c.holder != nil {
		network.Release(c.net, c.vip, c.holder.sys.Answers())
		c.holder = nil
	}
	c.vip = addr
	c.elect(kubeVIPTime)
}

// Close implements [network.Cluster].
func (c *cluster) Close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	for _, t := range []*time.Timer{c.electing, c.judging} {
		if t != nil {
			t.Stop()
		}
	}
	if c.holder != nil {
		network.Release(c.net, c.vip, c.holder.sys.Answers())
	}
	c.mu.Unlock()
	_ = c.plane.Close()
}
