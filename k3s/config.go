package k3s

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/secret"
)

// Paths on a machine, all of them K3s' defaults.
const (
	binary       = "/usr/local/bin/k3s"
	configFile   = "/etc/rancher/k3s/config.yaml"
	tokenFile    = "/etc/rancher/k3s/token" // what this machine joins with; 0600
	manifestsDir = "/var/lib/rancher/k3s/server/manifests"

	// ClusterFile names the cluster that owns this machine. K3s does not read it; [Remove]
	// removes it last.
	ClusterFile = "/etc/rancher/k3s/homelab.cluster"

	serverTokenFile = "/var/lib/rancher/k3s/server/token"
	agentTokenFile  = "/var/lib/rancher/k3s/server/agent-token"
	nodeCertificate = "/var/lib/rancher/k3s/agent/client-kubelet.crt" // what makes an agent known as its node
	kubeconfigFile  = "/etc/rancher/k3s/k3s.yaml"
)

// Role is what K3s is on a machine.
type Role string

// The roles. A machine has one; RoleBoth means that both units are enabled by mistake.
const (
	RoleNone   Role = ""
	RoleServer Role = "server"
	RoleAgent  Role = "agent"
	RoleBoth   Role = "server and agent"
)

// Unit returns the name of the role's systemd unit.
func (r Role) Unit() string {
	if r == RoleAgent {
		return "k3s-agent"
	}
	return "k3s"
}

// Node has the settings of every machine, server or agent.
type Node struct {
	Name        string            // node-name; empty: the hostname
	IPs         []netip.Addr      // node-ip: the node's address; empty: the default route's
	ExternalIPs []netip.Addr      // node-external-ip: of Services' load balancers, and a server's API for pods
	Interface   string            // flannel-iface; empty: the default route's
	Labels      map[string]string // node-label: set when the node registers, and again whenever K3s starts
	Taints      []string          // node-taint, as key=value:Effect: set when the node registers, never changed afterwards
	KubeletArgs []string          // kubelet-arg, as name=value
	ProviderID  string            // of kubelet, beside all other kubelet-arg: set when the node registers, never changed afterwards; empty: k3s://NAME

	Registries []Registry // image registries, mirrors and logins in registries.yaml

	// EmbeddedRegistry makes K3s' embedded registry mirror part of every pull: images come from
	// the nodes that have them, then from the registries. Servers switch it on for the cluster
	// (embedded-registry); an agent learns it when it starts. Needs ports 5001 and 6443 between
	// all nodes (docs.k3s.io/installation/registry-mirror).
	EmbeddedRegistry bool

	// Extra are further keys of config.yaml, passed through. Unknown keys, secrets, and server
	// keys on an agent are errors.
	Extra map[string]any
}

// Server is the wanted K3s of a control plane machine. The first server of a cluster has no
// URL: it creates the cluster, and all others join it.
type Server struct {
	Node
	Version string       // exact, e.g. "v1.36.5+k3s1"
	URL     string       // of the cluster to join, https://VIP:6443; empty on the first server
	Token   secret.Value // for joining; empty on the first server: K3s generates one

	TLSSANs           []string       // tls-san: further names of the API, the VIP among them
	ClusterCIDR       []netip.Prefix // cluster-cidr, of pods; default 10.42.0.0/16; two for both families, the preferred one first
	ServiceCIDR       []netip.Prefix // service-cidr, in the same way; default 10.43.0.0/16
	ClusterDNS        netip.Addr     // cluster-dns; default the tenth address of ServiceCIDR
	ClusterDomain     string         // cluster-domain; default cluster.local
	FlannelBackend    string         // flannel-backend: vxlan (default), host-gw, wireguard-native, none
	FlannelIPv6Masq   bool           // flannel-ipv6-masq: pods with IPv6 reach the outside by their node's address
	Disable           []string       // disable: packaged components, e.g. traefik, servicelb
	SecretsEncryption bool           // secrets-encryption: Secrets are encrypted in etcd
	SnapshotSchedule  string         // etcd-snapshot-schedule-cron; default "0 */12 * * *"
	SnapshotRetention int            // etcd-snapshot-retention; default 5
	S3                *S3            // where K3s copies each snapshot; nil: nowhere

	// Manifests are files for K3s' folder of manifests, by name. K3s applies them when it
	// starts and when they change; a removed file leaves its objects.
	Manifests map[string][]byte

	// Files are files that Extra names, by absolute path, such as an authority for the API server. They are written
	// with config.yaml, when that changes: a file with other contents needs another name. Everybody may read them.
	Files map[string][]byte
}

// Agent is the wanted K3s of a worker.
type Agent struct {
	Node
	Version string // exact, e.g. "v1.36.5+k3s1"
	URL     string // of the cluster to join, https://VIP:6443
}

// YAML returns config.yaml. The token is never in it.
func (s Server) YAML() ([]byte, error) {
	keys, err := s.keys()
	if err != nil {
		return nil, err
	}
	return render(keys)
}

// YAML returns config.yaml. The token is never in it, nor is a server's key.
func (a Agent) YAML() ([]byte, error) {
	keys, err := a.keys()
	if err != nil {
		return nil, err
	}
	return render(keys)
}

// Check returns all mistakes in s.
func (s Server) Check() error { _, err := s.keys(); return err }

// Check returns all mistakes in a.
func (a Agent) Check() error { _, err := a.keys(); return err }

func (s Server) keys() (map[string]any, error) {
	k := s.Node.keys()
	errs := s.Node.check()
	errs = append(errs, checkVersion(s.Version), checkBackend(s.FlannelBackend))
	k["write-kubeconfig-mode"] = "0600"
	if s.URL == "" {
		k["cluster-init"] = true
	} else {
		errs = append(errs, checkURL(s.URL))
		k["server"] = s.URL
	}
	if s.URL != "" || !s.Token.IsZero() {
		k["token-file"] = tokenFile
	}
	put(k, "tls-san", s.TLSSANs)
	putText(k, "cluster-cidr", plain(texts(s.ClusterCIDR)))
	putText(k, "service-cidr", plain(texts(s.ServiceCIDR)))
	putText(k, "cluster-dns", valid(s.ClusterDNS))
	putText(k, "cluster-domain", s.ClusterDomain)
	putText(k, "flannel-backend", s.FlannelBackend)
	putTrue(k, "flannel-ipv6-masq", s.FlannelIPv6Masq)
	put(k, "disable", s.Disable)
	putTrue(k, "secrets-encryption", s.SecretsEncryption)
	putTrue(k, "embedded-registry", s.EmbeddedRegistry)
	putText(k, "etcd-snapshot-schedule-cron", s.SnapshotSchedule)
	if s.SnapshotRetention > 0 {
		k["etcd-snapshot-retention"] = s.SnapshotRetention
	}
	s.S3.addKeys(k)
	errs = append(errs, s.S3.check())
	errs = append(errs, checkKeys(RoleServer, s.Extra, k)...)
	for name := range s.Manifests {
		if !manifestName.MatchString(name) {
			errs = append(errs, fmt.Errorf("manifest %q: write a plain file name that ends in .yaml", name))
		}
	}
	maps.Copy(k, s.Extra)
	s.addProviderID(k)
	return k, errors.Join(errs...)
}

func (a Agent) keys() (map[string]any, error) {
	k := a.Node.keys()
	k["server"] = a.URL
	k["token-file"] = tokenFile
	errs := append(a.Node.check(), checkVersion(a.Version), checkURL(a.URL))
	errs = append(errs, checkKeys(RoleAgent, a.Extra, k)...)
	maps.Copy(k, a.Extra)
	a.addProviderID(k)
	return k, errors.Join(errs...)
}

func (n Node) keys() map[string]any {
	k := map[string]any{}
	putText(k, "node-name", n.Name)
	put(k, "node-ip", texts(n.IPs))
	put(k, "node-external-ip", texts(n.ExternalIPs))
	putText(k, "flannel-iface", n.Interface)
	labels := make([]string, 0, len(n.Labels))
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		labels = append(labels, key+"="+n.Labels[key])
	}
	put(k, "node-label", labels)
	put(k, "node-taint", n.Taints)
	put(k, "kubelet-arg", n.KubeletArgs)
	return k
}

var (
	manifestName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*\.yaml$`)
	nodeName     = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	taintText    = regexp.MustCompile(`^[^=:\s]+(=[^=:\s]*)?:(NoSchedule|PreferNoSchedule|NoExecute)$`)
)

// selfLabels are the labels in Kubernetes' own namespaces that a kubelet may give its own node
// (k8s.io/kubelet/pkg/apis/well_known_labels.go); with others K3s exits.
var selfLabels = []string{
	"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch",
	"topology.kubernetes.io/zone", "topology.kubernetes.io/region", "node.kubernetes.io/instance-type",
	"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
}

func (n Node) check() []error {
	var errs []error
	if _, _, err := n.registries(); err != nil {
		errs = append(errs, err)
	}
	if n.Name != "" && !nodeName.MatchString(n.Name) {
		errs = append(errs, fmt.Errorf("node name %q: write lower-case letters, digits, '-' and '.'", n.Name))
	}
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		prefix, _, _ := strings.Cut(key, "/")
		own := strings.HasSuffix(prefix, "kubernetes.io") || strings.HasSuffix(prefix, "k8s.io")
		allowed := slices.Contains(selfLabels, key) || strings.HasSuffix(prefix, "kubelet.kubernetes.io") || strings.HasSuffix(prefix, "node.kubernetes.io")
		if own && !allowed {
			errs = append(errs, fmt.Errorf("node-label %s: a kubelet may not give itself labels of %s, and K3s would not start; set it through the API once the node is there", key, prefix))
		}
	}
	for _, t := range n.Taints {
		if !taintText.MatchString(t) {
			errs = append(errs, fmt.Errorf("node-taint %q: write key=value:Effect with Effect one of NoSchedule, PreferNoSchedule, NoExecute", t))
		}
	}
	for _, a := range n.KubeletArgs {
		if strings.HasPrefix(a, "-") || !strings.Contains(a, "=") {
			errs = append(errs, fmt.Errorf("kubelet-arg %q: write name=value without dashes", a))
		}
	}
	return errs
}

func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Path != "" {
		return fmt.Errorf("server URL %q: write https://ADDRESS:6443, with the VIP as the address if there is one", s)
	}
	return nil
}

func checkBackend(s string) error {
	backends := []string{"", "vxlan", "host-gw", "wireguard-native", "none"}
	if slices.Contains(backends, s) {
		return nil
	}
	return fmt.Errorf("flannel-backend %q: write one of %s", s, strings.Join(backends[1:], ", "))
}

const configHead = "# Written by homelab, which writes it again when it differs.\n"

func render(keys map[string]any) ([]byte, error) {
	b, err := yaml.Marshal(keys)
	if err != nil {
		return nil, fmt.Errorf("k3s config.yaml: %w", err)
	}
	return append([]byte(configHead), b...), nil
}

// valid returns v as text; the zero address or prefix is empty.
func valid(v interface {
	IsValid() bool
	String() string
}) string {
	if !v.IsValid() {
		return ""
	}
	return v.String()
}

func texts[T fmt.Stringer](in []T) []string {
	out := make([]string, len(in))
	for i, v := range in {
		out[i] = v.String()
	}
	return out
}

func put(k map[string]any, key string, list []string) {
	if len(list) > 0 {
		k[key] = list
	}
}

func putText(k map[string]any, key, v string) {
	if v != "" {
		k[key] = v
	}
}

func putTrue(k map[string]any, key string, v bool) {
	if v {
		k[key] = true
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
