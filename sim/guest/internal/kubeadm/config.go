package kubeadm

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/plane"
)

// documents are those of a configuration, with the keys that are played; another key is an error, where kubeadm warns
// and goes on (util/config/strict).
type documents struct {
	init    initConfiguration
	cluster clusterConfiguration
	joining joinConfiguration
	verb    string
}

type registration struct {
	Name      string  `yaml:"name"`
	CRISocket string  `yaml:"criSocket"`
	Taints    []taint `yaml:"taints"`
	Args      []struct {
		Name  string `yaml:"name"`
		Value string `yaml:"value"`
	} `yaml:"kubeletExtraArgs"`
}

type taint struct {
	Key    string `yaml:"key"`
	Value  string `yaml:"value"`
	Effect string `yaml:"effect"`
}

type initConfiguration struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Tokens     []struct {
		TTL string `yaml:"ttl"`
	} `yaml:"bootstrapTokens"`
	CertificateKey string       `yaml:"certificateKey"`
	Registration   registration `yaml:"nodeRegistration"`
	Local          endpoint     `yaml:"localAPIEndpoint"`
}

type endpoint struct {
	Address string `yaml:"advertiseAddress"`
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
		SANs []string `yaml:"certSANs"`
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
	ControlPlane *struct {
		Local          endpoint `yaml:"localAPIEndpoint"`
		CertificateKey string   `yaml:"certificateKey"`
	} `yaml:"controlPlane"`
}

func readConfig(p *machine.Proc, verb, file string) (*documents, error) {
	data, err := p.FS.ReadFile(p.Abs(file))
	if err != nil {
		return nil, fmt.Errorf("unable to read config from %q: open %[1]s: no such file or directory", file)
	}
	d := &documents{verb: verb}
	for doc := range strings.SplitSeq("\n"+string(data), "\n---\n") {
		var head struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string `yaml:"kind"`
		}
		if strings.TrimSpace(doc) == "" {
			continue
		}
		if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
			return nil, err
		}
		var to any
		switch head.Kind {
		case "InitConfiguration":
			to = &d.init
		case "ClusterConfiguration":
			to = &d.cluster
		case "JoinConfiguration":
			to = &d.joining
		}
		if to == nil || head.APIVersion != "kubeadm.k8s.io/v1beta4" {
			return nil, fmt.Errorf("no kind %q is registered for version %q", head.Kind, head.APIVersion)
		}
		if err := yaml.UnmarshalWithOptions([]byte(doc), to, yaml.Strict()); err != nil {
			return nil, fmt.Errorf("strict decoding error: %w", err)
		}
	}
	if verb == "join" && d.joining.Kind == "" || verb == "init" && d.init.Kind == "" {
		return nil, fmt.Errorf("no %sConfiguration kind was found in the YAML file", map[string]string{"join": "Join", "init": "Init or Cluster"}[verb])
	}
	for _, key := range []string{d.init.CertificateKey, d.certificateKey()} {
		if raw, err := hex.DecodeString(key); err != nil || key != "" && len(raw) != 32 {
			return nil, fmt.Errorf("certificateKey: Invalid value: %q: invalid certificate key size %d, the key must be an AES key of size 32", key, len(raw))
		}
	}
	return d, nil
}

func (d *documents) certificateKey() string {
	if d.joining.ControlPlane == nil {
		return ""
	}
	return d.joining.ControlPlane.CertificateKey
}

// isServer reports whether the machine becomes one.
func (d *documents) isServer() bool { return d.verb == "init" || d.joining.ControlPlane != nil }

func (d *documents) registration() registration {
	if d.verb == "join" {
		return d.joining.Registration
	}
	return d.init.Registration
}

// flags is the line that kubeadm writes for kubelet.
func (r registration) flags() string {
	flags := []string{}
	for _, a := range r.Args {
		flags = append(flags, "--"+a.Name+"="+a.Value)
	}
	if r.Name != "" {
		flags = append(flags, "--hostname-override="+r.Name)
	}
	var taints []string
	for _, t := range r.Taints {
		taints = append(taints, t.Key+"="+t.Value+":"+t.Effect)
	}
	if len(taints) > 0 {
		flags = append(flags, "--register-with-taints="+strings.Join(taints, ","))
	}
	return "KUBELET_KUBEADM_ARGS=\"" + strings.Join(flags, " ") + "\"\n"
}

// plane is what the control plane is made of.
func (c clusterConfiguration) plane(node string, own netip.Addr) (plane.Config, error) {
	out := plane.Config{
		DNSDomain: c.Networking.Domain, Version: c.Version, PlainSecrets: true,
		Disable: []string{"coredns", "servicelb", "traefik", "local-storage", "metrics-server", "runtimes"},
		TLSSANs: append([]string{node, own.String()}, c.APIServer.SANs...),
	}
	if host, _, ok := strings.Cut(c.Endpoint, ":"); ok {
		out.TLSSANs = append(out.TLSSANs, host)
	}
	for text, to := range map[string][]*netip.Prefix{
		c.Networking.Services: {&out.ServiceCIDR, &out.SecondCIDRs[0]}, c.Networking.Pods: {&out.PodCIDR, &out.SecondCIDRs[1]},
	} {
		for i, one := range strings.Split(text, ",") {
			p, err := netip.ParsePrefix(one)
			if err != nil || i >= len(to) {
				return out, fmt.Errorf("networking: Invalid value: %q: couldn't parse subnet", text)
			}
			*to[i] = p
		}
	}
	return out, nil
}
