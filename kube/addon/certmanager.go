package addon

import (
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
)

// certManagerNamespace is where cert-manager runs, and where the Secrets of cluster
// issuers are.
const certManagerNamespace = "cert-manager"

// CertManager provides certificates on demand; [Issuer] configures who signs them.
type CertManager struct {
	*spec.TLS
	Rancher bool // it is on too, and needs certificates before Fleet exists
}

func (c CertManager) Info() Info {
	// A certificate that exists already needs no signer.
	i := Info{
		Name: "cert-manager", Section: "tls", On: c.TLS != nil && c.Source != spec.TLSSecret,
		Namespace: certManagerNamespace,
		Chart: chart.Pin{
			Chart: "cert-manager", Repo: "https://charts.jetstack.io",
			Version: "v1.21.2", Kubernetes: ">=1.22.0-0", Compared: "2026-09-10",
			Source:  "pinned: Go module proxy, 2026-09-10; read: v1.21.1 of 2026-07-29, Chart.yaml",
			Advised: "1.15.0", Reason: "knows no crds.enabled, which we set: its definitions would not be installed",
		},
	}
	switch {
	case c.Rancher:
		i.NeverInFleet = "Rancher needs it before Fleet exists"
	case c.TLS != nil && c.Source == spec.TLSSelfSigned:
		i.NeverInFleet = "the files in the repository contain the authority that it creates, so it comes first"
	}
	return i
}

func (c CertManager) Make(s *Site) (Recipe, error) {
	v := values{
		"crds": values{"enabled": true},
		// Without the webhook no certificate can be requested; without the controller they are
		// only late.
		"webhook": values{"replicaCount": s.replicas(2)},
	}
	if s.Ingress.Kind == spec.IngressGateway { // whose definitions K3s brings
		v["config"] = values{
			"apiVersion": "controller.config.cert-manager.io/v1alpha1", "kind": "ControllerConfiguration",
			"enableGatewayAPI": true,
		}
	}
	if s.DNS != nil && len(s.DNS.Resolvers) > 0 {
		v["dns01RecursiveNameservers"], v["dns01RecursiveNameserversOnly"] = strings.Join(s.DNS.Resolvers, ","), true
	}
	s.tolerate(v, nil, []string{"webhook"}, []string{"cainjector"}, []string{"startupapicheck"})
	r := s.release(c.Info(), v)
	return Recipe{TriedBy: "issuer",
		Part: chart.Part{Name: "cert-manager", Release: r, Keep: true}, // deleting its definitions would delete all certificates
		APIs: []string{"cert-manager.io/v1", "cert-manager.io/v1/Issuer", "cert-manager.io/v1/Certificate"},
	}, nil
}
