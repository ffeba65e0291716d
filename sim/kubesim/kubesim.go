package kubesim

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim/internal/authority"
	"github.com/cps-gpu/homelab/sim/kubesim/internal/control"
)

var (
	_ guest.Kubernetes = (*Sim)(nil)
	_ guest.Plane      = (*Cluster)(nil)
)

// Sim makes clusters.
type Sim struct {
	// Speed is how many times faster than real the clusters are; 0 is 1.
	Speed float64

	mu       sync.Mutex
	clusters []*Cluster
}

// Form makes a cluster, which lives until its Close.
func (s *Sim) Form(ctx context.Context, cfg guest.PlaneConfig) (guest.Plane, error) {
	c, err := New(ctx, cfg, s.Speed)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clusters = append(s.clusters, c)
	return c, nil
}

// Close ends every cluster that was formed.
func (s *Sim) Close() error {
	for _, c := range s.Clusters() {
		_ = c.Close()
	}
	return nil
}

// Clusters returns the clusters that were formed so far, in order.
func (s *Sim) Clusters() []*Cluster {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.clusters)
}

// Cluster is one control plane with its nodes. It is safe for concurrent use.
type Cluster struct {
	cfg     guest.PlaneConfig
	speed   float64
	outside Backends
	plays   bool          // nodes and the programs on them
	settle  time.Duration // how long the loop waits for more after a change
	again   time.Duration // after which it looks again, whatever happens
	auth    *authority.Authority
	pipe    *pipe
	srv     *http.Server
	stop    context.CancelFunc
	ended   sync.WaitGroup // the loop, the server, and what runs in pods

	mu sync.Mutex
	objectStore
	machines machines
	control  *control.Controllers
	log      []Request
	next     time.Time // when the loop has something to do again, if nothing happens before
	closed   bool
	ctx      context.Context // ends with the cluster
}

// networks are one, or one of each family.
func networks(first, second netip.Prefix) []netip.Prefix {
	if !second.IsValid() {
		return []netip.Prefix{first}
	}
	return []netip.Prefix{first, second}
}

// machines are the nodes that join a cluster, and what runs on them.
type machines struct {
	*Cluster
	kubelets map[string]*kubelet
	runs     map[string]*run        // of pods on kubelets, by UID
	disks    map[string]*guest.Disk // behind volumes, by name
}

// Request is one request that the API served.
type Request struct {
	Method string
	Path   string // with its query
	DryRun bool
	Agent  string // the client's User-Agent
}

// Mutating reports whether the request could change anything.
func (r Request) Mutating() bool { return r.Method != http.MethodGet && !r.DryRun }

// New makes a cluster. It outlives ctx, whose values it keeps: call Close when it is
// no longer needed.
func New(ctx context.Context, cfg guest.PlaneConfig, speed float64) (*Cluster, error) {
	return form(ctx, cfg, speed, nil)
}

// form makes a cluster; without outside, it plays the nodes and what runs on them.
func form(ctx context.Context, cfg guest.PlaneConfig, speed float64, outside *Backends) (*Cluster, error) {
	if speed <= 0 {
		speed = 1
	}
	if !cfg.ServiceCIDR.IsValid() {
		cfg.ServiceCIDR = netip.MustParsePrefix("10.43.0.0/16")
	}
	if !cfg.PodCIDR.IsValid() {
		cfg.PodCIDR = netip.MustParsePrefix("10.42.0.0/16")
	}
	auth, err := authority.New(cfg)
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		cfg: cfg, speed: speed, plays: outside == nil, settle: settleAlone, again: lookAgainAlone, auth: auth, pipe: newPipe(),
		objectStore: newStore(),
	}
	c.machines = machines{Cluster: c, kubelets: map[string]*kubelet{}, runs: map[string]*run{}, disks: map[string]*guest.Disk{}}
	if c.plays {
		outside = &Backends{Kubelet: c.machines.kubeletAPI}
		c.settle, c.again = c.scale(settle), c.scale(lookAgain)
	}
	c.outside = *outside
	c.control = &control.Controllers{Store: controllerStore{c: c}, Pods: networks(cfg.PodCIDR, cfg.SecondCIDRs[1])}
	c.ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.srv = &http.Server{Handler: server{c}, TLSConfig: auth.ServerTLS(), ErrorLog: silent(), ReadHeaderTimeout: time.Minute}
	if cfg.Saved == nil {
		c.populate()
	} else if err := c.load(cfg.Saved.Objects); err != nil {
		return nil, err
	}
	c.ended.Add(2)
	go func() { defer c.ended.Done(); _ = c.srv.ServeTLS(c.pipe, "", "") }()
	go func() { defer c.ended.Done(); c.loop(c.ctx) }()
	return c, nil
}

// Close ends the cluster and returns when nothing of it runs. Only the record of its requests
// stays.
func (c *Cluster) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	_ = c.srv.Close()
	_ = c.pipe.Close()
	c.ended.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.objects)
	clear(c.past)
	clear(c.managers)
	clear(c.machines.kubelets)
	clear(c.machines.runs)
	clear(c.machines.disks)
	return nil
}

// Dial connects to the API server's TLS port.
func (c *Cluster) Dial(ctx context.Context) (net.Conn, error) { return c.pipe.Dial(ctx) }

// Kubeconfig returns the administrator's kubeconfig with server as its URL.
func (c *Cluster) Kubeconfig(server string) []byte { return c.auth.Kubeconfig(server) }

// Requests returns what was asked of the API so far.
func (c *Cluster) Requests() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.log)
}

// HasNode reports whether there is a Node object of this name. Deleting one frees
// the name, and the password with it.
func (c *Cluster) HasNode(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects["nodes"]["/"+name] != nil
}

// Names lists the objects of a resource and its group, such as "jobs.batch", as
// namespace/name, for tests.
func (c *Cluster) Names(resource string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.objects[resource]))
}

// Each calls f for every object, by its resource and group, namespace and name, for
// tests. f must neither change what it is given nor call c.
func (c *Cluster) Each(f func(resource string, object map[string]any)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range slices.Sorted(maps.Keys(c.objects)) {
		for _, e := range c.all(resource) {
			f(resource, e.obj)
		}
	}
}

// scale turns a duration of the simulated world into one of the clock.
func (c *Cluster) scale(d time.Duration) time.Duration {
	return time.Duration(float64(d) / c.speed)
}
