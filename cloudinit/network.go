package cloudinit

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
)

// Network is a network-config of version 2, which Ubuntu hands to netplan.
type Network struct {
	Version   int                 `yaml:"version"`
	Ethernets map[string]Ethernet `yaml:"ethernets"`
}

// Ethernet is one interface.
type Ethernet struct {
	Match          Match        `yaml:"match"`
	SetName        string       `yaml:"set-name"`
	DHCP4          bool         `yaml:"dhcp4"`
	DHCPIdentifier string       `yaml:"dhcp-identifier,omitempty"`
	DHCP4Overrides *Overrides   `yaml:"dhcp4-overrides,omitempty"`
	AcceptRA       *bool        `yaml:"accept-ra,omitempty"` // nil: routers' IPv6 addresses, routes and DNS servers are taken
	Addresses      []string     `yaml:"addresses,omitempty"` // address/prefix length
	Routes         []Route      `yaml:"routes,omitempty"`
	Nameservers    *Nameservers `yaml:"nameservers,omitempty"`
	MTU            int          `yaml:"mtu,omitempty"`      // bytes
	Optional       bool         `yaml:"optional,omitempty"` // the boot does not wait for it
}

// Match finds the interface. The MAC address is in lower case, as Linux prints it; Proxmox
// uses upper case.
type Match struct {
	MAC string `yaml:"macaddress"`
}

// Route is one route. OnLink says that the interface reaches Via though none of its networks
// contains it; netplan knows it, and cloud-init passes it on.
type Route struct {
	To     string `yaml:"to"`
	Via    string `yaml:"via"`
	OnLink bool   `yaml:"on-link,omitempty"`
}

// Overrides say what of a DHCP server's answer is used beside the address.
type Overrides struct {
	Routes  bool `yaml:"use-routes"` // the default route among them
	DNS     bool `yaml:"use-dns"`
	Domains bool `yaml:"use-domains"`
}

// Nameservers are asked in order.
type Nameservers struct {
	Addresses []string `yaml:"addresses,omitempty"`
	Search    []string `yaml:"search,omitempty"`
}

// Card is a further network card of a machine, found by its MAC address, so that no other card
// changes its name.
type Card struct {
	Name    string // of the interface; not eth0, the first card's
	MAC     string
	Address netip.Prefix // the zero Prefix: none, or DHCP
	DHCP    bool         // an IPv4 address from a DHCP server; neither routes nor DNS servers
	MTU     int          // bytes; 0 means the interface's own
	Routes  []Route
}

// interfaceName is the name of the machine's first interface, whatever its slot.
const interfaceName = "eth0"

var interfaces = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,14}$`)

// Render returns the document that cloud-init reads.
func (n Network) Render() ([]byte, error) {
	b, err := marshal(n)
	if err != nil {
		return nil, fmt.Errorf("render network-config: %w", err)
	}
	return b, nil
}

func (m Machine) network() (Network, error) {
	mac, err := net.ParseMAC(m.MAC)
	if err != nil || len(mac) != 6 {
		return Network{}, fmt.Errorf("MAC address %q: want six bytes, such as bc:24:11:00:00:01", m.MAC)
	}
	eth := Ethernet{Match: Match{MAC: mac.String()}, SetName: interfaceName, MTU: m.MTU}
	if len(m.DNS) > 0 || len(m.Search) > 0 {
		eth.Nameservers = &Nameservers{Search: m.Search}
		for _, a := range m.DNS {
			eth.Nameservers.Addresses = append(eth.Nameservers.Addresses, a.String())
		}
	}
	if err := m.address(&eth); err != nil {
		return Network{}, err
	}
	if err := m.address6(&eth); err != nil {
		return Network{}, err
	}
	n := Network{Version: 2, Ethernets: map[string]Ethernet{interfaceName: eth}}
	for _, c := range m.Cards {
		if n.Ethernets[c.Name], err = c.ethernet(); err != nil {
			return Network{}, err
		}
	}
	if len(n.Ethernets) != 1+len(m.Cards) {
		return Network{}, errors.New("two network cards have one name, or that of the first, " + interfaceName)
	}
	return n, nil
}

func (c Card) ethernet() (Ethernet, error) {
	mac, err := net.ParseMAC(c.MAC)
	switch {
	case !interfaces.MatchString(c.Name):
		return Ethernet{}, fmt.Errorf("network card %q: want at most 15 lower-case letters, digits, _ and -", c.Name)
	case err != nil || len(mac) != 6:
		return Ethernet{}, fmt.Errorf("network card %s: MAC address %q: want six bytes, such as bc:24:11:00:00:01", c.Name, c.MAC)
	}
	// Without optional a boot waits two minutes for a card without a link or an address
	// (systemd-networkd-wait-online).
	e := Ethernet{Match: Match{MAC: mac.String()}, SetName: c.Name, MTU: c.MTU, Routes: c.Routes, AcceptRA: new(bool), Optional: true}
	if c.Address.IsValid() {
		e.Addresses = []string{c.Address.String()}
	} else if c.DHCP {
		e.DHCP4, e.DHCPIdentifier, e.DHCP4Overrides = true, "mac", &Overrides{}
	}
	return e, nil
}

func (m Machine) address(eth *Ethernet) error {
	if !m.Address.IsValid() {
		if m.Gateway.IsValid() {
			return errors.New("a gateway without an address: give the machine an address, or leave both to DHCP")
		}
		// By default the DHCP client identifies itself with the machine-id, which clones of an
		// image may share.
		eth.DHCP4, eth.DHCPIdentifier = true, "mac"
		return nil
	}
	eth.Addresses = []string{m.Address.String()}
	if !m.Gateway.IsValid() {
		return nil
	}
	return eth.defaultRoute(m.Address, m.Gateway)
}

// address6 adds the address of IPv6. With a router of its own the card has nothing that others announce,
// so that its address is the one that nodes know.
func (m Machine) address6(eth *Ethernet) error {
	switch {
	case !m.Address6.IsValid():
		return nil
	case m.Address.Addr().Is6() || !m.Address6.Addr().Is6():
		return fmt.Errorf("addresses %s and %s: want one of IPv4 and one of IPv6", m.Address, m.Address6)
	}
	eth.Addresses = append(eth.Addresses, m.Address6.String())
	if !m.Gateway6.IsValid() {
		return nil
	}
	eth.AcceptRA = new(bool)
	return eth.defaultRoute(m.Address6, m.Gateway6)
}

func (eth *Ethernet) defaultRoute(address netip.Prefix, gateway netip.Addr) error {
	if gateway.BitLen() != address.Addr().BitLen() || gateway == address.Addr() {
		return fmt.Errorf("gateway %s: want another address of the family of %s", gateway, address.Addr())
	}
	eth.Routes = append(eth.Routes, Route{
		To: netip.PrefixFrom(unspecifiedAddress(gateway), 0).String(), Via: gateway.String(),
		// Providers that rent hosts give an address whose router is outside of its network.
		OnLink: !address.Masked().Contains(gateway),
	})
	return nil
}

func unspecifiedAddress(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}
