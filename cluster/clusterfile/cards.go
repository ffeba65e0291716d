package clusterfile

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// cardsSection completes and checks a node's further network cards.
type cardsSection struct{ *resolver }

// maxCards is how many further cards a node has at most; Proxmox allows 32 in all.
const maxCards = 15

// poolCards gives the i-th node of a pool its addresses on further cards, where it has none of its own.
func (r cardsSection) poolCards(p *spec.Pool, i, count int, t, own *yamlnode.Node) *yamlnode.Node {
	for j := range p.Networks {
		c := &p.Networks[j]
		card := t.Get("networks").Get(c.Name).AsMap()
		mine := own.Get("networks").Get(c.Name)
		if card == nil || !r.IsSet(&c.Addresses) || mine.Has("addresses") {
			continue
		}
		all := decode.Addresses(c.Addresses, count)
		if i == 0 {
			if r.IsSet(&c.Address) {
				r.Wrong(&c.Address, fmt.Sprintf("the pool has addresses on %s, so this has no effect", c.Name), "remove it, or addresses")
			}
			nodesSection(r).enough(&c.Addresses, "addresses on "+c.Name, p.Name, len(all), count)
		}
		its := only("addresses", &yamlnode.Node{Kind: yamlnode.Null, At: card.At})
		if i < len(all) && !mine.Has("address") {
			at := r.Place(&c.Addresses[all[i].From])
			its.Fields = append(its.Fields, yamlnode.Field{Name: "address", At: at, Value: &yamlnode.Node{Kind: yamlnode.Text, Text: all[i].Value.String(), At: at}})
		}
		with := only("networks", only(c.Name, its))
		with.At = t.At
		t = decode.Merge(t, with)
	}
	return t
}

// only is a mapping with one key, at the place of its value.
func only(key string, value *yamlnode.Node) *yamlnode.Node {
	return &yamlnode.Node{Kind: yamlnode.Map, At: value.At, Fields: []yamlnode.Field{{Name: key, At: value.At, Value: value}}}
}

// cards completes the cards of one node.
func (r cardsSection) cards(n *spec.Node) {
	if len(n.Networks) > maxCards {
		r.Wrong(&n.Networks, fmt.Sprintf("the node has %d further network cards", len(n.Networks)), fmt.Sprintf("write %d or fewer", maxCards))
	}
	if n.External {
		n.Networks = nil
		return
	}
	for i := range n.Networks {
		c := &n.Networks[i]
		if !decode.Matches(`^[a-z][a-z0-9_-]{0,14}$`, c.Name) || decode.Matches(`^(eth[0-9]+|lo|cni.*|flannel.*|cilium.*|veth.*|kube.*|nodelocaldns)$`, c.Name) {
			r.Wrong(c, fmt.Sprintf("%q cannot be a network card's name, which is also that of its interface", c.Name),
				"write at most 15 lower-case letters, digits, hyphens and underscores, and no name that the first card (eth0) or pods' networks use, e.g. storage")
		}
		r.link(c)
		r.address(n, c)
		if c.MAC == (spec.MAC{}) {
			c.MAC = spec.StableMAC(r.spec.Name, n.Name+" "+c.Name)
		}
	}
}

// link checks how a card is connected.
func (r cardsSection) link(c *spec.Card) {
	if c.Bridge == "" {
		r.Wrong(c, fmt.Sprintf("the card %s has no bridge", c.Name), "write bridge: and one of the host's, e.g. vmbr1")
	} else {
		networkSection(r).bridge(&c.Bridge)
	}
	r.CheckRange(&c.VLAN, "vlan", 1, 4094)
	networkSection(r).mtu(&c.MTU)
}

// address completes and checks a card's address and routes.
func (r cardsSection) address(n *spec.Node, c *spec.Card) {
	addr, p, first := c.Address.Addr(), c.Prefix, n.Network.Prefix
	if n.Network.Prefix6.Overlaps(p) {
		first = n.Network.Prefix6
	}
	c.Address = netip.Prefix{}
	switch {
	case r.IsSet(&c.Addresses):
		r.Wrong(&c.Addresses, "addresses are for the nodes of a pool", "write address: here")
	case addr.IsValid() && c.DHCP:
		r.Wrong(&c.DHCP, fmt.Sprintf("the card %s has an address, and asks a DHCP server for one", c.Name), "remove address, or dhcp")
	case !addr.IsValid() && !c.DHCP && r.IsSet(&c.Routes):
		r.Wrong(&c.Routes, fmt.Sprintf("the card %s has routes and no address", c.Name), "write address: or dhcp: true beside them")
	case !addr.IsValid() && (!c.DHCP || !p.IsValid() && !r.IsSet(&c.Routes)):
	case !p.IsValid():
		at := any(&c.Address)
		if c.DHCP {
			at = &c.Routes
		}
		r.Wrong(at, fmt.Sprintf("the network of the card %s has no prefix", c.Name), "write prefix: beside it, e.g. prefix: 10.10.0.0/24")
	case p != p.Masked():
		r.Wrong(&c.Prefix, fmt.Sprintf("%s is an address in a network, not a network", p), "write "+p.Masked().String())
	case first.Overlaps(p):
		r.Wrong(&c.Prefix, fmt.Sprintf("%s shares addresses with the network of the node's first card, %s: answers would leave by the wrong one", p, first), "write another network, or remove the card")
	case c.DHCP:
		r.routes(c)
	case networkSection(r).insidePrefix(&c.Address, "address", addr, p):
		c.Address = netip.PrefixFrom(addr, p.Bits())
		r.routes(c)
	}
}

func (r cardsSection) routes(c *spec.Card) {
	for i := range c.Routes {
		to := &c.Routes[i]
		switch {
		case !to.To.IsValid() || to.To != to.To.Masked():
			r.Wrong(to, "a route leads to a network", "write to: and a network, e.g. to: 10.20.0.0/16")
		case to.To.Bits() == 0:
			r.Wrong(&to.To, "the default route is that of the first card", "write network: {gateway: …}, and here the networks behind this card's router")
		case !c.Prefix.Contains(to.Via) || to.Via == c.Address.Addr():
			r.Wrong(to, fmt.Sprintf("the route to %s has no router in %s", to.To, c.Prefix), "write via: and the router's address in that network")
		}
	}
}

// ofKubernetes checks that each machine has the card that k3s.network names, with an address.
func (r cardsSection) ofKubernetes() {
	name, at := r.spec.K3s.Network, &r.spec.K3s.Network
	if name == "" {
		return
	}
	for _, more := range []*map[string]any{&r.spec.K3s.ServerConfig, &r.spec.K3s.AgentConfig} {
		for _, key := range []string{"flannel-iface", "node-external-ip"} {
			if _, is := (*more)[key]; is {
				r.Wrong(r.MemberAt(more, key), key+" is set by k3s.network", "remove one of them")
			}
		}
	}
	for _, n := range r.nodes {
		i := slices.IndexFunc(n.Networks, func(c spec.Card) bool { return c.Name == name })
		switch {
		case n.External:
		case i < 0 || !n.Networks[i].Address.IsValid():
			r.Wrong(at, fmt.Sprintf("node %s has no card %s with an address", n.Name, name), "write it below networks: in defaults, with bridge and prefix, and an address for every node")
		case len(r.spec.K3s.PodCIDR) == 1 && n.Networks[i].Address.Addr().BitLen() != r.spec.K3s.PodCIDR[0].Addr().BitLen():
			r.Wrong(at, fmt.Sprintf("the card %s of node %s and k3s.podCIDR (%s) have addresses of two families", name, n.Name, r.spec.K3s.PodCIDR), "write addresses of one family")
		}
	}
}

// checkOverlaps checks that no two cards have a MAC or an address in common, and that pods and services do
// not have those of a card's network.
func (r cardsSection) checkOverlaps(n plannedNode, macs map[spec.MAC]any, addresses map[netip.Addr]any) {
	for i := range n.Networks {
		c := &n.Networks[i]
		unique(r.resolver, macs, c.MAC, &c.MAC, fmt.Sprintf("MAC %s is another card's", c.MAC), "write another, or leave it out")
		switch {
		case c.Address.IsValid():
			unique(r.resolver, addresses, c.Address.Addr(), &c.Address, fmt.Sprintf("address %s is another card's", c.Address.Addr()), "write another")
		case !c.DHCP:
			continue
		}
		for _, in := range []struct {
			who string
			all spec.Ranges
		}{{"pods", r.spec.K3s.PodCIDR}, {"services", r.spec.K3s.ServiceCIDR}} {
			for _, p := range in.all {
				if p.Overlaps(c.Prefix) {
					r.Wrong(&c.Prefix, fmt.Sprintf("%s (%s) and the network of the card %s (%s) share addresses", in.who, p, c.Name, c.Prefix), "write another network for one of them")
				}
			}
		}
	}
}
