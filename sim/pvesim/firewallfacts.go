package pvesim

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

// firewallFacts is what firewallYAML holds.
type firewallFacts struct {
	Macros    map[string]fwMacro `yaml:"macros"`
	ICMP      string             `yaml:"icmp"`      // types
	ICMPv6    string             `yaml:"icmpv6"`    // types
	Protocols string             `yaml:"protocols"` // number=name
	Services  string             `yaml:"services"`

	icmp, icmpv6, protocols, services map[string]bool
	preferred                         map[string]string // macros by their name in small letters
}

// fwMacro stands for several rules.
type fwMacro struct {
	About     string   `yaml:"about"`
	IPVersion int      `yaml:"ipversion"` // 0 where it is for both
	Rules     []string `yaml:"rules"`     // key=value, with blanks between
	IPv6      []string `yaml:"ipv6"`
}

var fwFacts = sync.OnceValue(func() *firewallFacts {
	f := &firewallFacts{preferred: map[string]string{}}
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
	f.icmp, f.icmpv6, f.protocols, f.services = set(f.ICMP), set(f.ICMPv6), set(f.Protocols), set(f.Services)
	for name := range f.Macros {
		f.preferred[strings.ToLower(name)] = name
	}
	return f
})

// hasPorts reports whether a protocol has ports.
func hasPorts(proto string) bool {
	switch proto {
	case "udp", "17", "udplite", "136", "tcp", "6", "dccp", "33", "sctp", "132":
		return true
	}
	return false
}

func isICMP(proto string) bool { return proto == "icmp" || proto == "icmpv6" || proto == "ipv6-icmp" }
