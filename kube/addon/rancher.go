package addon

import (
	"errors"
	"fmt"

	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

const rancherNamespace = "cattle-system"

// Sources of Rancher's certificate.
const (
	RancherOwnCA  = "own-ca" // Rancher's chart has cert-manager make a CA for it
	RancherIssuer = "issuer" // a ClusterIssuer of ours signs it
	RancherSecret = "secret" // the Secret cattle-system/tls-rancher-ingress is somebody else's business
)

// RancherOptions configure Rancher, which brings its own Fleet.
type RancherOptions struct {
	Common
	Hostname  string
	Replicas  int          // default: one, or three with three or more nodes
	Bootstrap secret.Value // first password of admin; zero: generated, and kept in the cluster
	Class     string       // of Ingress or Gateway; default "traefik"
	Gateway   bool         // it gets a Gateway of its own instead of an Ingress

	TLS    string // one of the sources; default RancherOwnCA
	Issuer string // with RancherIssuer: name of the ClusterIssuer
	CA     []byte // with RancherIssuer and RancherSecret: certificate of a private CA, PEM
}

// minBootstrap is the minimum length of a password in Rancher: setting password-min-length in
// its pkg/settings/setting.go.
const minBootstrap = 12

// Rancher provides the management UI of the cluster, and Fleet. Do not install another Fleet
// beside it.
//
// The first password is in the Secret cattle-system/bootstrap-secret, where Rancher reads it,
// and not in the values, which the release stores.
func Rancher(o RancherOptions) (chart.Part, error) {
	if err := o.fill(); err != nil {
		return chart.Part{}, err
	}
	p := chart.Part{Name: "rancher", Keep: true}
	v := values{"hostname": o.Hostname, "replicas": o.Replicas}
	tls, err := o.tls(&p)
	if err != nil {
		return chart.Part{}, err
	}
	if o.Gateway {
		v["networkExposure"] = values{"type": "gateway"}
		class := values{"name": o.Class, "tls": values{"source": tls}}
		if o.TLS == RancherIssuer {
			class["annotations"] = o.annotations()
		}
		v["gateway"] = values{"gatewayClass": class}
		// Some templates use the Ingress' source even then (issuer-rancher.yaml,
		// deployment.yaml).
		v["ingress"] = values{"tls": values{"source": tls}}
	} else {
		ingress := values{"ingressClassName": o.Class, "tls": values{"source": tls}}
		if o.TLS == RancherIssuer {
			ingress["extraAnnotations"] = o.annotations()
		}
		v["ingress"] = ingress
	}
	if len(o.CA) > 0 {
		v["privateCA"] = true
		p.Secrets = append(p.Secrets, chart.Secret{Namespace: rancherNamespace, Name: "tls-ca",
			Data: map[string]secret.Value{"cacerts.pem": secret.New(string(o.CA))}})
	}
	if list := o.tolerations(); len(list) > 0 {
		v["extraTolerations"] = list
	}
	if p.Release, err = o.release("rancher", rancherNamespace, v); err != nil {
		return chart.Part{}, err
	}
	p.Secrets = append(p.Secrets, o.bootstrap())
	return p, nil
}

func (o *RancherOptions) fill() error {
	if o.TLS == "" {
		o.TLS = RancherOwnCA
	}
	if o.Class == "" {
		o.Class = "traefik"
	}
	if o.Replicas == 0 {
		o.Replicas = 1
		if o.Nodes >= 3 {
			o.Replicas = 3
		}
	}
	err := need("rancher", "hostname", o.Hostname)
	if n := len(o.Bootstrap.Reveal()); n > 0 && n < minBootstrap {
		err = errors.Join(err, fmt.Errorf("rancher: the bootstrap password has %d characters: Rancher requires %d or more", n, minBootstrap))
	}
	return err
}

// tls returns the chart's name of the source, and adds what the part needs for it.
func (o RancherOptions) tls(p *chart.Part) (source string, err error) {
	switch o.TLS {
	case RancherOwnCA:
		p.Needs = []string{"cert-manager"}
		if len(o.CA) > 0 {
			return "", fmt.Errorf("rancher: with TLS %s the CA is Rancher's own: leave the other out, or use %s", RancherOwnCA, RancherIssuer)
		}
		return "rancher", nil
	case RancherIssuer:
		p.Needs = []string{"cert-manager", "issuer"}
		return "secret", need("rancher", "issuer", o.Issuer)
	case RancherSecret:
		return "secret", nil
	}
	return "", fmt.Errorf("rancher: TLS %q: want %s, %s or %s", o.TLS, RancherOwnCA, RancherIssuer, RancherSecret)
}

func (o RancherOptions) annotations() values {
	return values{"cert-manager.io/cluster-issuer": o.Issuer}
}

func (o RancherOptions) bootstrap() chart.Secret {
	s := chart.Secret{Namespace: rancherNamespace, Name: "bootstrap-secret"}
	if o.Bootstrap.IsZero() {
		s.Generate = map[string]int{"bootstrapPassword": 16}
	} else {
		s.Data = map[string]secret.Value{"bootstrapPassword": o.Bootstrap}
	}
	return s
}
