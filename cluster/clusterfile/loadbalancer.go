package clusterfile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/suggest"
)

// loadbalancerSection completes and checks loadBalancer.
type loadbalancerSection struct{ *resolver }

// usedAddresses are used addresses of the nodes' network, with their owners.
func (r loadbalancerSection) usedAddresses() map[netip.Addr]string {
	out := map[netip.Addr]string{}
	for _, n := range r.machines() {
		if !n.DHCP() {
			out[n.Address.Addr()] = "node " + n.Name
		}
		if a := n.Address6.Addr(); a.IsValid() {
			out[a] = "node " + n.Name
		}
		for _, g := range []netip.Addr{n.Network.Gateway, n.Network.Gateway6} {
			if g.IsValid() {
				out[g] = "the gateway"
			}
		}
		for _, d := range n.Network.DNS {
			if out[d] == "" {
				out[d] = "a DNS server"
			}
		}
	}
	if v := r.spec.K3s.VIP; v.IsValid() {
		out[v] = "the VIP"
	}
	if nfs := r.spec.Platform.Storage.NFS; nfs != nil {
		if a, err := netip.ParseAddr(nfs.Server); err == nil {
			out[a] = "the NFS server"
		}
	}
	return out
}

// inNodesNetwork reports whether some node's network has the address.
func (r loadbalancerSection) inNodesNetwork(a netip.Addr) bool {
	return slices.ContainsFunc(r.spec.Nodes, func(n spec.Node) bool { return n.Network.Prefix.Contains(a) || n.Network.Prefix6.Contains(a) })
}

// pools checks the load balancer's addresses.
func (r loadbalancerSection) pools() {
	lb := r.spec.Platform.LB
	if lb == nil || lb.Kind == spec.LBServiceLB {
		return
	}
	taken := r.usedAddresses()
	owners := slices.SortedFunc(maps.Keys(taken), netip.Addr.Compare)
	leased := slices.ContainsFunc(r.spec.Nodes, func(n spec.Node) bool { return n.DHCP() && !n.External })
	for i, p := range lb.Addresses {
		at := &lb.Addresses[i]
		if !p.From.IsValid() {
			continue
		}
		for j, other := range lb.Addresses[:i] {
			if p.Contains(other.From) || other.Contains(p.From) {
				r.Wrong(at, fmt.Sprintf("%s and %s share addresses, in %s", p, other, r.Line(&lb.Addresses[j])), "write separate ranges")
			}
		}
		if lb.BGP == nil && len(r.spec.Nodes) > 0 && (!r.inNodesNetwork(p.From) || !r.inNodesNetwork(p.To)) && !leased {
			r.Wrong(at, fmt.Sprintf("%s is outside the nodes' network, where the load balancer answers ARP for its addresses, so no router would find them", p),
				"write an unused range of the nodes' network; or announce it to your router: bgp: {asn: 64512, peers: [{address: ROUTER, asn: 64500}]}")
			continue
		}
		if lb.BGP != nil && (r.inNodesNetwork(p.From) || r.inNodesNetwork(p.To)) {
			r.Warn(at, fmt.Sprintf("%s is in the nodes' network and announced by BGP: its other machines ask for it by ARP, which nobody answers", p), "write a range outside your networks, e.g. 10.50.0.0/24, or remove bgp")
		}
		for _, a := range owners {
			if p.Contains(a) {
				r.Wrong(at, fmt.Sprintf("%s contains %s, which belongs to %s", p, a, strings.TrimSuffix(taken[a], "'s")), "write a range without it")
				break
			}
		}
		if a := r.spec.Network.Prefix; a.IsValid() && (p.Contains(a.Masked().Addr()) || p.Contains(spec.LastAddr(a))) && a.Addr().Is4() {
			r.Wrong(at, fmt.Sprintf("%s contains the network address or the broadcast address", p), "write a range without the first and the last address of "+a.String())
		}
		if leased && lb.BGP == nil {
			r.Warn(at, "nodes get their addresses from a DHCP server, which must not assign these too", "exclude the range from the DHCP server's")
		}
	}
}

// checkReserved checks the addresses of single services.
func (r loadbalancerSection) checkReserved() {
	lb := r.spec.Platform.LB
	if lb == nil {
		return
	}
	seen := map[netip.Addr]any{}
	for _, name := range sortedNames(lb.Reserved) {
		at, a := r.MemberAt(&lb.Reserved, name), lb.Reserved[name]
		if namespace, service, ok := strings.Cut(name, "/"); name != "ingress" && (!ok || !decode.DNSLabel.MatchString(namespace) || !decode.DNSLabel.MatchString(service)) {
			r.Wrong(at, fmt.Sprintf("%q is not a service", name), "write namespace/name, or ingress")
		}
		if name == "ingress" && r.spec.Platform.Ingress.Kind == spec.IngressNone {
			r.Wrong(at, "there is no ingress that could have an address", "remove it, or write ingress: traefik")
		}
		if !a.IsValid() {
			continue
		}
		if len(lb.Addresses) > 0 && !slices.ContainsFunc(lb.Addresses, func(p spec.AddressPool) bool { return p.Contains(a) }) {
			r.Wrong(at, fmt.Sprintf("%s is reserved for %s and is not among the load balancer's addresses", a, name), "write one of "+r.poolTexts())
		}
		unique(r.resolver, seen, a, any(at), fmt.Sprintf("%s is reserved twice", a), "write another")
	}
}

func (r loadbalancerSection) poolTexts() string {
	var out []string
	for _, p := range r.spec.Platform.LB.Addresses {
		out = append(out, p.String())
	}
	return suggest.JoinOr(out)
}

func (r loadbalancerSection) loadBalancer() {
	lb := r.spec.Platform.LB
	if lb == nil {
		return
	}
	switch {
	case lb.Kind != "":
	case len(lb.Addresses) == 0:
		lb.Kind = spec.LBServiceLB
	case r.spec.K3s.Cilium():
		lb.Kind = spec.LBCilium
	default:
		lb.Kind = spec.LBMetalLB
	}
	switch {
	case lb.Kind == spec.LBServiceLB && len(lb.Addresses) > 0:
		r.Wrong(&lb.Addresses, "servicelb uses the nodes' own addresses and has no others to give", "write kind: metallb, or remove addresses")
	case lb.Kind == spec.LBServiceLB && len(lb.Reserved) > 0:
		r.Wrong(&lb.Reserved, "servicelb uses the nodes' own addresses and can reserve none", "write kind: metallb with addresses, or remove reserved")
	case lb.Kind != spec.LBServiceLB && len(lb.Addresses) == 0:
		r.Wrong(&lb.Addresses, fmt.Sprintf("%s has no addresses to assign", lb.Kind), "write addresses: [10.0.0.200-10.0.0.219], an unused range of the nodes' network")
	case lb.Kind == spec.LBCilium && !r.spec.K3s.Cilium():
		r.Wrong(&lb.Kind, "Cilium's load balancer is a part of Cilium, which is not the pods' network", "write k3s: {cni: cilium}, or kind: metallb")
	case lb.Kind == spec.LBMetalLB && r.spec.K3s.Cilium():
		r.Warn(&lb.Kind, "Cilium has a load balancer of its own", "write kind: cilium, which needs no MetalLB")
	}
	if lb.Kind == spec.LBServiceLB && slices.Contains(r.disabled, "servicelb") {
		why, cure := r.missing("servicelb", "write kind: metallb with addresses")
		r.Wrong(&lb.Kind, "the load balancer is servicelb, which "+why, cure)
	}
}

// bgp checks to whom addresses are announced.
func (r loadbalancerSection) bgp() {
	lb := r.spec.Platform.LB
	if lb == nil || lb.BGP == nil {
		return
	}
	b := lb.BGP
	if lb.Kind != spec.LBMetalLB {
		r.Wrong(lb.BGP, fmt.Sprintf("%s announces nothing by BGP", lb.Kind), "write kind: metallb, or remove bgp")
	}
	if !r.IsSet(&b.ASN) {
		r.Wrong(b, "the nodes have no autonomous system", "write asn: and its number; 64512 to 65534 are for private use")
	}
	if len(b.Peers) == 0 {
		r.Wrong(b, "there is no router to announce addresses to", "write peers: [{address: 10.0.0.1, asn: 64500}] with your router's")
	}
	seen := map[netip.Addr]any{}
	for i := range b.Peers {
		p := &b.Peers[i]
		r.CheckRange(&p.Port, "port", 1, 16384)
		if !p.Address.IsValid() {
			r.Wrong(p, "the router has no address", "write address: and the router's")
			continue
		}
		unique(r.resolver, seen, p.Address, any(p), fmt.Sprintf("router %s is here twice", p.Address), "remove one")
		if p.ASN != 0 && p.ASN != b.ASN && !p.Multihop && len(r.spec.Nodes) > 0 && !r.inNodesNetwork(p.Address) {
			r.Warn(p, fmt.Sprintf("router %s is in no network of the nodes: a session with another autonomous system reaches the next router alone", p.Address), "write multihop: true, or the address of the router in the nodes' network")
		}
	}
}
