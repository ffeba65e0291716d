package kubeadm

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Cluster is what all machines of a cluster agree on.
type Cluster struct {
	Name     string         // in kubeconfigs
	Version  string         // an exact release, e.g. v1.36.5
	Endpoint netip.AddrPort // where all machines reach the API
	VIP      *VIP           // nil: the endpoint is the only server's own address
	SANs     []string       // further names and addresses for the API's certificate
	Pods     []netip.Prefix // networks of pods, at most one of each family
	Services []netip.Prefix // networks of services, of the same families
	Domain   string         // DNS domain of services; empty: cluster.local
	Proxy    bool           // install kube-proxy, which some networks of pods replace
}

// Node is one machine.
type Node struct {
	Name       string
	Address    netip.Addr        // of its kubelet, and of a server's API; not valid: that of the default route
	ProviderID string            // "": none
	Labels     map[string]string // that it has when it registers
	Taints     []Taint           // the same; a server has none besides these
	Runtime    Runtime           // that its kubelet asks; "": containerd
}

// Taint is a taint of a Node.
type Taint struct {
	Key    string `yaml:"key"`
	Value  string `yaml:"value,omitempty"`
	Effect string `yaml:"effect"` // e.g. NoSchedule
}

const apiVersion = "kubeadm.k8s.io/v1beta4"

// arg is an argument of a component: since v1beta4 a list, which keeps their order.
type arg struct {
	Name  string `yaml:"name"`
	Value string `yaml:"value"`
}

type registration struct {
	Name      string  `yaml:"name"`
	CRISocket string  `yaml:"criSocket"`
	Taints    []Taint `yaml:"taints"` // an empty list: not the one that keeps pods off servers
	Args      []arg   `yaml:"kubeletExtraArgs,omitempty"`
}

type initConfiguration struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	// kubeadm prints the first token, which nobody uses: it ends after a minute (apis/bootstraptoken/v1/types.go).
	BootstrapTokens []map[string]string `yaml:"bootstrapTokens"`
	CertificateKey  string              `yaml:"certificateKey,omitempty"` // a secret, which only upload-certs gets
	Registration    registration        `yaml:"nodeRegistration"`
	Local           map[string]string   `yaml:"localAPIEndpoint,omitempty"`
}

type clusterConfiguration struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Name       string `yaml:"clusterName"`
	Version    string `yaml:"kubernetesVersion"`
	Endpoint   string `yaml:"controlPlaneEndpoint"`
	Networking struct {
		Pods     string `yaml:"podSubnet"`
		Services string `yaml:"serviceSubnet"`
		Domain   string `yaml:"dnsDomain"`
	} `yaml:"networking"`
	APIServer struct {
		SANs []string `yaml:"certSANs,omitempty"`
	} `yaml:"apiServer"`
	Proxy struct {
		Disabled bool `yaml:"disabled"`
	} `yaml:"proxy"`
}

type joinConfiguration struct {
	APIVersion   string       `yaml:"apiVersion"`
	Kind         string       `yaml:"kind"`
	Registration registration `yaml:"nodeRegistration"`
	Discovery    struct {
		Token struct {
			Token    string   `yaml:"token"`
			Endpoint string   `yaml:"apiServerEndpoint"`
			Hashes   []string `yaml:"caCertHashes"`
		} `yaml:"bootstrapToken"`
	} `yaml:"discovery"`
	ControlPlane *joinControlPlane `yaml:"controlPlane,omitempty"` // nil: an agent
}

type joinControlPlane struct {
	Local map[string]string `yaml:"localAPIEndpoint,omitempty"`
	Key   string            `yaml:"certificateKey"`
}

// Init is the configuration with which a machine becomes the first server.
func (c Cluster) Init(n Node) ([]byte, error) {
	if err := errors.Join(c.check(), n.check()); err != nil {
		return nil, err
	}
	in := initConfiguration{APIVersion: apiVersion, Kind: "InitConfiguration", BootstrapTokens: []map[string]string{{"ttl": "1m0s"}},
		Registration: n.registration(), Local: n.local()}
	return documents(in, c.configuration())
}

// uploading is the configuration with which a server encrypts what another one needs to join. It has a secret.
func (c Cluster) uploading(n Node, key string) ([]byte, error) {
	in := initConfiguration{APIVersion: apiVersion, Kind: "InitConfiguration", BootstrapTokens: []map[string]string{{"ttl": "1m0s"}},
		CertificateKey: key, Registration: n.registration(), Local: n.local()}
	return documents(in, c.configuration())
}

// join is the configuration with which a machine becomes a member: a server with a [Token] for servers, else an agent.
// It has secrets.
func (c Cluster) join(n Node, t Token) ([]byte, error) {
	if err := errors.Join(c.check(), n.check()); err != nil {
		return nil, err
	}
	j := joinConfiguration{APIVersion: apiVersion, Kind: "JoinConfiguration", Registration: n.registration()}
	j.Discovery.Token.Token, j.Discovery.Token.Endpoint, j.Discovery.Token.Hashes = t.secret, c.Endpoint.String(), []string{t.authority}
	if t.key != "" {
		j.ControlPlane = &joinControlPlane{Local: n.local(), Key: t.key}
	}
	return documents(j)
}

// local is the address of a server's own API server.
func (n Node) local() map[string]string {
	if !n.Address.IsValid() {
		return nil
	}
	return map[string]string{"advertiseAddress": n.Address.String()}
}

func (c Cluster) configuration() clusterConfiguration {
	k := clusterConfiguration{APIVersion: apiVersion, Kind: "ClusterConfiguration", Name: c.Name, Version: c.Version, Endpoint: c.Endpoint.String()}
	k.Networking.Pods, k.Networking.Services, k.Networking.Domain = commas(c.Pods), commas(c.Services), c.Domain
	if k.Networking.Domain == "" {
		k.Networking.Domain = "cluster.local"
	}
	k.APIServer.SANs = c.SANs
	k.Proxy.Disabled = !c.Proxy
	return k
}

func (c Cluster) check() error {
	switch {
	case !IsVersion(c.Version):
		return fmt.Errorf("%q is not a release of Kubernetes: write e.g. v1.36.5", c.Version)
	case !c.Endpoint.IsValid():
		return errors.New("the cluster has no endpoint: write where machines reach its API")
	case len(c.Pods) == 0 || len(c.Services) == 0:
		return errors.New("the cluster needs networks of pods and of services")
	}
	return nil
}

func (n Node) check() error {
	if n.Name == "" {
		return errors.New("a node needs a name")
	}
	return nil
}

func (n Node) registration() registration {
	r := registration{Name: n.Name, CRISocket: n.Runtime.socket(), Taints: append([]Taint{}, n.Taints...)}
	add := func(name, value string) {
		if value != "" {
			r.Args = append(r.Args, arg{name, value})
		}
	}
	if n.Address.IsValid() {
		add("node-ip", n.Address.String())
	}
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		labels = append(labels, key+"="+n.Labels[key])
	}
	add("node-labels", strings.Join(labels, ","))
	add("provider-id", n.ProviderID)
	return r
}

func commas(networks []netip.Prefix) string {
	var out []string
	for _, p := range networks {
		out = append(out, p.String())
	}
	return strings.Join(out, ",")
}

func documents(all ...any) ([]byte, error) {
	var out bytes.Buffer
	for _, doc := range all {
		text, err := yaml.Marshal(doc)
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes(), nil
}
