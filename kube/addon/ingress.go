package addon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/verify"
)

// AddressAnnotations request an address for a Service from a load balancer. Other kinds, such
// as K3s' own, have no such annotation.
func AddressAnnotations(kind string, addr netip.Addr) map[string]string {
	switch {
	case !addr.IsValid():
		return nil
	case kind == spec.LBMetalLB:
		return map[string]string{"metallb.io/loadBalancerIPs": addr.String()}
	case kind == spec.LBCilium:
		return map[string]string{"lbipam.cilium.io/ips": addr.String()}
	}
	return nil
}

// Ports of a Gateway's listeners. With K3s' Traefik they are those of its entry points, and not those of the Service in front.
const (
	httpPort, httpsPort       = 80, 443
	traefikHTTP, traefikHTTPS = 8000, 8443
)

// Ingress configures the ingress controller that K3s brings, and with the Gateway API creates
// one Gateway, which Traefik or Cilium serves. K3s installs the definitions of the Gateway API: up to 1.36 through its
// Traefik, from 1.37 on separately (k3s-io/k3s issue 14557); for Cilium see [GatewayAPI]. It is on if a part has web pages.
type Ingress struct {
	spec.Ingress
	Pages bool // a part has web pages
}

func (i Ingress) Info() Info {
	return Info{Name: "ingress", Section: "ingress", On: i.Kind != spec.IngressNone && i.Pages}
}

func (Ingress) Make(s *Site) (Recipe, error) {
	p, g := Recipe{Part: chart.Part{Name: "ingress"}}, s.gateway()
	if !s.NoTraefik {
		config, err := s.traefik()
		if err != nil {
			return Recipe{}, err
		}
		p.After = append(p.After, config)
	}
	s.requireParts(&p, "metallb", "cilium-pool")
	if g == nil {
		p.Verify = []verify.Check{{Name: "it has an address", Try: traefikAddress}}
		return p, nil
	}
	p.Verify = []verify.Check{{Name: "the Gateway takes all its names", Try: g.works}}
	objects, err := g.objects()
	if err != nil {
		return Recipe{}, err
	}
	p.After = append(p.After, objects...)
	s.requireParts(&p, "cilium")
	if s.TLS != nil && s.TLS.Source != spec.TLSACME { // whose challenges come in by it
		s.requireParts(&p, "issuer")
	}
	return p, nil
}

// traefik configures K3s' Traefik.
func (s *Site) traefik() (runtime.Object, error) {
	v := values{
		"deployment": values{"replicas": s.replicas(2)},
		// The first two are K3s' own, because this list replaces them.
		"tolerations": s.tolerations(
			exists("CriticalAddonsOnly", ""),
			exists("node-role.kubernetes.io/control-plane", corev1.TaintEffectNoSchedule)),
	}
	byCilium := s.Ingress.ByCilium()
	if lb := s.Balancer; lb != nil && !byCilium {
		if notes := AddressAnnotations(lb.Kind, lb.Reserved["ingress"]); notes != nil {
			set(v, notes, "service", "annotations")
		}
	}
	if s.TLS != nil {
		// These are arguments because the chart renamed its setting for it twice. They name
		// the Service's port: the entry point's name would mean the pod's port, 8443.
		v["additionalArguments"] = []any{
			"--entryPoints.web.http.redirections.entryPoint.to=:443",
			"--entryPoints.web.http.redirections.entryPoint.scheme=https",
			"--entryPoints.web.http.redirections.entryPoint.permanent=true",
		}
	}
	if g := s.gateway(); g != nil && !byCilium {
		v["providers"] = values{"kubernetesGateway": values{"enabled": true}}
		v["gateway"] = values{"enabled": false} // ours is beside it
		v["gatewayClass"] = values{"enabled": true, "name": g.Class}
	}
	v = chart.Merge(plain(v).(values), plain(s.Charts.Values["ingress"]).(values))
	content, err := yaml.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("ingress: %w", err)
	}
	return object("helm.cattle.io/v1", "HelmChartConfig", meta("ingress", "kube-system", "traefik"), values{"valuesContent": string(content)}), nil
}

// traefikAddress looks for the address of the Service in front of Traefik.
func traefikAddress(ctx context.Context, c verify.Cluster) (string, error) {
	s := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "traefik"}}
	if err := c.Kube.Get(ctx, s); err != nil {
		return "", err
	}
	for _, at := range s.Status.LoadBalancer.Ingress {
		return cmp.Or(at.IP, at.Hostname), nil
	}
	return "", errors.New("the Service kube-system/traefik has no address: kubectl -n kube-system describe service traefik says why")
}

// works reads the Gateway's conditions, and those of its listeners, one for each name (gateway-api, apis/v1/gateway_types.go).
func (g gateway) works(ctx context.Context, c verify.Cluster) (string, error) {
	live := object("gateway.networking.k8s.io/v1", "Gateway", metav1.ObjectMeta{Namespace: GatewayNamespace, Name: GatewayName(g.Ingress)}, nil)
	if err := c.Kube.Get(ctx, live); err != nil {
		return "", err
	}
	type condition struct{ Type, Status, Message string }
	var its struct {
		Status struct {
			Addresses  []struct{ Value string }
			Conditions []condition
			Listeners  []struct {
				Name       string
				Conditions []condition
			}
		}
	}
	text, err := live.MarshalJSON()
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(text, &its); err != nil {
		return "", fmt.Errorf("the Gateway: %w", err)
	}
	for _, l := range its.Status.Listeners {
		for _, one := range l.Conditions {
			if one.Status == "False" && one.Type != "Conflicted" { // of which False is good
				return "", fmt.Errorf("listener %s: %s: %s", l.Name, one.Type, one.Message)
			}
		}
	}
	for _, one := range its.Status.Conditions {
		if one.Type == "Programmed" && one.Status == "True" && len(its.Status.Addresses) > 0 {
			return fmt.Sprintf("%s at %s", printable.Count(len(its.Status.Listeners), "listener"), its.Status.Addresses[0].Value), nil
		}
	}
	return "", errors.New("it is not Programmed, or has no address: kubectl -n " + GatewayNamespace + " describe gateway " + GatewayName(g.Ingress) + " says why")
}
