package clusterfile

import (
	"fmt"
	"net/netip"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// networkSection completes and checks the networks of nodes, pods and services.
type networkSection struct{ *resolver }

// nodeNetwork checks a node's address against its network.
func (r networkSection) nodeNetwork(n plannedNode) {
	r.secondNetwork(n)
	if n.External {
		return
	}
	raw, net := &n.Network, n.Network
	if raw.DHCP && !n.address.IsValid() {
		if n.Role == spec.Server {
			r.Warn(&raw.DHCP, "servers get their addresses from DHCP: etcd breaks when they change", "give servers addresses, or reserve them in the DHCP server")
		}
		return
	}
	if !r.nodePrefix(n) {
		return
	}
	r.gateway(n)
	addr := n.address
	switch {
	case !addr.IsValid() && n.short:
		return
	case !addr.IsValid():
		r.Wrong(&n.Address, fmt.Sprintf("node %s has no address", n.Name), "write addresses: in its pool, address: in the node, or network: {dhcp: true}")
	case !r.insidePrefix(&n.Address, "address", addr, net.Prefix):
	case addr == net.Gateway:
		r.Wrong(&n.Address, fmt.Sprintf("address %s is the gateway's", addr), "write another")
	case addr == r.spec.K3s.VIP:
		r.Wrong(&n.Address, fmt.Sprintf("address %s is the VIP's", addr), "write another: the VIP moves between servers and belongs to none")
	}
}

// secondNetwork checks the network and the address of IPv6 that a node has besides those of IPv4.
func (r networkSection) secondNetwork(n plannedNode) {
	raw, p, addr, gateway := &n.Network, n.Network.Prefix6, n.Address6.Addr(), n.Network.Gateway6
	mixed := func(at any) {
		r.Wrong(at, "keys with a 6 are for IPv6 besides IPv4", "write prefix: and gateway: of IPv4, or if all is IPv6, only those")
	}
	switch {
	case !p.IsValid() && gateway.IsValid():
		r.Wrong(&raw.Gateway6, "gateway6 has no network beside it", "write prefix6:, or remove it")
	case n.External:
		if addr.IsValid() && (addr.Is4() || n.Address.Addr().Is6()) {
			mixed(&n.Address6)
		}
	case !p.IsValid() && !addr.IsValid():
	case p.IsValid() && (p.Addr().Is4() || raw.Prefix.Addr().Is6()):
		mixed(&raw.Prefix6)
	case !p.IsValid():
		r.Wrong(&n.Address6, fmt.Sprintf("the network of the address %s has no prefix", addr), "write network: {prefix6: NETWORK}, e.g. fd00:10::/64")
	case p != p.Masked():
		r.Wrong(&raw.Prefix6, fmt.Sprintf("%s is an address in a network, not a network", p), "write "+p.Masked().String())
	case !addr.IsValid() && n.Role == spec.PlainVM: // it may do without
	case !addr.IsValid() && !n.short6:
		r.Wrong(&raw.Prefix6, fmt.Sprintf("node %s has no address of %s", n.Name, p), "write addresses6: in its pool, address6: in the node, or remove prefix6")
	case addr.IsValid() && !r.insidePrefix(&n.Address6, "address6", addr, p):
	case gateway.Is4() || gateway.IsValid() && gateway == addr:
		r.Wrong(&raw.Gateway6, fmt.Sprintf("gateway6 %s cannot be the router of %s", gateway, addr), "write the IPv6 address of the router, e.g. fe80::1")
	}
}

// gateway checks a node's gateway. One outside of the network is reached on-link: providers that
// rent hosts give an address whose router is elsewhere.
func (r networkSection) gateway(n plannedNode) {
	raw, g, p := &n.Network, n.Network.Gateway, n.Network.Prefix
	switch {
	case !r.IsSet(&raw.Gateway) || !g.IsValid():
		r.Wrong(&raw.Gateway, fmt.Sprintf("the network %s has no gateway", p), "write gateway: under network, and the router's address")
	case g.BitLen() != p.Addr().BitLen():
		r.Wrong(&raw.Gateway, fmt.Sprintf("gateway %s and the network %s are not of one family", g, p), "write the router's address of the family of the nodes")
	case g.IsLinkLocalUnicast(): // which is how IPv6 routers announce themselves
	case p.Contains(g) && !p.IsSingleIP():
		r.insidePrefix(&raw.Gateway, "gateway", g, p)
	case !p.IsSingleIP() && g.IsPrivate() && p.Addr().IsPrivate(): // rented hosts have public ones
		r.Wrong(&raw.Gateway, fmt.Sprintf("gateway %s is outside the network %s", g, p), fmt.Sprintf("write the router's address in that network; for a router that is reached on-link, write in each node network: {prefix: ADDRESS/%d}", g.BitLen()))
	case !p.IsSingleIP():
		r.Warn(&raw.Gateway, fmt.Sprintf("gateway %s is outside the network %s, so nodes reach it on-link, as a rented host's router is reached", g, p), "if it is a slip, write the router's address in that network")
	}
	switch {
	case !g.IsValid() || p.Contains(g) || r.IsSet(&raw.DNS):
	case g.IsLinkLocalUnicast():
		r.Wrong(&raw.Gateway, fmt.Sprintf("nodes cannot ask the link-local address %s for names: resolvers do not know on which interface it is", g), "write dns: and the DNS servers")
	default:
		r.Warn(&raw.Gateway, fmt.Sprintf("nodes ask the gateway %s for names, and a provider's router mostly knows none", g), "write dns: and the provider's DNS servers")
	}
}

// nodePrefix checks the network itself.
func (r networkSection) nodePrefix(n plannedNode) bool {
	raw, p := &n.Network, n.Network.Prefix
	switch {
	case !p.IsValid():
		r.Wrong(&raw.Prefix, "the nodes' network has no prefix", "write prefix: under network, e.g. prefix: 10.0.0.0/24")
		return false
	case p != p.Masked():
		r.Wrong(&raw.Prefix, fmt.Sprintf("%s is an address in a network, not a network", p), "write "+p.Masked().String())
		return false
	case p.Addr().BitLen()-p.Bits() == 1:
		r.Wrong(&raw.Prefix, fmt.Sprintf("the network %s has no room for nodes and a gateway", p), fmt.Sprintf("write your whole network, or a node's address alone with /%d and the gateway's address", p.Addr().BitLen()))
		return false
	}
	return true
}

// insidePrefix reports an address that is not a host's address in the network.
func (r networkSection) insidePrefix(at any, name string, addr netip.Addr, p netip.Prefix) bool {
	first, last := p.Addr().Next(), spec.LastAddr(p)
	if addr.Is4() {
		last = last.Prev() // the broadcast address
	}
	cure := fmt.Sprintf("write a free address of yours from %s to %s", first, last)
	if p.IsSingleIP() {
		cure = fmt.Sprintf("%s has no other address: write a wider network, or in each node network: {prefix: ADDRESS/%d}", p, p.Bits())
	}
	switch {
	case p.IsSingleIP() && addr == p.Addr():
		return true
	case !p.Contains(addr):
		r.Wrong(at, fmt.Sprintf("%s %s is outside the network %s", name, addr, p), cure)
	case addr == p.Addr():
		r.Wrong(at, fmt.Sprintf("%s %s is the network's own", name, addr), cure)
	case addr.Is4() && addr == spec.LastAddr(p):
		r.Wrong(at, fmt.Sprintf("%s %s is the broadcast address of %s", name, addr, p), cure)
	default:
		return true
	}
	return false
}

// vip checks the API's virtual address against the servers' networks.
func (r networkSection) vip() {
	at, vip := &r.spec.K3s.VIP, r.spec.K3s.VIP
	servers, leased := 0, false
	for _, n := range r.nodes {
		if n.Role != spec.Server {
			continue
		}
		servers++
		leased = leased || n.Network.DHCP && n.DHCP()
		net := n.Network
		if !vip.IsValid() || n.External || !net.Prefix.IsValid() || net.Prefix != net.Prefix.Masked() {
			continue
		}
		if r.insidePrefix(at, "vip", vip, net.Prefix) && vip == net.Gateway {
			r.Wrong(at, fmt.Sprintf("vip %s is the gateway's address", vip), "write an unused address")
		}
	}
	switch {
	case !vip.IsValid() && servers == 2:
		r.Wrong(at, "2 servers without a vip are worse than one: etcd stops as soon as either is down, and nodes that joined through it lose the API",
			"write 1 server or 3, and with 3 k3s: {vip: ...} with a free address of the nodes' network")
	case !vip.IsValid() && servers > 1:
		r.Wrong(at, fmt.Sprintf("%d servers have no vip: nodes that joined through a server lose the API when it is down", servers), "write k3s: {vip: ...} with a free address of the nodes' network")
	case !vip.IsValid() && leased:
		r.Wrong(at, "the server gets its address from DHCP and there is no vip, so the API has no known address", "give the server an address, or write k3s: {vip: ...} with a free one of its network")
	case r.spec.K3s.VIPInterface != "" && !vip.IsValid():
		r.Wrong(&r.spec.K3s.VIPInterface, "vipInterface has no effect without vip", "write vip: beside it")
	}
}

// network resolves one network section; its checks need the nodes, and come later.
func (r networkSection) network(n *spec.Network) {
	if len(n.DNS) == 0 && n.Gateway.IsValid() && !n.DHCP {
		n.DNS = []netip.Addr{n.Gateway}
	}
	r.CheckRange(&n.VLAN, "vlan", 1, 4094)
	r.mtu(&n.MTU)
	r.CheckRange(&n.Queues, "queues", 1, 64)
	r.bridge(&n.Bridge)
	for i, s := range n.Search {
		if !decode.IsDNSName(s) {
			r.Wrong(&n.Search[i], fmt.Sprintf("%q is not a domain", s), "write e.g. home.arpa")
		}
	}
}

func (r networkSection) mtu(at *int) {
	if *at == 1 {
		r.Wrong(at, "mtu: 1 is Proxmox's word for the bridge's MTU", "remove it: that is the default")
		return
	}
	r.CheckRange(at, "mtu", 576, 65520)
}

func (r networkSection) bridge(at *string) {
	if r.spec.HasHarvester() {
		if r.IsSet(at) && !decode.Matches(nameIn, *at) {
			r.Wrong(at, fmt.Sprintf("%q cannot be a VM network of Harvester", *at), "write NAMESPACE/NAME, e.g. default/vlan10")
		}
		return
	}
	if !decode.Matches(`^[A-Za-z][A-Za-z0-9_.-]{0,14}$`, *at) {
		r.Wrong(at, fmt.Sprintf("%q cannot be a bridge's name", *at), "write the name that the host's network page shows, e.g. vmbr0")
	}
}
