package addon

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// page leads browsers to a port of the Service that m names: by an Ingress, whose certificate is in the Secret tls,
// or by a route of the one Gateway, which has certificates of its own.
func (s *Site) page(m metav1.ObjectMeta, hostname string, port int, tls string) []runtime.Object {
	switch s.Ingress.Kind {
	case spec.IngressNone:
		return nil
	case spec.IngressGateway:
		return []runtime.Object{object("gateway.networking.k8s.io/v1", "HTTPRoute", m, values{
			"hostnames": []any{hostname}, "parentRefs": []any{s.gateway().ref()},
			"rules": []any{values{"backendRefs": []any{values{"name": m.Name, "port": int64(port)}}}},
		})}
	}
	in := values{"ingressClassName": s.Ingress.Class, "rules": []any{values{"host": hostname, "http": values{"paths": []any{values{
		"path": "/", "pathType": "Prefix", "backend": values{"service": values{"name": m.Name, "port": values{"number": int64(port)}}}}}}}}}
	if s.issued() {
		m.Annotations = map[string]string{"cert-manager.io/cluster-issuer": s.TLS.Issuer}
	}
	if s.TLS != nil {
		in["tls"] = []any{values{"hosts": []any{hostname}, "secretName": tls}}
	}
	return []runtime.Object{object("networking.k8s.io/v1", "Ingress", m, in)}
}
