package addon

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// gateway describes the one Gateway that routes attach to.
type gateway struct {
	spec.Ingress
	hosts  []string          // names that are served over TLS, a listener each
	issuer string            // ClusterIssuer of their certificates; empty: somebody else creates the Secrets
	secure bool              // HTTP leads to HTTPS
	notes  map[string]string // that ask for the address of Cilium's Service
}

// GatewayNamespace is where the Gateway is. Traefik is there too.
const GatewayNamespace = "kube-system"

// GatewayName is the name of the Gateway, for routes that attach to it. Cilium's has another, so that a change of who
// serves it deletes it: with it goes the Service that Cilium has made for it.
func GatewayName(in spec.Ingress) string {
	if in.ByCilium() {
		return "homelab-cilium"
	}
	return "homelab"
}

// gatewayV1 is the version of the API's kinds.
const gatewayV1 = "gateway.networking.k8s.io/v1"

// ref is how a route names it as its parent.
func (g gateway) ref() values {
	return values{"name": GatewayName(g.Ingress), "namespace": GatewayNamespace}
}

func (g gateway) objects() ([]runtime.Object, error) {
	http, https, all := traefikHTTP, traefikHTTPS, values{"namespaces": values{"from": "All"}}
	in := all // who may attach to HTTP
	if g.ByCilium() {
		http, https = httpPort, httpsPort
	}
	redirects := g.ByCilium() && g.secure // Traefik does it for all
	if redirects {
		// Only what leads to HTTPS, and challenges of certificates, whose Secrets are here.
		in = values{"namespaces": values{"from": "Same"}}
	}
	listeners := []any{values{"name": "http", "port": http, "protocol": "HTTP", "allowedRoutes": in}}
	for _, h := range g.hosts {
		if h == "" || strings.ContainsAny(h, "/: ") {
			return nil, fmt.Errorf("gateway: host %q: want a name, e.g. hub.example.org", h)
		}
		name := strings.ReplaceAll(strings.ReplaceAll(h, "*", "wildcard"), ".", "-")
		listeners = append(listeners, values{
			"name": name, "hostname": h, "port": https, "protocol": "HTTPS", "allowedRoutes": all,
			"tls": values{"mode": "Terminate", "certificateRefs": []any{values{"kind": "Secret", "name": name + "-tls"}}},
		})
	}
	m := meta("ingress", GatewayNamespace, GatewayName(g.Ingress))
	if g.issuer != "" {
		m.Annotations = map[string]string{"cert-manager.io/cluster-issuer": g.issuer}
	}
	its := values{"gatewayClassName": g.Class, "listeners": listeners}
	if g.ByCilium() && len(g.notes) > 0 {
		its["infrastructure"] = values{"annotations": g.notes}
	}
	out := []runtime.Object{object(gatewayV1, "Gateway", m, its)}
	if redirects {
		parent := g.ref()
		parent["sectionName"] = "http"
		out = append(out, object(gatewayV1, "HTTPRoute", meta("ingress", GatewayNamespace, m.Name+"-https"), values{
			"parentRefs": []any{parent},
			"rules":      []any{values{"filters": []any{values{"type": "RequestRedirect", "requestRedirect": values{"scheme": "https", "statusCode": 301}}}}},
		}))
	}
	return out, nil
}
