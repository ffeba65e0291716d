package clusterfile

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/k3s"
)

// rangesSection completes and checks the networks of pods and services, k3s.podCIDR and k3s.serviceCIDR.
type rangesSection struct{ *resolver }

// complete sets the networks, by default of the nodes' families.
func (r rangesSection) complete() {
	k := &r.spec.K3s
	families := make([]netip.Addr, 1, 2)
	if len(r.nodes) > 0 {
		families[0] = r.nodes[0].Address.Addr()
	}
	if slices.ContainsFunc(r.nodes, func(n plannedNode) bool { return n.Address6.IsValid() }) {
		families = append(families, netip.IPv6Unspecified())
	}
	for _, said := range []spec.Ranges{k.PodCIDR, k.ServiceCIDR} {
		switch len(said) {
		case 1:
			families = families[:1]
		case 2:
			families = []netip.Addr{said[0].Addr(), said[1].Addr()}
		}
	}
	pods, services := r.defaults(families)
	if len(k.PodCIDR) == 0 {
		k.PodCIDR = pods
	}
	if len(k.ServiceCIDR) == 0 {
		k.ServiceCIDR = services
	}
}

func (r rangesSection) defaults(families []netip.Addr) (pods, services spec.Ranges) {
	for _, a := range families {
		p, s := k3s.DefaultNetworks(a)
		pods, services = append(pods, p), append(services, s)
	}
	return pods, services
}

// check checks that pods, services and nodes do not share addresses, and have those of the same families.
func (r rangesSection) check() {
	raw := &r.spec.K3s
	for _, c := range []struct {
		at   *spec.Ranges
		who  string
		name string
	}{{&raw.PodCIDR, "pods", "podCIDR"}, {&raw.ServiceCIDR, "services", "serviceCIDR"}} {
		all := *c.at
		if len(all) > 2 || len(all) == 2 && all[0].Addr().Is4() == all[1].Addr().Is4() {
			r.Wrong(c.at, fmt.Sprintf("%s has %d networks: %s", c.name, len(all), all), "write one, or one of IPv4 and one of IPv6")
			return
		}
		for _, p := range all {
			if p != p.Masked() {
				r.Wrong(c.at, fmt.Sprintf("%s %s is an address in a network, not a network", c.name, p), "write "+p.Masked().String())
			}
			for _, n := range r.nodes {
				r.checkOverlap(n, c.who, c.name, p, c.at)
			}
		}
	}
	r.families()
	for _, pods := range raw.PodCIDR {
		for _, services := range raw.ServiceCIDR {
			if pods.Overlaps(services) {
				at := &raw.ServiceCIDR
				if !r.IsSet(at) {
					at = &raw.PodCIDR
				}
				r.Wrong(at, fmt.Sprintf("pods (%s) and services (%s) share addresses", pods, services), "write separate networks, e.g. podCIDR: 10.42.0.0/16 and serviceCIDR: 10.43.0.0/16")
			}
		}
	}
	for _, services := range raw.ServiceCIDR {
		if what, do := k3s.CheckServiceNetwork(services); what != "" {
			r.Wrong(&raw.ServiceCIDR, what, do)
		}
	}
	for _, pods := range raw.PodCIDR {
		if what, do := k3s.CheckPodNetwork(pods, len(r.nodes)); what != "" {
			r.Wrong(&raw.PodCIDR, "podCIDR "+what, do)
		}
	}
}

// families checks that nodes, pods and services have addresses of the same families: K3s ends where
// they differ (pkg/agent/run.go).
func (r rangesSection) families() {
	raw, k := &r.spec.K3s, r.spec.K3s
	if len(k.PodCIDR) == 2 || len(k.ServiceCIDR) == 2 {
		r.bothFamilies()
		return
	}
	for _, n := range r.nodes {
		addr := n.Address.Addr()
		pods, services := k3s.DefaultNetworks(addr)
		for _, c := range []struct {
			at   *spec.Ranges
			key  string
			will netip.Prefix
		}{{&raw.PodCIDR, "podCIDR", pods}, {&raw.ServiceCIDR, "serviceCIDR", services}} {
			p := (*c.at)[0]
			if !addr.IsValid() || p.Addr().BitLen() == addr.BitLen() {
				continue
			}
			at := any(c.at)
			if !r.IsSet(at) {
				at = nodesSection(r).addressPlace(n)
			}
			r.Wrong(at, fmt.Sprintf("node %s has the address %s and k3s.%s is %s: nodes, pods and services need addresses of one family", n.Name, addr, c.key, p),
				fmt.Sprintf("write addresses of one family; for this node's, k3s.%s: %s", c.key, c.will))
		}
	}
}

// bothFamilies checks a cluster whose pods have addresses of IPv4 and of IPv6.
func (r rangesSection) bothFamilies() {
	pods, services := r.spec.K3s.PodCIDR, r.spec.K3s.ServiceCIDR
	if len(pods) != len(services) || pods[0].Addr().Is4() != services[0].Addr().Is4() {
		r.Wrong(&r.spec.K3s.ServiceCIDR, fmt.Sprintf("podCIDR is %s and serviceCIDR is %s, of other families or in another order", pods, services),
			"write one network of each family in both, in the same order")
		return
	}
	if name := r.spec.K3s.Network; name != "" {
		r.Wrong(&r.spec.K3s.Network, fmt.Sprintf("the card %s has addresses of one family, and pods have both", name), "remove network, or write one network in podCIDR and in serviceCIDR")
	}
	at := any(&r.spec.K3s.PodCIDR)
	for _, n := range r.nodes {
		if !r.IsSet(at) {
			at = n.Node
		}
		switch {
		case n.DHCP() && !n.Network.DHCP: // has none, which is reported
		case n.DHCP():
			r.Wrong(at, fmt.Sprintf("pods have addresses of IPv4 and IPv6, and node %s has its address from a DHCP server", n.Name), "give the node an address and an address6")
		case !n.Address6.IsValid() && (n.External || !n.Network.Prefix6.IsValid()): // else its network has no address
			r.Wrong(at, fmt.Sprintf("pods have addresses of IPv4 and IPv6, and node %s has the address %s alone", n.Name, n.Address.Addr()),
				"write network: {prefix6: NETWORK}, and addresses6: in its pool or address6: in the node; or one network in k3s.podCIDR and k3s.serviceCIDR")
		}
	}
}

func (r rangesSection) checkOverlap(n plannedNode, who, key string, p netip.Prefix, at any) {
	for _, of := range []*netip.Prefix{&n.Network.Prefix, &n.Network.Prefix6} {
		if n.External || !of.IsValid() || !p.Overlaps(*of) {
			continue
		}
		if !r.IsSet(at) {
			at = of
		}
		r.Wrong(at, fmt.Sprintf("%s (%s) and nodes (%s) share addresses", who, p, *of), "write k3s."+key+" with a network that is used nowhere else")
	}
}
