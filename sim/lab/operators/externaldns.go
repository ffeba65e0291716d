package operators

import (
	"context"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
	"github.com/cps-gpu/homelab/sim/lab/zones"
)

// namePrograms are external-dns without and with the Gateway API, whose kinds it then needs at its start.
func namePrograms() []program {
	watchesRoutes := func(c corev1.Container) bool { return hasArgument(c, "--source=gateway-httproute") }
	plain := []kind{ingresses(), services()}
	return []program{
		{name: "external-dns", image: "external-dns/external-dns", is: func(c corev1.Container) bool { return !watchesRoutes(c) }, watch: plain, sync: externalDNS},
		{name: "external-dns-gateway", image: "external-dns/external-dns", is: watchesRoutes, watch: append(slices.Clone(plain), gateways(), routes()), sync: externalDNS},
	}
}

// externalDNS simulates external-dns with a service on the loopback interface: it looks at every
// change, where the real one looks once a minute.
func externalDNS(ctx context.Context, i *instance) (time.Duration, error) {
	const interval = 10 * time.Second
	service, at, err := i.zoneService(ctx)
	if err != nil || !zones.OnLoopback(at) {
		return 0, err
	}
	names, err := i.names()
	if err != nil {
		return 0, err
	}
	return interval, zones.Keeper{
		Service: service, Zones: i.arguments("domain-filter"), Owner: i.argument("txt-owner-id"), Prefix: i.argument("txt-prefix"),
	}.Sync(ctx, names)
}

// zoneService is the service of the container's arguments and environment, and where it is.
func (i *instance) zoneService(ctx context.Context) (zones.Service, string, error) {
	switch i.argument("provider") {
	case "rfc2136":
		address := net.JoinHostPort(i.argument("rfc2136-host"), i.argument("rfc2136-port"))
		secret, err := i.variable(ctx, "EXTERNAL_DNS_RFC2136_TSIG_SECRET")
		return zones.Server{Address: address, Key: i.argument("rfc2136-tsig-keyname"), Algorithm: i.argument("rfc2136-tsig-secret-alg"), Secret: secret}, address, err
	case "cloudflare":
		token, err := i.variable(ctx, "CF_API_TOKEN")
		c := zones.CloudflareOf(token)
		return c, zones.HostOf(c.Address), err
	case "aws":
		key, err := i.variable(ctx, "AWS_ACCESS_KEY_ID")
		if err != nil {
			return nil, "", err
		}
		secret, err := i.variable(ctx, "AWS_SECRET_ACCESS_KEY")
		r := zones.Route53Of(key, secret, i.argument("zone-id-filter"))
		return r, zones.HostOf(r.Address), err
	}
	return nil, "", nil
}

// names are all that the cluster's objects ask for. Sources: external-dns, source/ingress.go, service.go, gateway.go.
func (i *instance) names() ([]zones.Name, error) {
	var out []zones.Name
	list, err := all[networkingv1.Ingress](i, ingresses())
	if err != nil {
		return nil, err
	}
	for _, ing := range list {
		hosts := annotated(ing.Annotations)
		for _, r := range ing.Spec.Rules {
			hosts = append(hosts, r.Host)
		}
		for _, t := range ing.Spec.TLS {
			hosts = append(hosts, t.Hosts...)
		}
		var targets []string
		for _, a := range ing.Status.LoadBalancer.Ingress {
			targets = append(targets, a.IP)
		}
		out = append(out, named(hosts, targets, "ingress/"+ing.Namespace+"/"+ing.Name)...)
	}
	fronts, err := all[corev1.Service](i, services())
	if err != nil {
		return nil, err
	}
	for _, s := range fronts {
		var targets []string
		for _, a := range s.Status.LoadBalancer.Ingress {
			targets = append(targets, a.IP)
		}
		out = append(out, named(annotated(s.Annotations), targets, "service/"+s.Namespace+"/"+s.Name)...)
	}
	if !hasArgument(i.container, "--source=gateway-httproute") {
		return out, nil
	}
	more, err := i.namesOfRoutes()
	return append(out, more...), err
}

// namesOfRoutes are those of routes that a Gateway has accepted, at its addresses.
func (i *instance) namesOfRoutes() ([]zones.Name, error) {
	list, err := all[unstructured.Unstructured](i, routes())
	if err != nil {
		return nil, err
	}
	var out []zones.Name
	for _, r := range list {
		hosts, _, _ := unstructured.NestedStringSlice(r.Object, "spec", "hostnames")
		for _, p := range nestedList(r, "status", "parents") {
			parent := &unstructured.Unstructured{Object: map[string]any{"status": p}}
			if !object.IsTrue(parent, "Accepted") {
				continue
			}
			namespace := object.Text(parent, "status", "parentRef", "namespace")
			if namespace == "" {
				namespace = r.GetNamespace()
			}
			g, err := one[unstructured.Unstructured](i, gateways(), namespace, object.Text(parent, "status", "parentRef", "name"))
			if err != nil {
				return nil, err
			}
			if g == nil {
				continue
			}
			var targets []string
			for _, a := range nestedList(g, "status", "addresses") {
				value, _ := a["value"].(string)
				targets = append(targets, value)
			}
			out = append(out, named(hosts, targets, "httproute/"+r.GetNamespace()+"/"+r.GetName())...)
		}
	}
	return out, nil
}

// annotated are the names that an object asks for by its annotation.
func annotated(annotations map[string]string) []string {
	const hostname = "external-dns.alpha.kubernetes.io/hostname"
	if annotations[hostname] == "" {
		return nil
	}
	return strings.Split(strings.ReplaceAll(annotations[hostname], " ", ""), ",")
}

func named(hosts, targets []string, resource string) []zones.Name {
	var out []zones.Name
	for _, h := range hosts {
		if h != "" && len(targets) > 0 {
			out = append(out, zones.Name{Host: h, Targets: targets, Resource: resource})
		}
	}
	return out
}
