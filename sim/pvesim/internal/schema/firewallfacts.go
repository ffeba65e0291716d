package schema

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
)

// firewallYAML says what rules of a firewall may name.
//
//go:embed firewall.yaml
var firewallYAML []byte

// firewallTable is what firewallYAML holds.
type firewallTable struct {
	Macros    map[string]FirewallMacro `yaml:"macros"`
	ICMP      string                   `yaml:"icmp"`      // types
	ICMPv6    string                   `yaml:"icmpv6"`    // types
	Protocols string                   `yaml:"protocols"` // number=name
	Services  string                   `yaml:"services"`

	ICMPTypes, ICMPv6Types, ProtocolNames, ServiceNames map[string]bool
	Preferred                                           map[string]string // macros by their name in small letters
}

// FirewallMacro stands for several rules.
type FirewallMacro struct {
	About     string   `yaml:"about"`
	IPVersion int      `yaml:"ipversion"` // 0 where it is for both
	Rules     []string `yaml:"rules"`     // key=value, with blanks between
	IPv6      []string `yaml:"ipv6"`
}

// FirewallFacts are what rules of a firewall may name, read once.
var FirewallFacts = sync.OnceValue(func() *firewallTable {
	f := &firewallTable{Preferred: map[string]string{}}
	if err := yaml.Unmarshal(firewallYAML, f); err != nil {
		panic("pvesim: embedded firewall.yaml: " + err.Error())
	}
	set := func(text string) map[string]bool {
		out := map[string]bool{}
		for word := range strings.FieldsSeq(text) {
			for part := range strings.SplitSeq(word, "=") {
				out[part] = true
			}
		}
		return out
	}
	f.ICMPTypes, f.ICMPv6Types, f.ProtocolNames, f.ServiceNames = set(f.ICMP), set(f.ICMPv6), set(f.Protocols), set(f.Services)
	for name := range f.Macros {
		f.Preferred[strings.ToLower(name)] = name
	}
	return f
})

// HasPorts reports whether a protocol has ports.
func HasPorts(proto string) bool {
	switch proto {
	case "udp", "17", "udplite", "136", "tcp", "6", "dccp", "33", "sctp", "132":
		return true
	}
	return false
}

// IsICMP reports whether a protocol has types instead of ports.
func IsICMP(proto string) bool { return proto == "icmp" || proto == "icmpv6" || proto == "ipv6-icmp" }
