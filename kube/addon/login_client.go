package addon

import (
	"context"
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

// client is a program that people sign in to.
type client struct{ id, title, redirect string }

// loginClients are the programs that people sign in to by the login.
func loginClients(p *spec.Platform, s *Site) []client {
	var out []client
	if p.HubSignsIn() {
		out = append(out, client{spec.LoginHub, "Notebooks", s.scheme() + p.Hub.Hostname + "/hub/oauth_callback"})
	}
	if p.GrafanaSignsIn() {
		out = append(out, client{spec.LoginGrafana, "Grafana", Monitoring{Monitoring: p.Monitoring}.root(s) + "/login/generic_oauth"})
	}
	if p.RancherSignsIn() {
		out = append(out, client{spec.LoginRancher, "Rancher", "https://" + p.Rancher.Hostname + rancherCallback})
	}
	if p.ModelChat != nil {
		out = append(out, client{spec.LoginChat, "Chat", s.scheme() + p.ModelChat.Hostname + proxyCallback})
	}
	if p.ArgoCDSignsIn() {
		out = append(out, client{spec.LoginArgoCD, "Argo CD", s.scheme() + p.ArgoCD.Hostname + proxyCallback})
	}
	return out
}

// kubeloginCallbacks are where kubelogin listens.
func kubeloginCallbacks() []string {
	return []string{"http://localhost:8000", "http://localhost:18000"}
}

// ClientSecret is what a program proves itself with to the login: of the file for a provider, else made in the cluster
// with Dex, from where it comes late.
func (s *Site) ClientSecret(l *spec.Login, id string) (func(context.Context, *kube.Client) (secret.Value, error), error) {
	if l.Provider == nil {
		return func(ctx context.Context, c *kube.Client) (secret.Value, error) { return dexSecret(ctx, c, id) }, nil
	}
	its, err := s.Secret("login.provider: the client secret of "+id, l.Client(id).ClientSecret)
	return func(context.Context, *kube.Client) (secret.Value, error) { return its, err }, err
}

func dexSecret(ctx context.Context, c *kube.Client, id string) (secret.Value, error) {
	data, err := c.SecretData(ctx, LoginName, dexClients)
	if err != nil {
		return secret.Value{}, fmt.Errorf("the secret of %s at Dex: %w", id, err)
	}
	if len(data[id]) == 0 {
		return secret.Value{}, fmt.Errorf("the secret of %s at Dex: %s/%s has no %s", id, LoginName, dexClients, id)
	}
	return secret.New(string(data[id])), nil
}

// loginCA is the key of a Secret with the authority of a provider's certificate.
const loginCA = "ca.crt"

// issuerAuthority is the authority that programs trust to reach the issuer, if no public one signed its certificate.
// They ask Dex inside the cluster.
func issuerAuthority(p *spec.Platform) ([]byte, error) {
	return File("login.provider.ca", p.Issuer().CA)
}

// LoginAuthority is the authority of the certificate at the issuer's public name; nil if a public one signed it, or one
// that is made in the cluster.
func LoginAuthority(p *spec.Platform) ([]byte, error) {
	if p.Login.Provider != nil {
		return issuerAuthority(p)
	}
	return Authority(p.TLS)
}

// late builds a part again with values of the running cluster.
type late = func(context.Context, *kube.Client) (chart.Part, error)

// withLogin adds to a part a Secret with what a client proves itself with to the login, below key, and what else the
// program needs to know of it.
func (s *Site) withLogin(part chart.Part, first late, l *spec.Login, id string, in chart.Secret, key string,
	more func(context.Context) (map[string]secret.Value, error),
) (late, error) {
	proof, err := s.ClientSecret(l, id)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, client *kube.Client) (chart.Part, error) {
		out := part
		if first != nil {
			if out, err = first(ctx, client); err != nil {
				return out, err
			}
		}
		made := in
		if made.Data, err = more(ctx); err != nil {
			return out, err
		}
		its, err := proof(ctx, client)
		if made.Data == nil {
			made.Data = map[string]secret.Value{}
		}
		made.Data[key] = its
		out.Secrets = append(slices.Clone(out.Secrets), made)
		return out, err
	}, nil
}
