package config

import (
	"net/netip"
	"slices"

	"github.com/siderolabs/talos/pkg/machinery/cel"
	"github.com/siderolabs/talos/pkg/machinery/cel/celenv"
	"github.com/siderolabs/talos/pkg/machinery/config/config"
	"github.com/siderolabs/talos/pkg/machinery/config/types/network"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// link is our name of the first card. Kernel names change when a card is passed through, and Talos warns of
// names that look like the kernel's.
const link = "homelab"

// network names the machine, and puts the VIP on its first card.
func (w Wish) network() ([]config.Document, error) {
	name := network.NewHostnameConfigV1Alpha1()
	name.ConfigHostname = w.Node.Name
	docs := []config.Document{name}
	if w.Node.Role != spec.Server || !w.Spec.K3s.VIP.IsValid() {
		return docs, nil
	}
	match, err := cel.ParseBooleanExpression(`mac(link.permanent_addr) == "`+w.Node.MAC.String()+`"`, celenv.LinkLocator())
	if err != nil {
		return nil, err
	}
	alias := network.NewLinkAliasConfigV1Alpha1(link)
	alias.Selector.Match = match
	vip := network.NewLayer2VIPConfigV1Alpha1(w.Spec.K3s.VIP.String())
	vip.LinkName = link
	return append(docs, alias, vip), nil
}

// addresses are those that the node is known by, each a network of one address, so that neither the VIP nor
// another card's can be taken for it; none if a DHCP server gives them.
func (w Wish) addresses() []string {
	own := []netip.Prefix{w.Node.Address}
	if w.Spec.K3s.Network != "" {
		i := slices.IndexFunc(w.Node.Networks, func(c spec.Card) bool { return c.Name == w.Spec.K3s.Network })
		own[0] = w.Node.Networks[i].Address
	} else if len(w.Spec.K3s.PodCIDR) == 2 {
		own = append(own, w.Node.Address6)
	}
	var out []string
	for _, p := range own {
		if p.IsValid() {
			out = append(out, netip.PrefixFrom(p.Addr(), p.Addr().BitLen()).String())
		}
	}
	return out
}

func texts(ranges []netip.Prefix) []string {
	var out []string
	for _, r := range ranges {
		out = append(out, r.String())
	}
	return out
}
