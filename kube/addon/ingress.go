package addon

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/kube/chart"
)

// Kinds of load balancers that assign addresses to Services.
const (
	MetalLBKind = "metallb"
	CiliumKind  = "cilium"
)

// AddressAnnotations request an address for a Service from a load balancer. Other kinds, such
// as K3s' own, have no such annotation.
func AddressAnnotations(kind string, addr netip.Addr) map[string]string {
	switch {
	case !addr.IsValid():
		return nil
	case kind == MetalLBKind:
		return map[string]string{"metallb.io/loadBalancerIPs": addr.String()}
	case kind == CiliumKind:
		return map[string]string{"lbipam.cilium.io/ips": addr.String()}
	}
	return nil
}

// IngressOptions configure K3s' own Traefik. Nothing is installed.
type IngressOptions struct {
	Common
	LoadBalancer string         // kind of it: [MetalLBKind], [CiliumKind] or K3s' own
	Address      netip.Addr     // reserved for HTTP and HTTPS; invalid: any
	HTTPS        bool           // redirect HTTP to HTTPS: for sites whose names all have certificates
	GatewayAPI   bool           // Traefik also serves the Gateway API
	Gateway      GatewayOptions // with GatewayAPI
}

// GatewayOptions describe the one Gateway that routes attach to.
type GatewayOptions struct {
	Namespace string   // default kube-system, where Traefik is
	Name      string   // default "homelab"
	Class     string   // of the Gateway; default "traefik"
	Hosts     []string // names that are served over TLS, a listener each
	Issuer    string   // ClusterIssuer of their certificates; empty: the caller creates the Secrets
}

// Ports of K3s' Traefik by entry point. A Gateway's listeners must name them, not ports 80 and
// 443 of the Service in front.
const (
	traefikHTTP  = 8000
	traefikHTTPS = 8443
)

// Ingress configures the ingress controller that K3s brings, and with the Gateway API creates
// one Gateway. K3s installs the definitions of the Gateway API: up to 1.36 through its
// Traefik, from 1.37 on separately (k3s-io/k3s issue 14557).
func Ingress(o IngressOptions) (chart.Part, error) {
	v := values{
		"deployment": values{"replicas": o.few(2)},
		// The first two are K3s' own, because this list replaces them.
		"tolerations": o.tolerations(
			exists("CriticalAddonsOnly", ""),
			exists("node-role.kubernetes.io/control-plane", corev1.TaintEffectNoSchedule)),
	}
	if notes := AddressAnnotations(o.LoadBalancer, o.Address); notes != nil {
		set(v, notes, "service", "annotations")
	}
	if o.HTTPS {
		// These are arguments because the chart renamed its setting for it twice. They name
		// the Service's port: the entry point's name would mean the pod's port, 8443.
		v["additionalArguments"] = []any{
			"--entryPoints.web.http.redirections.entryPoint.to=:443",
			"--entryPoints.web.http.redirections.entryPoint.scheme=https",
			"--entryPoints.web.http.redirections.entryPoint.permanent=true",
		}
	}
	if o.GatewayAPI {
		v["providers"] = values{"kubernetesGateway": values{"enabled": true}}
		v["gateway"] = values{"enabled": false} // ours is below
		v["gatewayClass"] = values{"enabled": true, "name": o.Gateway.class()}
	}
	v = chart.Merge(plain(v).(values), plain(o.Values).(values))
	content, err := yaml.Marshal(v)
	if err != nil {
		return chart.Part{}, fmt.Errorf("ingress: %w", err)
	}
	p := chart.Part{Name: "ingress", After: []runtime.Object{
		object("helm.cattle.io/v1", "HelmChartConfig", meta("ingress", "kube-system", "traefik"), values{"valuesContent": string(content)}),
	}}
	if o.GatewayAPI {
		g, err := o.Gateway.object()
		if err != nil {
			return chart.Part{}, err
		}
		p.After = append(p.After, g)
	}
	return p, nil
}

func (g GatewayOptions) class() string {
	if g.Class == "" {
		return "traefik"
	}
	return g.Class
}

// Ref returns the namespace and the name of the Gateway, for routes that attach to it.
func (g GatewayOptions) Ref() (namespace, name string) {
	if g.Namespace == "" {
		g.Namespace = "kube-system"
	}
	if g.Name == "" {
		g.Name = "homelab"
	}
	return g.Namespace, g.Name
}

func (g GatewayOptions) object() (runtime.Object, error) {
	all := values{"namespaces": values{"from": "All"}}
	listeners := []any{values{"name": "http", "port": traefikHTTP, "protocol": "HTTP", "allowedRoutes": all}}
	for _, h := range g.Hosts {
		if h == "" || strings.ContainsAny(h, "/: ") {
			return nil, fmt.Errorf("gateway: host %q: want a name, e.g. hub.example.org", h)
		}
		name := strings.ReplaceAll(strings.ReplaceAll(h, "*", "wildcard"), ".", "-")
		listeners = append(listeners, values{
			"name": name, "hostname": h, "port": traefikHTTPS, "protocol": "HTTPS", "allowedRoutes": all,
			"tls": values{"mode": "Terminate", "certificateRefs": []any{values{"kind": "Secret", "name": name + "-tls"}}},
		})
	}
	namespace, name := g.Ref()
	m := meta("ingress", namespace, name)
	if g.Issuer != "" {
		m.Annotations = map[string]string{"cert-manager.io/cluster-issuer": g.Issuer}
	}
	return object("gateway.networking.k8s.io/v1", "Gateway", m, values{"gatewayClassName": g.class(), "listeners": listeners}), nil
}
