package k3s

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/gpu"
	"github.com/cps-gpu/homelab/sim/guest/internal/iptables"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
	"github.com/cps-gpu/homelab/sim/guest/internal/plane"
	"github.com/cps-gpu/homelab/sim/guest/internal/systemd"
)

// How long K3s takes, as measured on two cores.
const (
	firstServerTime = 9 * time.Second
	joinServerTime  = 18 * time.Second
	joinAgentTime   = 6 * time.Second
	retryTime       = 2 * time.Second  // between an agent's attempts to reach a server
	configTime      = 7 * time.Second  // between its attempts to be let in: 5 to 10 s
	requestTime     = 10 * time.Second // of an agent's requests
)

// etcdMark stands for etcd's database on a server's disk.
const etcdMark = serverDir + "/db/etcd/member"

// node is a K3s that runs.
type node struct {
	sys      *machine.System
	unit     string
	role     string
	version  string
	name     string
	cfg      config
	token    string
	nvidia   bool   // NVIDIA's runtime was there when K3s started
	runtime  string // where it was
	cluster  *cluster
	member   string // its identifier in etcd
	embedded bool   // its server has the embedded registry
	never    bool   // the fault that it never gets ready

	starting time.Time // when it began to start again, with the fault that this takes long

	mu    sync.Mutex  // one manifest run at a time
	woken atomic.Bool // a manifest run is about to begin
}

// say logs a line as K3s' logger writes it.
func (n *node) say(level, format string, args ...any) {
	n.sys.Log(n.unit, "time=%q level=%s msg=%q", time.Now().UTC().Format(time.RFC3339), level, fmt.Sprintf(format, args...))
}

// die logs the last line of a process that ends, and returns its exit status.
func (n *node) die(format string, args ...any) int {
	n.say("fatal", format, args...)
	return 1
}

// shutdown logs why K3s ends itself. Its exit status is 0 then, which systemd takes for a breach
// of protocol, since the unit was not ready yet.
func (n *node) shutdown(format string, args ...any) int {
	n.say("error", "Shutdown request received: %s", fmt.Sprintf(format, args...))
	return systemd.ExitEarly
}

// Start is "k3s server" or "k3s agent" until it is ready.
func Start(ctx context.Context, s *machine.System, unit string, argv, env []string) (stop func(), code int) {
	binary, role, args := argv[0], argv[1], argv[2:]
	v := s.Root()
	data, err := v.ReadFile(binary)
	e, errStat := v.Stat(binary)
	name, _ := disk.ProgramOf(data)
	if err != nil || errStat != nil || name != "k3s" || !s.Runs(data) || e.Mode().Perm()&0o111 == 0 {
		s.Log(unit, "%s: Failed to execute %s: %s", unit, binary, map[bool]string{true: "No such file or directory", false: "Exec format error or permission denied"}[err != nil])
		return nil, systemd.ExitExec
	}
	n := &node{sys: s, unit: unit, role: role, version: disk.Value(data, "version")}
	if n.cfg, err = readConfig(v, args, env); err == nil {
		err = n.cfg.check(role, func(key string) { n.say("warning", "Unknown flag --%s found in config.yaml, skipping\n", key) })
	}
	if err != nil {
		s.Log(unit, "Incorrect Usage: %v", err)
		return nil, n.die("Error: %v", err)
	}
	n.never = s.Faulty(func(f machine.Faults) bool { return f.NodeNeverReady })
	n.token = n.cfg.token(v, "token")
	if n.name = n.cfg.get("node-name"); n.name == "" {
		n.name = strings.ToLower(s.Hostname())
	}
	if code := n.prepare(v); code != 0 {
		return nil, code
	}
	if role == "server" {
		code = n.serve(ctx)
	} else {
		code = n.follow(ctx)
	}
	if code != 0 {
		return nil, code
	}
	if ctx.Err() != nil {
		return nil, 1
	}
	if n.cfg.get("default-runtime") == "nvidia" && !n.nvidia {
		return nil, n.shutdown("failed to start container runtime: default runtime nvidia was not found")
	}
	return n.run(ctx)
}

// prepare does what both roles do before they talk to anybody.
func (n *node) prepare(v *disk.View) int {
	_, unknown := v.ReadFile(clientCertificate)
	switch {
	case n.role == "agent" && n.token == "" && unknown != nil:
		return n.die("Error: --token is required")
	case n.role == "agent" && n.cfg.get("server") == "":
		return n.die("Error: --server is required")
	}
	n.say("info", "Starting k3s %s%s (%s)", map[string]string{"agent": "agent "}[n.role], n.version, caHash(n.version)[:8])
	for _, dir := range strings.Split("/usr/local/nvidia/toolkit:/opt/kwasm/bin:"+machine.SearchPath, ":") {
		if _, err := v.Stat(dir + "/nvidia-container-runtime"); err == nil {
			n.nvidia, n.runtime = true, dir+"/nvidia-container-runtime"
			n.say("info", "Found nvidia container runtime at %s/nvidia-container-runtime", dir)
			break
		}
	}
	if n.sys.Config.Network == nil || !n.sys.Address().IsValid() {
		return n.die("failed to find interface with default route: no default routes found")
	}
	if _, err := v.Stat("/etc/rancher/node/password"); err != nil {
		b := make([]byte, 16)
		_, _ = rand.Read(b)
		v.Save("/etc/rancher/node/password", hex.EncodeToString(b)+"\n", 0o600)
	}
	config := "version = 3\n# rewritten at every start\n"
	if n.nvidia {
		config += "\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'nvidia'.options]\n  BinaryName = \"" + n.runtime + "\"\n"
	}
	v.Save(dir+"/agent/etc/containerd/config.toml", config, 0o600)
	return 0
}

// upstreamServer asks the server at a URL who it is. One that is joining answers too,
// but for what it needs its cluster for.
func (n *node) upstreamServer(ctx context.Context, raw string) (*node, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("only https:// URLs are supported, invalid scheme: %s", raw)
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	to := net.JoinHostPort(u.Hostname(), port)
	ctx, cancel := context.WithTimeout(ctx, n.sys.Scale(requestTime))
	defer cancel()
	// An agent asks through a load balancer of its own, which just hangs up.
	wrap := func(err error) error {
		by := to
		if n.role == "agent" {
			by, err = "127.0.0.1:6444", io.EOF
		}
		return fmt.Errorf("failed to get CA certs: Get \"https://%s/cacerts\": %w", by, err)
	}
	h, tcp, err := network.Lookup(n.sys.Config.Network, ctx, "tcp", to)
	if err != nil {
		if tcp != nil && ctx.Err() != nil {
			err = fmt.Errorf("dial tcp %s: connect: no route to host", to)
		}
		return nil, wrap(err)
	}
	if m := neighbour(n.sys.Config.Network, h); m != nil && tcp.Port == APIPort {
		if server := cmp.Or(serverOn(m), joiningServer(m)); server != nil {
			return server, nil
		}
	}
	return nil, wrap(network.RefusedError(tcp))
}

// APIPort is that of the API server, and of the servers' supervisors.
const APIPort = 6443

// Listen is the API server's port: bytes go to the control plane.
func Listen(s *machine.System) network.Handler {
	n := serverOn(s.Machine())
	if n == nil {
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
				_ = errors.Join(conn.Close(), far.Close()) // HTTP/2 and TLS need no half-closed connections
			})
		}
		both.Wait()
	}
}

// run is K3s from the moment that it is ready. No goroutine is left behind for it.
func (n *node) run(ctx context.Context) (stop func(), code int) {
	ips := []netip.Addr{n.sys.Address()}
	for i, text := range n.cfg.commas("node-ip") {
		if a, err := netip.ParseAddr(text); err == nil {
			ips = append(ips[:i], a)
		}
	}
	if err := sameFamilies(n.cluster.critical, ips); err != nil {
		return nil, n.die("%v", err)
	}
	if !n.never {
		if err := n.cluster.plane.Join(ctx, n.describe(ips)); err != nil {
			return nil, n.die("failed to register node %s: %v", n.name, err)
		}
	}
	inner, cancel := context.WithCancel(n.sys.Context())
	n.sys.Watch(manifestsDir, func() { manifestsChanged(n.sys) })
	stateOf(n.sys).running.Store(n)
	n.isSeen()
	iptables.K3sStarts(n.sys)
	if n.role == "server" {
		n.cluster.up(n)
		n.deploy(inner)
		n.takeSnapshots(inner)
	}
	n.say("info", "k3s %sis up and running", map[string]string{"agent": "agent "}[n.role])
	return func() {
		cancel()
		stateOf(n.sys).running.CompareAndSwap(n, nil)
		n.isSeen()
		if n.role == "server" {
			n.cluster.down(n)
		}
		n.cluster.plane.Leave(n.name)
	}, 0
}

// sameFamilies is what K3s requires of the networks and of a node's addresses (pkg/agent/run.go).
func sameFamilies(critical map[string]string, ips []netip.Addr) error {
	pods, services := strings.Split(critical["ClusterIPRanges"], ","), strings.Split(critical["ServiceIPRanges"], ",")
	six := func(network string) bool { return strings.Contains(network, ":") }
	if len(pods) != len(services) || six(pods[0]) != six(services[0]) {
		return fmt.Errorf("cluster-cidr: %v and service-cidr: %v, must share the same IP version (IPv4, IPv6 or dual-stack)", pods, services)
	}
	if len(ips) < 2 && (len(pods) > 1 || six(pods[0]) != ips[0].Is6()) {
		return fmt.Errorf("cluster-cidr: %v and node-ip: %v, must share the same IP version (IPv4, IPv6 or dual-stack)", pods, ips)
	}
	return nil
}

func (n *node) describe(ips []netip.Addr) plane.Node {
	boot, _ := n.sys.Root().ReadFile(machine.BootIDFile) // every running guest has it
	node := plane.Node{Name: n.name, Role: n.role, InternalIP: ips[0], Version: n.version, Labels: map[string]string{}, Taints: n.cfg.commas("node-taint"),
		CPUs: n.sys.Config.CPUs, Memory: n.sys.Config.Memory, GPUs: n.gpus, Run: func(ctx context.Context, c plane.Container) (int, string, string) { return Container(ctx, n.sys, c) },
		BootID: strings.TrimSpace(string(boot))}
	if len(ips) > 1 {
		node.SecondIP = ips[1]
	}
	if n.role == "server" {
		node.Disable = append([]string{}, n.cfg.commas("disable")...)
	}
	for _, arg := range n.cfg["kubelet-arg"] {
		if id, ok := strings.CutPrefix(arg, "provider-id="); ok {
			node.ProviderID = id
		}
	}
	node.ExternalIP, _ = netip.ParseAddr(n.cfg.get("node-external-ip"))
	for _, l := range n.cfg.commas("node-label") {
		key, value, _ := strings.Cut(l, "=")
		node.Labels[key] = value
	}
	if n.sharesImages() {
		node.Labels[peerLabel] = "true"
	}
	return node
}

// gpus are those that containers can use.
func (n *node) gpus() []plane.GPU {
	if !n.nvidia || n.sys.Context().Err() != nil {
		return nil
	}
	cards, failed := gpu.NVML(n.sys)
	if failed != nil {
		return nil
	}
	return CardsOf(cards)
}

// CardsOf are cards as a kubelet sees them.
func CardsOf(cards []gpu.Card) []plane.GPU {
	out := make([]plane.GPU, len(cards))
	for i, c := range cards {
		out[i] = plane.GPU{UUID: c.UUID, Model: c.Name, Index: i}
		mig, parts := c.Divided()
		out[i].MIG = mig
		for _, p := range parts {
			out[i].Instances = append(out[i].Instances, plane.Instance{UUID: p.UUID, Profile: p.Profile})
		}
	}
	return out
}

// deploy applies the manifests folder: what is new or changed since the cluster
// has last seen it.
func (n *node) deploy(ctx context.Context) {
	if !n.deployOnce(ctx) && n.sys.Enter() {
		go func() {
			defer n.sys.Leave()
			for n.sys.Pause(ctx, 5*time.Second) && !n.deployOnce(ctx) {
				continue
			}
		}()
	}
}

func (n *node) deployOnce(ctx context.Context) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	v := n.sys.Root()
	entries, _ := v.ReadDir(manifestsDir)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	done := true
	for _, name := range names {
		if !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) || slices.Contains(names, name+".skip") {
			continue
		}
		data, err := v.ReadFile(manifestsDir + "/" + name)
		if err != nil {
			continue
		}
		c, sum := n.cluster, caHash(string(data))
		c.mu.Lock()
		same := c.applied[name] == sum
		c.mu.Unlock()
		if same {
			continue
		}
		if err := c.plane.Apply(ctx, data); err != nil {
			n.say("error", "Failed to process config: failed to process %s/%s: %v", manifestsDir, name, err)
			done = false
			continue
		}
		n.say("info", "Applied manifest %s", name)
		c.mu.Lock()
		c.applied[name] = sum
		c.mu.Unlock()
		c.saw(data)
	}
	return done
}
