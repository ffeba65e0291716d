package guest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/network"
	"github.com/goccy/go-yaml"
)

// netplanFile is where cloud-init leaves the network's configuration.
const netplanFile = "/etc/netplan/50-cloud-init.yaml"

// netplan is version 2 of the network configuration, as far as it matters here.
type netplan struct {
	Version   int                 `yaml:"version"`
	Ethernets map[string]ethernet `yaml:"ethernets"`
}

type ethernet struct {
	Match struct {
		MAC  any    `yaml:"macaddress"`
		Name string `yaml:"name"`
	} `yaml:"match"`
	SetName   string `yaml:"set-name"`
	DHCP4     bool   `yaml:"dhcp4"`
	Addresses []any  `yaml:"addresses"`
}

// networkUp brings up the cards as netplan's file says; without one, none.
func (s *system) networkUp() {
	data, err := s.root().ReadFile(netplanFile)
	if err != nil {
		return
	}
	var file struct {
		Network netplan `yaml:"network"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		s.log("systemd-networkd.service", "netplan: %v", err)
		return
	}
	ifaces := []Interface{{Name: "lo", Addrs: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}}}
	for i, mac := range s.cfg.MACs {
		card := Interface{Name: "enp0s" + string(rune('0'+(18+i)/10)) + string(rune('0'+(18+i)%10)), MAC: strings.ToLower(mac)}
		for name, e := range file.Network.Ethernets {
			if !e.fits(name, card) {
				continue
			}
			if e.SetName != "" {
				card.Name = e.SetName
			}
			card.Addrs = s.addresses(e)
			break
		}
		ifaces = append(ifaces, card)
	}
	s.setInterfaces(ifaces)
	for _, c := range ifaces {
		s.put("/sys/class/net/"+c.Name+"/address", c.MAC+"\n", 0o444)
	}
	if s.cfg.Network == nil || !s.enter() {
		return
	}
	defer s.leave()
	for _, c := range ifaces[1:] {
		for _, a := range c.Addrs {
			s.cfg.Network.Register(a.Addr(), s.answers())
		}
	}
}

// fits reports whether an entry is about a card. The MAC must be a string in
// lower case: upper case does not match, and an unquoted one of digits only has
// been read by YAML as a number.
func (e ethernet) fits(name string, card Interface) bool {
	if e.Match.MAC != nil {
		mac, ok := e.Match.MAC.(string)
		return ok && mac == card.MAC
	}
	if e.Match.Name != "" {
		return strings.HasPrefix(card.Name, strings.TrimSuffix(e.Match.Name, "*"))
	}
	return name == card.Name
}

func (s *system) addresses(e ethernet) []netip.Prefix {
	var out []netip.Prefix
	for _, a := range e.Addresses {
		text, _ := a.(string)
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p)
		}
	}
	if e.DHCP4 && s.cfg.Network != nil {
		// systemd-networkd's identifier comes from the machine-id: two clones
		// with one machine-id share one lease.
		id, _ := s.root().ReadFile("/etc/machine-id")
		if p, ok := network.Lease(s.cfg.Network, strings.TrimSpace(string(id))); ok {
			out = append(out, p)
		}
	}
	return out
}

// runIP is ip addr and ip link, plain, -br and -j.
func runIP(_ context.Context, p *proc) int {
	opts, args := flags(strings.Fields(strings.ReplaceAll(strings.Join(p.args[1:], " "), "-br", "--brief")))
	ifaces := p.sys.interfaces()
	if len(args) == 0 || !strings.HasPrefix("address", args[0]) && args[0] != "link" {
		_ = p.fail("only addr and link are simulated")
		return 255
	}
	if len(args) > 1 && args[1] != "show" && args[1] != "list" {
		_ = p.fail("%s is not simulated", args[1])
		return 255
	}
	if of := args[min(2, len(args)):]; len(of) > 0 {
		name := of[len(of)-1] // … show NAME, … show dev NAME
		ifaces = slices.DeleteFunc(slices.Clone(ifaces), func(f Interface) bool { return of[0] == "master" || f.Name != name })
		if len(ifaces) == 0 && of[0] != "master" {
			fmt.Fprintf(p.stderr, "Device %q does not exist.\n", name)
			return 1
		}
	}
	if has(opts, "j", "json") {
		return p.ipJSON(ifaces)
	}
	for i, f := range ifaces {
		if has(opts, "brief", "o") {
			var addrs []string
			for _, a := range f.Addrs {
				addrs = append(addrs, a.String())
			}
			p.printf("%-16s UP             %s\n", f.Name, strings.Join(addrs, " "))
			continue
		}
		p.printf("%d: %s: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 state UP\n    link/ether %s brd ff:ff:ff:ff:ff:ff\n", i+1, f.Name, f.MAC)
		for _, a := range f.Addrs {
			p.printf("    inet %s scope global %s\n", a, f.Name)
		}
	}
	return 0
}
