package k3s

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/secret"
)

// registriesFile tells containerd how to reach image registries; it has mode 0600, because it
// contains passwords. K3s reads it at start.
const registriesFile = "/etc/rancher/k3s/registries.yaml"

// registryCADir contains the authorities of registries, by digest.
const registryCADir = "/etc/rancher/k3s/registries.d"

// Registry configures how a machine reaches an image registry.
type Registry struct {
	Name      string            // as in image names, e.g. docker.io or registry.home.arpa:5000; "*" for all
	Endpoints []string          // URLs of mirrors, asked first, in order; may be empty
	Rewrite   map[string]string // image name patterns, and their replacements at the endpoints
	Username  string            // login at the endpoints, or at the registry where it has none; empty for none
	Password  secret.Value
	CA        []byte // PEM of the authority of their certificates; empty for the system's roots
	Insecure  bool   // do not check their certificates
}

// hosts returns the hosts that login and TLS settings apply to: a mirror's password is not
// sent to the registry that it mirrors.
func (r Registry) hosts() ([]string, error) {
	if len(r.Endpoints) == 0 {
		return []string{r.Name}, nil
	}
	var out []string
	for _, e := range r.Endpoints {
		u, err := url.Parse(e)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("registry %s: an endpoint is not a URL: write https://HOST", r.Name)
		}
		out = append(out, u.Host)
	}
	return out, nil
}

func (r Registry) caFile() string {
	sum := sha256.Sum256(r.CA)
	return registryCADir + "/" + hex.EncodeToString(sum[:6]) + ".pem"
}

// config is a registry's entry under configs; nil if it is empty.
func (r Registry) config() map[string]any {
	out, tls := map[string]any{}, map[string]any{}
	if r.Username != "" {
		out["auth"] = map[string]any{"username": r.Username, "password": r.Password.Reveal()}
	}
	if len(r.CA) > 0 {
		tls["ca_file"] = r.caFile()
	}
	putTrue(tls, "insecure_skip_verify", r.Insecure)
	if len(tls) > 0 {
		out["tls"] = tls
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// registries renders registries.yaml as a secret, and the files that it refers to, by path.
func (n Node) registries() (secret.Value, map[string][]byte, error) {
	all := n.Registries
	if n.EmbeddedRegistry && !slices.ContainsFunc(all, func(r Registry) bool { return r.Name == "*" }) {
		all = append(slices.Clone(all), Registry{Name: "*"})
	}
	if len(all) == 0 {
		return secret.Value{}, nil, nil
	}
	mirrors, configs, files := map[string]any{}, map[string]any{}, map[string][]byte{}
	var errs []error
	for _, r := range all {
		// The embedded mirror has images of registries below mirrors. "*" is no such entry for one
		// that has a login of its own (getHostConfigs, pkg/agent/containerd/config.go).
		if len(r.Endpoints) > 0 || len(r.Rewrite) > 0 || n.EmbeddedRegistry {
			m := map[string]any{}
			put(m, "endpoint", r.Endpoints)
			if len(r.Rewrite) > 0 {
				m["rewrite"] = r.Rewrite
			}
			mirrors[r.Name] = m
		}
		if (r.Username == "") != r.Password.IsZero() {
			errs = append(errs, fmt.Errorf("registry %s: username and password go together", r.Name))
		}
		hosts, err := r.hosts()
		errs = append(errs, err)
		if config := r.config(); config != nil {
			for _, h := range hosts {
				configs[h] = config
			}
		}
		if len(r.CA) > 0 {
			files[r.caFile()] = r.CA
		}
	}
	b, err := yaml.Marshal(map[string]any{"mirrors": mirrors, "configs": configs})
	if err := errors.Join(append(errs, err)...); err != nil {
		return secret.Value{}, nil, err
	}
	return secret.New(configHead + string(b)), files, nil
}

// registriesText is the wanted contents of the file. An existing file that is not wanted is
// emptied.
func (p plan) registriesText() string {
	if p.registries.IsZero() {
		return configHead
	}
	return p.registries.Reveal()
}

func (p plan) registriesSum() string {
	sum := sha256.Sum256([]byte(p.registriesText()))
	return hex.EncodeToString(sum[:])
}

// registriesDiff compares digests and shows none, because a short password could be guessed
// from its digest.
func (p plan) registriesDiff(have State) converge.Diff {
	f := converge.Field{Path: "registries.yaml", Effect: converge.Restart}
	switch want := !p.registries.IsZero(); {
	case have.Registries == p.registriesSum(), !want && have.Registries == "":
		return nil
	case !want:
		f.Have = "present"
	case have.Registries == "":
		f.Want = "as configured"
	default:
		f.Have, f.Want = "other contents", "as configured"
	}
	return converge.Diff{f}
}
