package clusterfile

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/cluster/backup"
	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/kubernetes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/schedule"
	"github.com/cps-gpu/homelab/k3s"
)

// k3sSection completes and checks k3s.
type k3sSection struct{ *resolver }

// runtimeClass refuses to disable K3s' component runtimes (manifests/runtimes.yaml), which
// creates the RuntimeClass nvidia. Without it, no pod with that class is admitted, including
// the device plugin's own. NVIDIA's operator creates the class itself, and with stack: none
// somebody else manages the cards.
func (r k3sSection) runtimeClass() {
	i := slices.Index(r.disabled, "runtimes")
	ours := r.spec.NVIDIA.Stack == spec.StackDevicePlugin || r.spec.NVIDIA.Stack == spec.StackDRA
	if i < 0 || r.bare || len(r.spec.GPUNodes()) == 0 || !ours {
		return
	}
	r.Wrong(&r.disabled[i], "runtimes creates the RuntimeClass nvidia, without which no container sees a GPU", "remove runtimes from k3s.disable")
}

// missing says why a component of K3s is not there, and what to do: the alternative, or to let K3s have it.
func (r *resolver) missing(component, alternative string) (why, cure string) {
	if r.bare {
		return "only K3s has", alternative
	}
	return "k3s.disable disables", "remove " + component + " from k3s.disable, or " + alternative
}

var components = []string{"coredns", "servicelb", "traefik", "local-storage", "metrics-server", "runtimes"}

// builtIn are parts of K3s with a setting of their own to disable them.
var builtIn = []string{"kube-proxy", "network-policy", "helm-controller", "cloud-controller", "scheduler"}

func (r k3sSection) kubernetes() {
	k := &r.spec.K3s
	r.bare = kubernetes.Choose(r.Checker, r.spec)
	r.disabled = k.Disable
	r.snapshots()
	r.registries()
	r.names()
	if r.bare {
		return
	}
	r.spec.LocalAPI = netip.MustParseAddrPort("127.0.0.1:6444")
	k.Version = cmp.Or(k.Version, k3s.DefaultVersion)
	r.k3sVersion(&k.Version)
	mirrorSection(r).existing(&k.AirgapDir)
	r.passThrough(&k.ServerConfig, k3s.RoleServer)
	r.passThrough(&k.AgentConfig, k3s.RoleAgent)
	r.kubeletArgs()
	k.CheckEmbeddedRegistry(r)
	for i, d := range k.Disable {
		if !slices.Contains(components, d) {
			cure := decode.OrSuggest(d, components)
			if slices.Contains(builtIn, d) {
				cure = "it is not a packaged component: write server: {disable-" + d + ": true}"
			}
			r.Wrong(&k.Disable[i], fmt.Sprintf("K3s has no component %q to disable", d), cure)
		}
	}
	if k.VIPInterface != "" && !decode.Matches(`^[A-Za-z][A-Za-z0-9_.-]{0,14}$`, k.VIPInterface) {
		r.Wrong(&k.VIPInterface, fmt.Sprintf("%q cannot be an interface's name", k.VIPInterface), "write e.g. eth0, or leave it out")
	}
}

// names checks what the API and services are called.
func (r k3sSection) names() {
	k := &r.spec.K3s
	for i, s := range k.TLSSANs {
		if !isHost(s) {
			r.Wrong(&k.TLSSANs[i], fmt.Sprintf("%q can be neither a name nor an address in a certificate", s), "write e.g. k3s.home.arpa")
		}
	}
	if !decode.IsDNSName(k.ClusterDomain) {
		r.Wrong(&k.ClusterDomain, fmt.Sprintf("%q is not a domain", k.ClusterDomain), "write e.g. cluster.local")
	}
}

// oldestMinor is the oldest Kubernetes 1.x that still gets fixes, as of November 2026.
const oldestMinor = 34

func (r k3sSection) k3sVersion(at *string) {
	v := r.spec.K3s.Version
	if spec.IsK3sVersion(v) {
		switch minor, _ := strconv.Atoi(strings.Split(v, ".")[1]); {
		case minor < oldestMinor:
			r.Warn(at, fmt.Sprintf("K3s %s no longer gets fixes", v), fmt.Sprintf("write v1.%d or newer, e.g. %s", oldestMinor, k3s.DefaultVersion))
		case k3s.CompareVersions(v, k3s.DefaultVersion) > 0:
			r.Warn(at, fmt.Sprintf("K3s %s is newer than %s, the newest that this build knows", v, k3s.DefaultVersion),
				"see that it exists: https://github.com/k3s-io/k3s/releases")
		}
		return
	}
	example := "write an exact release, e.g. " + k3s.DefaultVersion
	switch plain := strings.TrimPrefix(v, "v"); {
	case spec.IsK3sVersion("v" + plain):
		example = "write v" + plain
	case spec.IsK3sVersion("v" + strings.Replace(plain, "-k3s", "+k3s", 1)):
		example = "write v" + strings.Replace(plain, "-k3s", "+k3s", 1)
	case spec.IsK3sVersion("v" + plain + "+k3s1"):
		example = "write v" + plain + "+k3s1"
	}
	r.Wrong(at, fmt.Sprintf("%q is not a K3s release", v), example)
}

// managed are keys of K3s' config.yaml that homelab sets from the rest of the file.
var managed = map[string]string{
	"token": "K3s generates the token, and homelab reads it from the first server", "token-file": "K3s generates the token, and homelab reads it from the first server",
	"agent-token": "each agent joins with a token of its own", "agent-token-file": "each agent joins with a token of its own",
	"server": "nodes join through k3s.vip", "cluster-init": "the first server does it", "tls-san": "write k3s.tlsSANs",
	"cluster-cidr": "write k3s.podCIDR", "service-cidr": "write k3s.serviceCIDR", "cluster-domain": "write k3s.clusterDomain",
	"disable": "write k3s.disable", "flannel-backend": "write k3s.flannelBackend", "secrets-encryption": "write k3s.secretsEncryption", "embedded-registry": "write k3s.embeddedRegistry",
	"node-name": "a node's name is its VM's", "node-ip": "write address of the node, and address6 for IPv6 besides", "node-label": "write labels of the node or pool",
	"node-taint": "write taints of the node or pool", "etcd-snapshot-schedule-cron": "write k3s.snapshots.schedule",
	"etcd-snapshot-retention": "write k3s.snapshots.retention", "etcd-s3": "write k3s.snapshots.s3", "etcd-s3-endpoint": "write k3s.snapshots.s3.endpoint",
	"etcd-s3-bucket": "write k3s.snapshots.s3.bucket", "etcd-s3-region": "write k3s.snapshots.s3.region", "etcd-s3-folder": "write k3s.snapshots.s3.folder",
	"etcd-s3-access-key": "write k3s.snapshots.s3.accessKey with a reference", "etcd-s3-secret-key": "write k3s.snapshots.s3.secretKey with a reference",
	"etcd-s3-session-token": "session tokens end; use a key of its own", "private-registry": "write k3s.registries", "with-node-id": "a node's name is its VM's",
	"cluster-reset": "restoring is not a setting", "cluster-reset-restore-path": "restoring is not a setting", "disable-agent": "every server is a node",
	"data-dir":           decode.DataDisk,
	"datastore-endpoint": "the servers keep etcd themselves", "disable-etcd": "the servers keep etcd themselves", "https-listen-port": "kube-vip and the join use 6443",
}

// passThrough asks package k3s about each further key of config.yaml: servers drop unknown
// keys with a warning, agents exit.
func (r k3sSection) passThrough(at *map[string]any, role k3s.Role) {
	for _, key := range sortedNames(*at) {
		place := r.MemberAt(at, key)
		if why, ours := managed[strings.TrimSuffix(key, "+")]; ours { // key+ appends
			r.Wrong(place, fmt.Sprintf("k3s.%s.%s is set by homelab", role, key), why)
			continue
		}
		node := k3s.Node{Extra: map[string]any{key: (*at)[key]}}
		err := k3s.Server{Node: node, Version: k3s.DefaultVersion}.Check()
		if role == k3s.RoleAgent {
			err = k3s.Agent{Node: node, Version: k3s.DefaultVersion, URL: "https://192.0.2.1:6443"}.Check()
		}
		if err != nil {
			what, cure, _ := strings.Cut(err.Error(), ": ")
			r.Wrong(place, what, cure)
		}
	}
}

// kubeletArgs checks the arguments of kubelet, which all nodes share; those of servers are agent's
// too.
func (r k3sSection) kubeletArgs() {
	raw := &r.spec.K3s
	for _, at := range []*map[string]any{&raw.AgentConfig, &raw.ServerConfig} {
		keys := maps.Clone(*at)
		if keys != nil {
			keys["disable-cloud-controller"] = raw.ServerConfig["disable-cloud-controller"]
		}
		for _, f := range k3s.CheckKubeletArgs(keys) {
			say := r.Wrong
			if f.Allowed {
				say = r.Warn
			}
			say(r.MemberAt(at, "kubelet-arg"), f.What, f.Do)
		}
		r.podAddresses(at)
	}
}

// podAddresses warns of more pods than a node has addresses for: Kubernetes gives each a /24 of IPv4,
// and the bridge has one of it.
func (r k3sSection) podAddresses(at *map[string]any) {
	const most = 253
	_, own := r.spec.K3s.ServerConfig["kube-controller-manager-arg"]
	if n := k3s.MaxPods(*at); n > most && !own && (len(r.spec.K3s.PodCIDR) != 1 || r.spec.K3s.PodCIDR[0].Addr().Is4()) {
		r.Warn(r.MemberAt(at, "kubelet-arg"), fmt.Sprintf("max-pods is %d, and a node has %d addresses for pods, a /24 of k3s.podCIDR", n, most),
			fmt.Sprintf("write max-pods=250; or, before the cluster exists, larger parts: k3s: {server: {kube-controller-manager-arg: [node-cidr-mask-size-ipv4=%d]}}", 32-bits.Len(uint(n+2))))
	}
}

func (r k3sSection) snapshots() {
	raw := &r.spec.K3s.Snapshots
	r.CheckRange(&raw.Retention, "retention", 1, 10000)
	if err := schedule.Check(raw.Schedule); err != nil {
		r.Wrong(&raw.Schedule, fmt.Sprintf("%q is not a schedule: %v", raw.Schedule, err), "write five fields as for cron, e.g. 0 */12 * * *")
	}
	for i, key := range raw.Recipients {
		if _, err := backup.Recipients(key); err != nil {
			what, cure, _ := strings.Cut(err.Error(), ": ")
			r.Wrong(&raw.Recipients[i], what, cure)
		}
	}
	if b := raw.S3; b != nil {
		r.bucketEndpoint(b)
		if b.Bucket == "" {
			r.Wrong(&b.Bucket, "s3 has no bucket", "write bucket: and its name")
		}
		if !r.IsSet(&b.AccessKey) {
			r.Wrong(&b.AccessKey, "s3 has no accessKey", "write accessKey: env:NAME")
		}
		if !r.IsSet(&b.SecretKey) {
			r.Wrong(&b.SecretKey, "s3 has no secretKey", "write secretKey: env:NAME")
		}
	}
}

// bucketEndpoint takes host, host:port, or a URL: K3s itself wants no scheme.
func (r k3sSection) bucketEndpoint(s *spec.S3) {
	host, secure := strings.CutPrefix(s.Endpoint, "https://")
	if !secure {
		host, s.Insecure = strings.CutPrefix(host, "http://")
	}
	s.Endpoint = strings.TrimSuffix(host, "/")
	name, port, hasPort := strings.Cut(s.Endpoint, ":")
	if !isHost(name) || hasPort && !decode.IsPort(port) {
		r.Wrong(&s.Endpoint, fmt.Sprintf("%q is not an S3 service", s.Endpoint), "write its host, e.g. s3.amazonaws.com or minio.home.arpa:9000, with http:// in front if it has no TLS")
	}
}

func (r k3sSection) registries() {
	for i := range r.spec.K3s.Registries {
		raw := &r.spec.K3s.Registries[i]
		host, port, hasPort := strings.Cut(raw.Name, ":")
		if raw.Name != "*" && (!isHost(host) || hasPort && !decode.IsPort(port)) {
			r.Wrong(raw, fmt.Sprintf("%q is not a registry", raw.Name), `write its host and port, e.g. docker.io or registry.home.arpa:5000, or "*" for all`)
		}
		for i := range raw.Endpoints {
			r.IsURL(&raw.Endpoints[i], "https", "http")
		}
		r.registryLogin(raw, "registry "+raw.Name, &raw.Username, &raw.Password, &raw.CAFile)
	}
	mirrorSection(r).registry()
}

// registryLogin completes and checks how nodes log in to a registry, and whom they trust there.
func (r *resolver) registryLogin(at any, what string, username *string, password *spec.SecretRef, ca *string) {
	*ca = r.Existing(ca, *ca, false)
	if r.IsSet(username) != r.IsSet(password) {
		r.Wrong(at, "the login of "+what+" is incomplete", "write both username and password")
	}
}

// cni resolves the pods' network. Cilium replaces flannel, K3s' network policies and
// kube-proxy; this sets the settings of K3s for that. Source: docs.cilium.io, "Installation
// using K3s" (1.20).
func (r k3sSection) cni() {
	k := &r.spec.K3s
	if !k.Cilium() {
		if k.CNI == "flannel" && k.FlannelBackend == "none" {
			r.Wrong(&k.FlannelBackend, "the pod network is flannel, and flannel is disabled", "remove flannelBackend, or write cni: cilium")
		}
		return
	}
	if r.IsSet(&k.FlannelBackend) && k.FlannelBackend != "none" {
		r.Wrong(&k.FlannelBackend, fmt.Sprintf("Cilium and flannel (%s) would both be the pods' network", k.FlannelBackend), "remove flannelBackend: cni: cilium disables flannel")
	}
	k.FlannelBackend = "none"
	if r.bare { // it has no kube-proxy then
		return
	}
	server := map[string]any{}
	maps.Copy(server, k.ServerConfig)
	for _, key := range []string{"disable-network-policy", "disable-kube-proxy"} {
		if on, said := server[key].(bool); said && !on {
			r.Wrong(r.MemberAt(&k.ServerConfig, key), "Cilium replaces what this keeps", "remove "+key)
		}
		server[key] = true
	}
	k.ServerConfig = server
}
