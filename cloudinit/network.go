package cloudinit

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
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
	Addresses      []string     `yaml:"addresses,omitempty"` // address/prefix length
	Routes         []Route      `yaml:"routes,omitempty"`
	Nameservers    *Nameservers `yaml:"nameservers,omitempty"`
	MTU            int          `yaml:"mtu,omitempty"` // bytes
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

// Nameservers are asked in order.
type Nameservers struct {
	Addresses []string `yaml:"addresses,omitempty"`
	Search    []string `yaml:"search,omitempty"`
}

// interfaceName is the name of the machine's only interface, whatever its slot.
const interfaceName = "eth0"

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
	return Network{Version: 2, Ethernets: map[string]Ethernet{interfaceName: eth}}, nil
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
	if m.Gateway.BitLen() != m.Address.Addr().BitLen() || m.Gateway == m.Address.Addr() {
		return fmt.Errorf("gateway %s: want another address of the family of %s", m.Gateway, m.Address.Addr())
	}
	eth.Routes = []Route{{
		To: netip.PrefixFrom(unspecified(m.Gateway), 0).String(), Via: m.Gateway.String(),
		// Providers that rent hosts give an address whose router is outside of its network.
		OnLink: !m.Address.Masked().Contains(m.Gateway),
	}}
	return nil
}

func unspecified(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}
