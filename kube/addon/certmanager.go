package addon

import (
	"github.com/cps-gpu/homelab/kube/chart"
)

// certManagerNamespace is where cert-manager runs, and where the Secrets of cluster
// issuers are.
const certManagerNamespace = "cert-manager"

// CertManagerOptions are those of cert-manager.
type CertManagerOptions struct {
	Common
	GatewayAPI bool // certificates for Gateways too; the cluster must have the definitions, as K3s does
}

// CertManager provides certificates on demand; [Issuer] configures who signs them.
func CertManager(o CertManagerOptions) (chart.Part, error) {
	v := values{
		"crds": values{"enabled": true},
		// Without the webhook no certificate can be requested; without the controller they are
		// only late.
		"webhook": values{"replicaCount": o.few(2)},
	}
	if o.GatewayAPI {
		v["config"] = values{
			"apiVersion": "controller.config.cert-manager.io/v1alpha1", "kind": "ControllerConfiguration",
			"enableGatewayAPI": true,
		}
	}
	o.tolerate(v, nil, []string{"webhook"}, []string{"cainjector"}, []string{"startupapicheck"})
	r, err := o.release("cert-manager", certManagerNamespace, v)
	if err != nil {
		return chart.Part{}, err
	}
	// Deleting its definitions would delete all certificates.
	return chart.Part{Name: "cert-manager", Release: r, Keep: true}, nil
}
