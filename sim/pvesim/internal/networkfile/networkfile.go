package networkfile

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
)

var (
	vlanOf    = regexp.MustCompile(`^(\S+)\.(\d+)$`)
	vlanNamed = regexp.MustCompile(`^vlan(\d+)$`)
)

// ports are the interfaces that another takes for itself.
func ports(e map[string]string) []string {
	return schema.SplitList(e["bridge_ports"] + " " + e["ovs_ports"] + " " + e["slaves"] + " " + e["ovs_bonds"])
}

// Conflicts says which of an interface's properties another has already
// (PVE/API2/Network.pm, check_duplicate).
func (all Interfaces) Conflicts(name string, e map[string]string) error {
	for _, other := range slices.Sorted(maps.Keys(all)) {
		if other == name {
			continue
		}
		o := all[other]
		switch {
		case e["gateway"] != "" && o["gateway"] != "":
			return answer.BadParam("gateway", "Default gateway already exists on interface '"+other+"'.")
		case e["gateway6"] != "" && o["gateway6"] != "":
			return answer.BadParam("gateway6", "Default ipv6 gateway already exists on interface '"+other+"'.")
		}
		for _, p := range ports(e) {
			if !slices.Contains(ports(o), p) {
				continue
			}
			for _, k := range []string{"bridge_ports", "ovs_ports", "slaves", "ovs_bonds"} {
				if e[k] != "" {
					return answer.BadParam(k, p+" is already used on interface '"+other+"'.")
				}
			}
		}
	}
	return nil
}

// Check refuses interfaces that do not fit together, as writing the file does
// (PVE/Network/Interfaces.pm).
func (all Interfaces) Check() error {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		e := all[name]
		switch e["type"] {
		case "bond":
			for _, p := range schema.SplitList(e["slaves"]) {
				switch n := all[p]; {
				case n == nil:
					return answer.Die("bond '%s' - unable to find slave '%s'", name, p)
				case n["type"] != "eth" && n["type"] != "bond":
					return answer.Die("bond '%s' - wrong interface type on slave '%s' ('%s' != 'eth or bond')", name, p, n["type"])
				}
			}
		case "vlan":
			if err := all.checkVLAN(name, e); err != nil {
				return err
			}
		case "bridge":
			for _, p := range schema.SplitList(e["bridge_ports"]) {
				n := all[p]
				if n == nil && !vlanOf.MatchString(p) {
					return answer.Die("bridge '%s' - unable to find bridge port '%s'", name, p)
				}
				if n["cidr"] != "" || n["cidr6"] != "" {
					return answer.Die("iface %s - ip address can't be set on interface if bridged in %s", p, name)
				}
			}
		}
	}
	return nil
}

func (all Interfaces) checkVLAN(name string, e map[string]string) error {
	parent, id := e["vlan-raw-device"], e["vlan-id"]
	if m := vlanOf.FindStringSubmatch(name); m != nil {
		parent, id = m[1], m[2]
	} else if m := vlanNamed.FindStringSubmatch(name); m != nil {
		id = m[1]
	}
	n := all[parent]
	switch {
	case parent == "":
		return answer.Die("missing vlan-raw-device option at /usr/share/perl5/PVE/Network/Interfaces.pm line 850.")
	case id == "":
		return answer.Die("missing vlan-id option at /usr/share/perl5/PVE/Network/Interfaces.pm line 861.")
	case schema.Atoi(id) > 4094:
		return answer.Die("vlan '%s' - vlan-id %s should be <= 4094", name, id)
	case n == nil:
		return answer.Die("vlan '%s' - unable to find parent '%s'", name, parent)
	case !slices.Contains([]string{"eth", "bridge", "bond", "vlan"}, n["type"]):
		return answer.Die("vlan '%s' - wrong interface type on parent '%s' ('%s' != 'eth|bond|bridge|vlan' )", name, parent, n["type"])
	}
	return nil
}

// Order are the names in the order of the file: ports before what is made of them,
// then as they stand in it, those that are new last.
func (all Interfaces) Order() []string {
	ranks := map[string]int{"eth": 1, "OVSPort": 1, "OVSIntPort": 2, "OVSBond": 3, "bond": 3, "bridge": 4, "OVSBridge": 4, "vlan": 5}
	rank := func(name string) int {
		root, _, child := strings.Cut(name, ".")
		at := schema.Atoi(all[name]["priority"])
		if at <= 0 {
			at = 50000
		}
		return 100000*ranks[all[root]["type"]] + answer.Flag(child) + at
	}
	names := slices.Sorted(maps.Keys(all))
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return names
}

// WithPriorities is the file as it is after it has been written: everything has its place.
// The first two are the loopback's.
func (all Interfaces) WithPriorities() Interfaces {
	out := Interfaces{}
	for i, name := range all.Order() {
		out[name] = maps.Clone(all[name])
		out[name]["priority"] = strconv.Itoa(3 + i)
	}
	return out
}

// Addresses fills in what an interface's addresses mean.
func Addresses(e map[string]any, said map[string]string) {
	families := []string{}
	for _, six := range []string{"", "6"} {
		e["method"+six] = "manual"
		if said["cidr"+six] == "" {
			continue
		}
		address, length, _ := strings.Cut(said["cidr"+six], "/")
		e["cidr"+six], e["address"+six], e["netmask"+six], e["method"+six] = said["cidr"+six], address, length, "static"
		families = append(families, "inet"+six)
	}
	if len(families) == 0 {
		families = []string{"inet"}
	}
	e["families"] = families
}

// Usual fills in what an interface is unless told otherwise.
func Usual(e map[string]any, name string, said map[string]string) {
	orElse := func(k, v string) {
		if said[k] == "" {
			e[k] = v
		}
	}
	switch said["type"] {
	case "bridge":
		orElse("bridge_stp", "off")
		orElse("bridge_fd", "0")
		orElse("bridge_ports", "")
		if e["bridge_vlan_aware"] != nil {
			orElse("bridge_vids", "2-4094")
		}
	case "alias":
		if !strings.Contains(name, ":") { // which is what tells
			e["type"] = "unknown"
		}
	case "bond":
		orElse("slaves", "")
		orElse("bond_miimon", "100")
		orElse("bond_mode", "balance-rr")
	case "vlan":
		e["exists"] = nil
		id := said["vlan-id"]
		if m := vlanOf.FindStringSubmatch(name); m != nil {
			e["vlan-raw-device"], id = m[1], m[2]
		} else if m := vlanNamed.FindStringSubmatch(name); m != nil {
			id = m[1]
		}
		if raw, _ := e["vlan-raw-device"].(string); strings.HasPrefix(raw, "eno") {
			e["exists"] = 1
		}
		e["vlan-id"] = id
	}
}

// Text is the file.
func (all Interfaces) Text() string {
	var b strings.Builder
	b.WriteString("auto lo\niface lo inet loopback\n\n")
	slaves := map[string]bool{}
	for _, e := range all {
		for _, p := range schema.SplitList(e["slaves"]) {
			slaves[p] = true
		}
	}
	for _, name := range all.Order() {
		e := all[name]
		if e["autostart"] == "1" || slaves[name] {
			fmt.Fprintf(&b, "auto %s\n", name)
		}
		all.stanza(&b, name, e)
	}
	return b.String()
}

func (all Interfaces) stanza(b *strings.Builder, name string, e map[string]string) {
	first := true
	for _, six := range []string{"", "6"} {
		if e["cidr"+six] == "" && (six == "6" || e["cidr6"] != "") {
			continue
		}
		method := "manual"
		if e["cidr"+six] != "" {
			method = "static"
		}
		fmt.Fprintf(b, "iface %s inet%s %s\n", name, six, method)
		if p, err := netip.ParsePrefix(e["cidr"+six]); err == nil {
			fmt.Fprintf(b, "\taddress %s\n", p)
		}
		if e["gateway"+six] != "" {
			fmt.Fprintf(b, "\tgateway %s\n", e["gateway"+six])
		}
		if first {
			b.WriteString(options(name, e))
		}
		first = false
		if six == "" || e["cidr"] == "" {
			for line := range strings.SplitSeq(strings.TrimRight(e["comments"], "\n"), "\n") {
				if line != "" {
					fmt.Fprintf(b, "#%s\n", line)
				}
			}
		}
		b.WriteString("\n")
	}
}

// options are the lines of an interface that depend on its type.
func options(name string, e map[string]string) string {
	or := func(k, usual string) string {
		if e[k] == "" {
			return usual
		}
		return e[k]
	}
	out := ""
	switch e["type"] {
	case "bridge":
		out = fmt.Sprintf("\tbridge-ports %s\n\tbridge-stp %s\n\tbridge-fd %s\n", or("bridge_ports", "none"), or("bridge_stp", "off"), or("bridge_fd", "0"))
		if e["bridge_vlan_aware"] == "1" {
			out += "\tbridge-vlan-aware yes\n\tbridge-vids " + or("bridge_vids", "2-4094") + "\n"
		}
	case "bond":
		out = fmt.Sprintf("\tbond-slaves %s\n\tbond-miimon %s\n\tbond-mode %s\n", or("slaves", "none"), or("bond_miimon", "100"), or("bond_mode", "balance-rr"))
	case "OVSBridge":
		return "\tovs_type OVSBridge\n\tovs_ports " + e["ovs_ports"] + "\n" + ovsMTU(e)
	case "OVSPort", "OVSIntPort", "OVSBond":
		out = "\tovs_type " + e["type"] + "\n\tovs_bridge " + e["ovs_bridge"] + "\n"
		if e["ovs_bonds"] != "" {
			out += "\tovs_bonds " + e["ovs_bonds"] + "\n"
		}
		return out + ovsMTU(e)
	case "vlan":
		if !vlanOf.MatchString(name) {
			if !vlanNamed.MatchString(name) {
				out = "\tvlan-id " + e["vlan-id"] + "\n"
			}
			out += "\tvlan-raw-device " + e["vlan-raw-device"] + "\n"
		}
	}
	if e["mtu"] != "" {
		out += "\tmtu " + e["mtu"] + "\n"
	}
	return out
}

func ovsMTU(e map[string]string) string {
	if e["mtu"] == "" {
		return ""
	}
	return "\tovs_mtu " + e["mtu"] + "\n"
}
