package netplan

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
)

// Programs returns the programs of network cards.
func Programs() map[string]machine.Program {
	return map[string]machine.Program{
		"ip":      runIP,
		"netplan": func(context.Context, *machine.Proc) int { return 0 },
	}
}

// File is where cloud-init leaves the network's configuration.
const File = "/etc/netplan/50-cloud-init.yaml"

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
	SetName    string `yaml:"set-name"`
	DHCP4      bool   `yaml:"dhcp4"`
	Identifier string `yaml:"dhcp-identifier"`
	Addresses  []any  `yaml:"addresses"`
}

// Up brings up the cards as netplan's file says; without one, none.
func Up(s *machine.System) {
	data, err := s.Root().ReadFile(File)
	if err != nil {
		return
	}
	var file struct {
		Network netplan `yaml:"network"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		s.Log("systemd-networkd.service", "netplan: %v", err)
		return
	}
	ifaces := []machine.Interface{{Name: "lo", Addrs: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}}}
	for i, mac := range s.Config.MACs {
		card := machine.Interface{Name: "enp0s" + string(rune('0'+(18+i)/10)) + string(rune('0'+(18+i)%10)), MAC: strings.ToLower(mac)}
		for name, e := range file.Network.Ethernets {
			if !e.fits(name, card) {
				continue
			}
			if e.SetName != "" {
				card.Name = e.SetName
			}
			card.Addrs = addresses(s, e, card.MAC)
			break
		}
		ifaces = append(ifaces, card)
	}
	s.SetInterfaces(ifaces)
	for _, c := range ifaces {
		s.Put("/sys/class/net/"+c.Name+"/address", c.MAC+"\n", 0o444)
	}
	if s.Config.Network == nil || !s.Enter() {
		return
	}
	defer s.Leave()
	for i, c := range ifaces {
		for j, a := range c.Addrs {
			if i+j > 0 { // the machine itself registers its first
				s.Config.Network.Register(a.Addr(), s.Answers())
			}
		}
	}
}

// fits reports whether an entry is about a card. The MAC must be a string in
// lower case: upper case does not match, and an unquoted one of digits only has
// been read by YAML as a number.
func (e ethernet) fits(name string, card machine.Interface) bool {
	if e.Match.MAC != nil {
		mac, ok := e.Match.MAC.(string)
		return ok && mac == card.MAC
	}
	if e.Match.Name != "" {
		return strings.HasPrefix(card.Name, strings.TrimSuffix(e.Match.Name, "*"))
	}
	return name == card.Name
}

func addresses(s *machine.System, e ethernet, mac string) []netip.Prefix {
	var out []netip.Prefix
	for _, a := range e.Addresses {
		text, _ := a.(string)
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p)
		}
	}
	if e.DHCP4 && s.Config.Network != nil {
		// systemd-networkd's identifier comes from the machine-id: two clones
		// with one machine-id share one lease.
		id, _ := s.Root().ReadFile("/etc/machine-id")
		if e.Identifier == "mac" {
			id = []byte(mac)
		}
		if p, ok := network.Lease(s.Config.Network, strings.TrimSpace(string(id))); ok {
			out = append(out, p)
		}
	}
	return out
}

// runIP is ip addr and ip link, plain and -br.
func runIP(_ context.Context, p *machine.Proc) int {
	opts, args := getopt.Parse(strings.Fields(strings.ReplaceAll(strings.Join(p.Args[1:], " "), "-br", "--brief")))
	ifaces := p.Sys.Interfaces()
	if len(args) == 0 || !strings.HasPrefix("address", args[0]) && args[0] != "link" {
		_ = p.Fail("only addr and link are simulated")
		return 255
	}
	if len(args) > 1 && args[1] != "show" && args[1] != "list" {
		_ = p.Fail("%s is not simulated", args[1])
		return 255
	}
	if of := args[min(2, len(args)):]; len(of) > 0 {
		name := of[len(of)-1] // … show NAME, … show dev NAME
		ifaces = slices.DeleteFunc(slices.Clone(ifaces), func(f machine.Interface) bool { return of[0] == "master" || f.Name != name })
		if len(ifaces) == 0 && of[0] != "master" {
			fmt.Fprintf(p.Stderr, "Device %q does not exist.\n", name)
			return 1
		}
	}
	for i, f := range ifaces {
		if getopt.Has(opts, "brief", "o") {
			var addrs []string
			for _, a := range f.Addrs {
				addrs = append(addrs, a.String())
			}
			p.Printf("%-16s UP             %s\n", f.Name, strings.Join(addrs, " "))
			continue
		}
		p.Printf("%d: %s: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 state UP\n    link/ether %s brd ff:ff:ff:ff:ff:ff\n", i+1, f.Name, f.MAC)
		for _, a := range f.Addrs {
			p.Printf("    inet %s scope global %s\n", a, f.Name)
		}
	}
	return 0
}
