package addon

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
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
type Rancher struct{ *spec.Rancher }

func (r Rancher) Info() Info {
	return Info{
		Name: "rancher", Section: "rancher", On: r.Rancher != nil,
		NeverInFleet: "Rancher brings Fleet, so it comes first, and would be deleted with its bundle",
	}
}

func (r Rancher) Make(s *Site) (Piece, error) {
	bootstrap, err := r.bootstrap(s)
	if err := errors.Join(need("rancher", "hostname", r.Hostname), err); err != nil {
		return Piece{}, err
	}
	ca, err := r.authority(s)
	if err != nil {
		return Piece{}, err
	}
	p := Piece{
		Part: chart.Part{Name: "rancher", Keep: true}, Fleet: true, Replaces: []string{"fleet", "fleet-crd"},
		Web: &Web{"Rancher", "https://" + r.Hostname},
	}
	if r.Bootstrap.IsZero() {
		p.Passwords = []Password{{"first login of admin to Rancher", rancherNamespace, "bootstrap-secret", "bootstrapPassword"}}
	}
	v := values{"hostname": r.Hostname, "replicas": r.Replicas}
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
		v["gateway"] = values{"gatewayClass": annotations(values{"name": s.Ingress.Class, "tls": source}, "annotations")}
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
	if list := s.tolerations(); len(list) > 0 {
		v["extraTolerations"] = list
	}
	if p.Release, err = s.release("rancher", rancherNamespace, v); err != nil {
		return Piece{}, err
	}
	p.Release.Version = cmp.Or(r.Version, p.Release.Version)
	p.Secrets = append(p.Secrets, bootstrap)
	s.needs(&p, "ingress")
	if s.TLS != nil && s.TLS.Source == spec.TLSSecret {
		p.Late = withCertificate(p.Part, s.TLS.Secret, rancherTLS)
	}
	return p, nil
}

// authority is the certificate of a private CA that signs Rancher's.
func (r Rancher) authority(s *Site) ([]byte, error) {
	if s.TLS == nil || s.TLS.Source != spec.TLSSecret && s.TLS.Source != spec.TLSCA {
		return nil, nil
	}
	return File("tls.ca.cert", s.TLS.CACert)
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
