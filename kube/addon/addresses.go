package addon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/verify"
)

// span is a range of addresses, both ends included.
type span struct{ from, to netip.Addr }

func (s span) String() string {
	return s.from.String() + "-" + s.to.String()
}

// pool has the addresses that a load balancer assigns freely, and those reserved for one
// Service.
type pool struct {
	free     []span
	reserved map[string]netip.Addr // by namespace/name of the Service, or "ingress"
}

// newPool removes the reserved addresses from the ranges; otherwise any Service could get one
// of them. Reserved addresses may be outside the ranges.
func newPool(addresses []spec.AddressPool, reserved map[string]netip.Addr) (pool, error) {
	p := pool{reserved: reserved}
	var errs []error
	for _, a := range addresses {
		s := span{a.From, a.To}
		for _, other := range p.free {
			if !s.to.Less(other.from) && !other.to.Less(s.from) {
				errs = append(errs, fmt.Errorf("addresses %s and %s overlap", other, s))
			}
		}
		p.free = append(p.free, s)
	}
	if len(addresses) == 0 {
		errs = append(errs, errors.New("there are no addresses to assign: name a range of the nodes' network that nothing else uses"))
	}
	taken := map[netip.Addr]string{}
	for _, name := range slices.Sorted(maps.Keys(reserved)) {
		addr := reserved[name]
		if other, twice := taken[addr]; twice || !addr.IsValid() {
			errs = append(errs, fmt.Errorf("address %s is reserved for %s and for %s", addr, other, name))
		}
		taken[addr] = name
		p.free = removeAddr(p.free, addr)
	}
	slices.SortFunc(p.free, func(a, b span) int { return a.from.Compare(b.from) })
	return p, errors.Join(errs...)
}

func removeAddr(spans []span, addr netip.Addr) []span {
	var out []span
	for _, s := range spans {
		if addr.Less(s.from) || s.to.Less(addr) {
			out = append(out, s)
			continue
		}
		if s.from != addr {
			out = append(out, span{s.from, addr.Prev()})
		}
		if s.to != addr {
			out = append(out, span{addr.Next(), s.to})
		}
	}
	return out
}

// service splits the name under which an address is reserved.
func (s *Site) service(name string) (namespace, service string, err error) {
	switch {
	case name == "ingress" && s.Ingress.ByCilium(): // the Service that Cilium makes for the Gateway
		name = GatewayNamespace + "/cilium-gateway-" + GatewayName(s.Ingress)
	case name == "ingress": // K3s' Traefik
		name = "kube-system/traefik"
	}
	namespace, service, ok := strings.Cut(name, "/")
	if !ok || namespace == "" || service == "" {
		return "", "", fmt.Errorf("reserved address for %q: want namespace/name of a Service, or ingress", name)
	}
	return namespace, service, nil
}

// givesAddresses are the checks of a load balancer: a new Service gets an address of its pools.
func givesAddresses(pools []spec.AddressPool) []verify.Check {
	return []verify.Check{{Name: "a Service gets an address", Try: func(ctx context.Context, c verify.Cluster) (string, error) {
		s, address := c.BalancedService("address"), ""
		err := c.WithObject(ctx, s, func(ctx context.Context) error {
			return verify.Await(ctx, func(ctx context.Context) (string, error) {
				live := &corev1.Service{TypeMeta: s.TypeMeta, ObjectMeta: s.ObjectMeta}
				if err := c.Kube.Get(ctx, live); err != nil {
					return "", err
				}
				address = ""
				for _, at := range live.Status.LoadBalancer.Ingress {
					address = cmp.Or(address, at.IP, at.Hostname)
				}
				if a, err := netip.ParseAddr(address); err == nil && slices.ContainsFunc(pools, func(p spec.AddressPool) bool { return p.Contains(a) }) {
					return "", nil
				}
				if address != "" {
					return fmt.Sprintf("it has %s, which is none of loadBalancer.addresses: another load balancer answers, such as K3s' own", address), nil
				}
				said, err := c.Kube.LastWarning(ctx, kube.Ref{APIVersion: "v1", Kind: "Service", Namespace: s.Namespace, Name: s.Name})
				return "it has none: " + cmp.Or(said, "all of loadBalancer.addresses may be taken: kubectl get services --all-namespaces"), err
			})
		})
		return address, err
	}}}
}
