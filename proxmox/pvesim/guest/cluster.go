package guest

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

	"github.com/goccy/go-yaml"
)

// cluster is what the servers of a K3s cluster share: in life, etcd's contents.
// It stays while the servers are off, as it would on their disks.
type cluster struct {
	id          string
	version     string
	secret      string // of the server token
	agentSecret string // of the agent token; the same unless configured
	ca, caHash  string
	critical    map[string]string
	plane       Plane
	net         *Network
	scale       func(time.Duration) time.Duration

	mu        sync.Mutex
	members   map[string]member // servers in etcd, by node name
	active    []*k3sNode        // servers that run now, the oldest first
	passwords map[string]string // of nodes, by name
	bootstrap map[string]bool   // secrets of "k3s token create"
	applied   map[string]string // manifests by file name, with their digests
	vip       netip.Addr
	holder    *k3sNode // who has the VIP
	electing  *time.Timer
	closed    bool
}

// member is one of etcd's.
type member struct {
	id      string // on the server's disk
	address netip.Addr
}

// kubeVIPTime is how long kube-vip takes to come up; failoverTime, how long the
// others wait for a dead holder with a lease of 15/10/2 s.
const (
	kubeVIPTime  = 3 * time.Second
	failoverTime = 25 * time.Second
)

// certificateAuthority is the one in a kubeconfig, which for K3s is the file whose
// digest is in its tokens.
func certificateAuthority(kubeconfig []byte) string {
	var doc struct {
		Clusters []struct {
			Cluster struct {
				CA string `yaml:"certificate-authority-data"`
			} `yaml:"cluster"`
		} `yaml:"clusters"`
	}
	if err := yaml.Unmarshal(kubeconfig, &doc); err == nil && len(doc.Clusters) > 0 {
		if pem, err := base64.StdEncoding.DecodeString(doc.Clusters[0].Cluster.CA); err == nil && len(pem) > 0 {
			return string(pem)
		}
	}
	return "-----BEGIN CERTIFICATE-----\n" + base64.StdEncoding.EncodeToString([]byte(hexID(24))) + "\n-----END CERTIFICATE-----\n"
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

// admits checks a token the way the supervisor of a server does.
func (c *cluster) admits(role, text string) error {
	t := parseToken(text)
	if t.hash != "" && t.hash != c.caHash {
		return fmt.Errorf("token CA hash does not match the Cluster CA certificate hash: %s != %s", t.hash, c.caHash)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case t.bootstrap && !c.bootstrap[t.secret]:
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

// quorate reports whether more than half of etcd's members run.
func (c *cluster) quorate() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.closed && len(c.active) > len(c.members)/2
}

// up adds a running server.
func (c *cluster) up(n *k3sNode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active = append(c.active, n)
	c.elect(kubeVIPTime)
}

// down takes a server out that has stopped or lost its power.
func (c *cluster) down(n *k3sNode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, a := range c.active {
		if a == n {
			c.active = append(c.active[:i:i], c.active[i+1:]...)
			break
		}
	}
	if c.holder != n {
		return
	}
	c.holder = nil
	c.net.unregisterAddr(c.vip, n.sys.m)
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
		c.net.Register(c.vip, c.holder.sys.m)
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
		c.net.unregisterAddr(c.vip, c.holder.sys.m)
		c.holder = nil
	}
	c.vip = addr
	c.elect(kubeVIPTime)
}

func (c *cluster) close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	if c.electing != nil {
		c.electing.Stop()
	}
	if c.holder != nil {
		c.net.unregisterAddr(c.vip, c.holder.sys.m)
	}
	c.mu.Unlock()
	_ = c.plane.Close()
}

// cluster returns the one that a server's disk belongs to.
func (n *Network) cluster(id string) *cluster {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.clusters[id]
}

// adopt makes a cluster known. Clusters that had a server at the same address
// have lost it, and end when nothing of them runs any more: their machines were
// made anew.
func (n *Network) adopt(c *cluster, address netip.Addr) {
	n.mu.Lock()
	if n.clusters == nil {
		n.clusters = map[string]*cluster{}
	}
	var gone []*cluster
	for id, old := range n.clusters {
		old.mu.Lock()
		lost := false
		for name, m := range old.members {
			if m.address == address {
				delete(old.members, name)
				lost = true
			}
		}
		if lost && len(old.active) == 0 {
			gone = append(gone, old)
			delete(n.clusters, id)
		}
		old.mu.Unlock()
	}
	n.clusters[c.id] = c
	n.mu.Unlock()
	for _, old := range gone {
		old.close()
	}
}

// Forget removes a destroyed disk's server from its cluster; a control plane that
// has no server left is closed. A simulator calls it when it deletes an OS disk.
func (n *Network) Forget(d *Disk) {
	mark, err := d.ReadFile(etcdMark)
	if err != nil {
		return
	}
	c := n.cluster(programLine(mark, "cluster"))
	if c == nil {
		return
	}
	c.mu.Lock()
	for name, m := range c.members {
		if m.id == programLine(mark, "member") {
			delete(c.members, name)
		}
	}
	empty := len(c.members) == 0
	c.mu.Unlock()
	if !empty {
		return
	}
	n.mu.Lock()
	delete(n.clusters, c.id)
	n.mu.Unlock()
	c.close()
}
