package config

import (
	"fmt"
	"net/url"

	"github.com/siderolabs/talos/pkg/machinery/config/config"
	"github.com/siderolabs/talos/pkg/machinery/config/types/cri"
	"github.com/siderolabs/talos/pkg/machinery/config/types/meta"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/limit"
)

// registries are the mirrors of image registries, and the logins and authorities of their hosts: a mirror's
// password is not sent to the registry that it mirrors.
func registries(s *spec.Spec) ([]config.Document, error) {
	var docs []config.Document
	seen := map[string]bool{}
	for _, r := range s.K3s.Registries {
		hosts := []string{r.Name}
		if len(r.Endpoints) > 0 {
			mirror := cri.NewRegistryMirrorConfigV1Alpha1(r.Name)
			hosts = nil
			for _, e := range r.Endpoints {
				u, err := url.Parse(e)
				if err != nil || u.Host == "" {
					return nil, fmt.Errorf("talos.registries.%s: an endpoint is not a URL: write https://HOST", r.Name)
				}
				mirror.RegistryEndpoints = append(mirror.RegistryEndpoints, cri.RegistryEndpoint{EndpointURL: meta.URL{URL: u}})
				hosts = append(hosts, u.Host)
			}
			docs = append(docs, mirror)
		}
		for _, host := range hosts {
			access, err := access(r, host)
			if err != nil {
				return nil, err
			}
			if len(access) > 0 && seen[host] {
				return nil, fmt.Errorf("talos.registries: %s has a login or an authority in two registries: Talos keeps one for each host", host)
			}
			seen[host] = seen[host] || len(access) > 0
			docs = append(docs, access...)
		}
	}
	return docs, nil
}

func access(r spec.Registry, host string) ([]config.Document, error) {
	var docs []config.Document
	if r.Username != "" {
		password, err := r.Password.Resolve()
		if err != nil {
			return nil, fmt.Errorf("talos.registries.%s.password: %w", r.Name, err)
		}
		login := cri.NewRegistryAuthConfigV1Alpha1(host)
		login.RegistryUsername, login.RegistryPassword = r.Username, password.Reveal()
		docs = append(docs, login)
	}
	if r.CAFile == "" && !r.Insecure {
		return docs, nil
	}
	tls := cri.NewRegistryTLSConfigV1Alpha1(host)
	if r.Insecure {
		tls.TLSInsecureSkipVerify = new(true)
	}
	if r.CAFile != "" {
		ca, err := limit.File(r.CAFile, limit.Named)
		if err != nil {
			return nil, fmt.Errorf("talos.registries.%s.ca: %w", r.Name, err)
		}
		tls.TLSCA = string(ca)
	}
	return append(docs, tls), nil
}
