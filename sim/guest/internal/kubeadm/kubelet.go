package kubeadm

import (
	"context"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/gpu"
	"github.com/cps-gpu/homelab/sim/guest/internal/k3s"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
	"github.com/cps-gpu/homelab/sim/guest/internal/plane"
	"github.com/cps-gpu/homelab/sim/guest/internal/systemd"
)

// How long things take, as on a machine of two cores with its images at hand.
const (
	controlPlaneTime = 12 * time.Second
	kubeletTime      = 3 * time.Second
	retryTime        = 5 * time.Second
)

// node is a kubelet that runs.
type node struct {
	sys     *machine.System
	server  bool
	cluster *cluster
	member  string // of etcd
	flags   map[string]string
	socket  string // of the runtime
}

// IsKubelet reports whether a service is one.
func IsKubelet(argv []string) bool { return path.Base(argv[0]) == "kubelet" }

// Start is the kubelet's service until it has registered.
func Start(ctx context.Context, s *machine.System, unit string, argv, _ []string) (stop func(), code int) {
	v := s.Root()
	fail := func(format string, args ...any) (func(), int) {
		s.Log(unit, "E run.go:72] \"command failed\" err=\""+format+"\"", args...)
		return nil, 1
	}
	data, err := v.ReadFile(argv[0])
	if err != nil {
		return nil, systemd.ExitExec
	}
	if _, err := v.ReadFile(kubelet + "/config.yaml"); err != nil {
		return fail("failed to load kubelet config file, path: %s/config.yaml, error: open %[1]s/config.yaml: no such file or directory", kubelet)
	}
	n := &node{sys: s, flags: flagsOf(v), socket: socketOf(v)}
	if !listens(s, n.socket) {
		return fail("failed to run Kubelet: validate service connection: validate CRI v1 runtime API for endpoint %s: connection refused", n.socket)
	}
	if forward, _ := v.ReadFile("/proc/sys/net/ipv4/ip_forward"); strings.TrimSpace(string(forward)) != "1" {
		return fail("failed to run Kubelet: ip_forward is off")
	}
	if _, err := v.Stat(manifests + "/kube-apiserver.yaml"); err == nil {
		n.server = true
	}
	if !s.Pause(ctx, kubeletTime) {
		return nil, 1
	}
	end := func() {}
	if n.server {
		if end = n.serve(ctx, unit); end == nil {
			return nil, 1
		}
	}
	for n.cluster == nil {
		if n.cluster, err = reach(ctx, s, endpointOf(v)); err == nil {
			break
		}
		s.Log(unit, "E kubelet_node_status.go:107] \"Unable to register node with API server\" err=%q", err)
		if !s.Pause(ctx, retryTime) {
			return nil, 1
		}
	}
	if err := n.cluster.plane.Join(ctx, n.describe(versionOf(data))); err != nil {
		end()
		return fail("%v", err)
	}
	stateOf(s).running.Store(n)
	return func() {
		stateOf(s).running.CompareAndSwap(n, nil)
		end()
		n.cluster.plane.Leave(n.name())
	}, 0
}

// serve is the control plane of a server: etcd, kube-vip, and, once etcd works, an API server, where kubelet bootstraps
// (cmd/phases/join/kubelet.go: it looks at its own machine). end is nil if it ends before that.
func (n *node) serve(ctx context.Context, unit string) (end func()) {
	s, v := n.sys, n.sys.Root()
	for { // kubelet runs what manifests there are
		if n.cluster, n.member = clusterOn(s), memberOn(s); n.cluster != nil && n.cluster.isMember(n.member) {
			break
		}
		if n.cluster != nil {
			s.Log(unit, "E pod_workers.go:1324] \"Error syncing pod, skipping\" err=\"back-off restarting failed container=etcd: the member has been permanently removed from the cluster\"")
		}
		if !s.Pause(ctx, retryTime) {
			return nil
		}
	}
	if !s.Pause(ctx, controlPlaneTime) {
		return nil
	}
	all := network.StateOf[servers](s.Config.Network)
	vip, cancel := context.WithCancel(s.Context())
	end = func() {
		cancel()
		all.set(s.Answers(), nil)
		n.cluster.runs(n.member, n.name(), false)
	}
	n.cluster.runs(n.member, n.name(), true)
	all.set(s.Answers(), n)
	s.Go(func() { n.kubeVIP(vip) })
	for {
		_, joined := v.Stat(etc + "/kubelet.conf")
		_, bootstraps := v.Stat(etc + "/bootstrap-kubelet.conf")
		if n.answers() && (joined == nil || bootstraps == nil) {
			if joined != nil {
				v.Save(etc+"/kubelet.conf", "apiVersion: v1\nclusters:\n- cluster:\n    server: https://"+s.Address().String()+":6443\n", 0o600)
			}
			return end
		}
		s.Log(unit, "E kubelet_node_status.go:107] \"Unable to register node with API server\" err=\"connect: connection refused\"")
		if !s.Pause(ctx, retryTime) {
			end()
			return nil
		}
	}
}

var serverLine = regexp.MustCompile(`(?m)^\s*server:\s*(\S+)\s*$`)

// endpointOf is the host and port that the kubelet's login names.
func endpointOf(v *disk.View) string {
	data, _ := v.ReadFile(etc + "/kubelet.conf")
	m := serverLine.FindSubmatch(data)
	if m == nil {
		return ""
	}
	u, err := url.Parse(string(m[1]))
	if err != nil {
		return ""
	}
	return u.Host
}

// instanceFile has what is this machine's own (kubeadm's phases/kubelet/config.go).
const instanceFile = kubelet + "/instance-config.yaml"

var endpointLine = regexp.MustCompile(`(?m)^containerRuntimeEndpoint: (\S+)$`)

// socketOf is where kubelet asks the runtime.
func socketOf(v *disk.View) string {
	data, _ := v.ReadFile(instanceFile)
	if m := endpointLine.FindSubmatch(data); m != nil {
		return string(m[1])
	}
	return containerdSocket
}

// flagsOf reads what kubeadm has written for kubelet (phases/kubelet/flags.go).
func flagsOf(v *disk.View) map[string]string {
	data, _ := v.ReadFile(kubelet + "/kubeadm-flags.env")
	out := map[string]string{}
	_, line, _ := strings.Cut(string(data), "\"")
	line, _, _ = strings.Cut(line, "\"")
	for _, flag := range strings.Fields(line) {
		key, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		out[key] = value
	}
	return out
}

func (n *node) name() string {
	if name := n.flags["hostname-override"]; name != "" {
		return name
	}
	return strings.ToLower(n.sys.Hostname())
}

func (n *node) describe(version string) plane.Node {
	boot, _ := n.sys.Root().ReadFile(machine.BootIDFile)
	out := plane.Node{Name: n.name(), Role: "agent", InternalIP: n.sys.Address(), Version: version, Labels: map[string]string{}, ProviderID: n.flags["provider-id"],
		CPUs: n.sys.Config.CPUs, Memory: n.sys.Config.Memory, GPUs: n.gpus, BootID: strings.TrimSpace(string(boot)),
		Run: func(ctx context.Context, c plane.Container) (int, string, string) {
			return k3s.Container(ctx, n.sys, c)
		}}
	if n.server {
		out.Role = "server"
	}
	if a, err := netip.ParseAddr(n.flags["node-ip"]); err == nil {
		out.InternalIP = a
	}
	for l := range strings.SplitSeq(n.flags["node-labels"], ",") {
		if key, value, ok := strings.Cut(l, "="); ok {
			out.Labels[key] = value
		}
	}
	if taints := n.flags["register-with-taints"]; taints != "" {
		out.Taints = strings.Split(taints, ",")
	}
	return out
}

// gpus are those that containers can use.
func (n *node) gpus() []plane.GPU {
	if n.nvidiaRuntime() == "" || n.sys.Context().Err() != nil {
		return nil
	}
	cards, failed := gpu.NVML(n.sys)
	if failed != nil {
		return nil
	}
	return k3s.CardsOf(cards)
}

// versionOf is the release of a program of the package kubelet or kubeadm: v1.36.5 of 1.36.5-1.1.
func versionOf(program []byte) string {
	v, _, _ := strings.Cut(disk.Value(program, "version"), "-")
	return "v" + v
}
