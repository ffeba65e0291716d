package addon

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/verify"
	"github.com/cps-gpu/homelab/secret"
)

const rancherNamespace = "cattle-system"

// minBootstrap is the minimum length of a password in Rancher: setting password-min-length in
// its pkg/settings/setting.go.
const minBootstrap = 12

// rancherTLS is the Secret with Rancher's certificate. Its chart requires this name.
const rancherTLS = "tls-rancher-ingress"

// Rancher provides the management UI of the cluster, and Fleet. Do not install another Fleet
// beside it.
//
// The first password is in the Secret cattle-system/bootstrap-secret, where Rancher reads it,
// and not in the values, which the release stores.
type Rancher struct {
	*spec.Rancher
	Platform *spec.Platform // with the login by which people sign in to it; nil: none
	Mirrored bool           // there is a mirror instead of the internet
}

func (r Rancher) Info() Info {
	return Info{
		Name: "rancher", Section: "rancher", On: r.Rancher != nil,
		Namespace: rancherNamespace,
		Chart: chart.Pin{
			Chart: "rancher", Repo: "https://releases.rancher.com/server-charts/latest",
			Version: "2.15.2", App: "v2.15.2", Kubernetes: ">=1.34.0-0 <1.37.0-0", Compared: "2026-10-09",
			Source: "pinned: image references of September 2026; read: 2.15.0 of 2026-07-30, Chart.yaml says <1.37, the Fleet it brings says >=1.34",
			// kubeVersion of its chart at v2.15.0, v2.14.4, v2.13.8, v2.12.12 and v2.11.16, and fleetVersion
			// in build.yaml there. The lower bounds are those of the Fleet that it brings. Read 2026-11-22.
			Lines: []chart.Line{
				{Minor: "2.15", Kubernetes: ">=1.34.0-0 <1.37.0-0", Fleet: "0.16"},
				{Minor: "2.14", Kubernetes: ">=1.33.0-0 <1.36.0-0", Fleet: "0.15"},
				{Minor: "2.13", Kubernetes: ">=1.32.0-0 <1.35.0-0", Fleet: "0.14"},
				{Minor: "2.12", Kubernetes: ">=1.28.0-0 <1.34.0-0", Fleet: "0.13"},
				{Minor: "2.11", Kubernetes: ">=1.28.0-0 <1.33.0-0", Fleet: "0.12"},
			},
		},
		NeverInFleet: "Rancher brings Fleet, so it comes first, and would be deleted with its bundle",
	}
}

func (r Rancher) Make(s *Site) (Recipe, error) {
	bootstrap, err := r.bootstrap(s)
	if err := errors.Join(requireSet("rancher", "hostname", r.Hostname), err); err != nil {
		return Recipe{}, err
	}
	ca, err := Authority(s.TLS)
	if err != nil {
		return Recipe{}, err
	}
	p := Recipe{
		Part: chart.Part{Name: "rancher", Keep: true}, Fleet: true, Replaces: []string{"fleet", "fleet-crd"},
		Unlisted: []string{"Rancher installs further charts (webhook, Fleet, Turtles): rancher-images.txt of its release on GitHub lists their images"},
		Web:      &Web{Title: "Rancher", URL: "https://" + r.Hostname, Checked: true},
		Verify:   []verify.Check{{Name: "its page opens by its name", Try: r.opens}},
	}
	if r.Bootstrap.IsZero() {
		p.Passwords = []Password{{"first login of admin to Rancher", rancherNamespace, "bootstrap-secret", "bootstrapPassword"}}
	}
	v := values{"hostname": r.Hostname, "replicas": r.Replicas}
	if r.Mirrored {
		v["useBundledSystemChart"] = true // of its image, instead of Rancher's repositories on GitHub
	}
	source := values{"source": "secret"}
	switch {
	case s.TLS == nil || s.TLS.Source == spec.TLSSelfSigned: // its chart has cert-manager make a CA for it
		source["source"] = "rancher"
		p.Needs = []string{"cert-manager"}
	case s.issued():
		p.Needs = []string{"cert-manager", "issuer"}
	}
	signed := s.issued() && s.TLS.Source != spec.TLSSelfSigned
	annotations := func(v values, key string) values {
		if signed {
			v[key] = values{"cert-manager.io/cluster-issuer": s.TLS.Issuer}
		}
		return v
	}
	if s.gateway() != nil {
		v["networkExposure"] = values{"type": "gateway"}
		class := annotations(values{"name": s.Ingress.Class, "tls": source}, "annotations")
		if s.Ingress.ByCilium() { // the chart's ports are Traefik's
			class["ports"] = values{"http": httpPort, "https": httpsPort}
		}
		v["gateway"] = values{"gatewayClass": class}
		// Some templates use the Ingress' source even then (issuer-rancher.yaml,
		// deployment.yaml).
		v["ingress"] = values{"tls": source}
	} else {
		v["ingress"] = annotations(values{"ingressClassName": s.Ingress.Class, "tls": source}, "extraAnnotations")
	}
	if len(ca) > 0 {
		v["privateCA"] = true
		p.Secrets = append(p.Secrets, chart.Secret{Namespace: rancherNamespace, Name: "tls-ca",
			Data: map[string]secret.Value{"cacerts.pem": secret.New(string(ca))}})
	}
	if trusted, err := r.trusts(); err != nil {
		return Recipe{}, err
	} else if len(trusted) > 0 {
		v["additionalTrustedCAs"] = true
		p.Secrets = append(p.Secrets, chart.Secret{Namespace: rancherNamespace, Name: "tls-ca-additional",
			Data: map[string]secret.Value{"ca-additional.pem": secret.New(string(trusted))}})
	}
	if list := s.tolerations(); len(list) > 0 {
		v["extraTolerations"] = list
	}
	p.Release = s.release(r.Info(), v)
	p.Release.Version = cmp.Or(r.Version, p.Release.Version)
	p.Secrets = append(p.Secrets, bootstrap)
	s.requireParts(&p, "ingress")
	if s.TLS != nil && s.TLS.Source == spec.TLSSecret {
		p.Late = withCertificate(p.Part, s.TLS.Secret, p.Release.Namespace, rancherTLS)
	}
	return p, nil
}

// opens opens its page. Its chart may have an authority of its own (templates/issuer-rancher.yaml), which cert-manager
// writes beside the certificate.
func (r Rancher) opens(ctx context.Context, c verify.Cluster) (string, error) {
	its, err := c.Kube.SecretData(ctx, rancherNamespace, rancherTLS)
	if err != nil && !errors.Is(err, kube.ErrNotFound) {
		return "", err
	}
	if c.Roots != nil && len(its["ca.crt"]) > 0 {
		c.Roots = c.Roots.Clone()
		c.Roots.AppendCertsFromPEM(its["ca.crt"])
	}
	return verify.WebPage("https://"+r.Hostname, "")(ctx, c)
}

// trusts is the authority of the certificate of a login's provider.
func (r Rancher) trusts() ([]byte, error) {
	if r.Platform == nil || !r.Platform.RancherSignsIn() {
		return nil, nil
	}
	return issuerAuthority(r.Platform)
}

func (r Rancher) bootstrap(s *Site) (chart.Secret, error) {
	out := chart.Secret{Namespace: rancherNamespace, Name: "bootstrap-secret"}
	if r.Bootstrap.IsZero() {
		out.Generate = map[string]int{"bootstrapPassword": 16}
		return out, nil
	}
	password, err := s.Secret("rancher.bootstrap", r.Bootstrap)
	if n := len(password.Reveal()); err == nil && n < minBootstrap {
		err = fmt.Errorf("rancher: the bootstrap password has %d characters: Rancher requires %d or more", n, minBootstrap)
	}
	out.Data = map[string]secret.Value{"bootstrapPassword": password}
	return out, err
}
