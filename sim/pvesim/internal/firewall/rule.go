package firewall

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// ruleProblem is something that is wrong with a rule.
type ruleProblem struct{ param, text string }

// ruleCheck checks a rule against what a firewall knows (PVE/Firewall.pm, verify_rule).
type ruleCheck struct {
	rule     map[string]string
	of       string          // cluster, host, vm or group: whose rule it is
	cluster  *world.Firewall // nil never
	own      *world.Firewall // of a host or a machine, else nil
	version  int             // of IP, as far as the rule tells
	problems []ruleProblem
}

func (k *ruleCheck) add(param, format string, args ...any) {
	k.problems = append(k.problems, ruleProblem{param, strings.TrimSuffix(fmt.Sprintf(format, args...), "\n")})
}

// directions are the types of rules that a firewall has.
func directions(of string) []string {
	switch of {
	case "vm":
		return []string{"in", "out", "group"}
	case "group":
		return []string{"in", "out", "forward"}
	}
	return []string{"in", "out", "forward", "group"}
}

// run finds all that is wrong, the first of it first; the rule is put right where it
// only says something in another way.
func (k *ruleCheck) run() {
	k.action()
	if iface := k.rule["iface"]; iface != "" {
		if k.of == "group" {
			k.add("type", "parameter -i not allowed for this rule type")
		}
		if k.of == "vm" && !guestInterface.MatchString(iface) {
			k.add("iface", `value does not match the regex pattern 'net\d+'`)
		}
	}
	if m := k.rule["macro"]; m != "" {
		if name := schema.FirewallFacts().Preferred[strings.ToLower(m)]; name != "" {
			k.rule["macro"] = name
		} else {
			k.add("macro", "unknown macro '%s'", m)
		}
	}
	k.protocol()
	for _, side := range []string{"source", "dest"} {
		k.address(side)
	}
	delete(k.rule, "ipversion")
	if k.version != 0 {
		k.rule["ipversion"] = strconv.Itoa(k.version)
	}
	if k.rule["macro"] != "" && len(k.problems) == 0 {
		k.macro()
	}
}

var (
	guestInterface = regexp.MustCompile(`^net\d+$`)
	ruleGroupName  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]+$`)
)

func (k *ruleCheck) action() {
	kind, action := k.rule["type"], k.rule["action"]
	for _, p := range []string{"type", "action"} {
		if k.rule[p] == "" {
			k.add(p, "missing property")
		}
	}
	if kind == "" {
		return
	}
	if !slices.Contains(directions(k.of), kind) {
		k.add("type", "invalid rule type '%s' for rule_env '%s'", kind, k.of)
	}
	switch {
	case kind == "group" && k.of == "group":
		k.add("type", "security groups not allowed")
	case kind == "group" && action != "" && !ruleGroupName.MatchString(action):
		k.add("action", "invalid characters in security group name")
	case kind == "group":
	case kind == "forward" && action == "REJECT":
		k.add("action", "cannot define REJECT rules on forward chain")
	case action != "" && action != "ACCEPT" && action != "DROP" && action != "REJECT":
		k.add("action", "unknown action '%s'", action)
	}
}

// is notes the version of IP that something in the rule is of.
func (k *ruleCheck) is(version int) (wrong string) {
	if version == 0 {
		return ""
	}
	if k.version != 0 && k.version != version {
		return "detected mixed ipv4/ipv6 addresses in rule"
	}
	k.version = version
	return ""
}

func (k *ruleCheck) protocol() {
	proto, facts := k.rule["proto"], schema.FirewallFacts()
	if proto != "" {
		if text := schema.ProtocolSpec(proto); text != "" {
			k.add("proto", "%s", text)
		}
		if schema.IsICMP(proto) {
			k.version = map[bool]int{true: 4, false: 6}[proto == "icmp"]
		}
	}
	k.ports("dport", schema.IsICMP(proto))
	if kind := k.rule["icmp-type"]; kind != "" {
		if !schema.IsICMP(proto) {
			k.add("proto", "missing property - 'icmp-type' requires this property")
		}
		if k.rule["dport"] != "" {
			k.add("icmp-type", "'icmp-type' cannot be specified together with 'dport'")
		}
		if proto == "icmp" && !facts.ICMPTypes[kind] || schema.IsICMP(proto) && proto != "icmp" && !facts.ICMPv6Types[kind] {
			k.add("icmp-type", "invalid icmp-type '%s' for proto '%s'", kind, proto)
		}
	}
	k.ports("sport", false)
}

func (k *ruleCheck) ports(param string, icmp bool) {
	ports, proto := k.rule[param], k.rule["proto"]
	if ports == "" {
		return
	}
	if text := schema.PortList(ports, icmp); text != "" {
		k.add(param, "%s", text)
	}
	if proto == "" {
		k.add("proto", "missing property - '%s' requires this property", param)
	}
	if !schema.HasPorts(proto) && !icmp {
		k.add(param, "protocol '%s' does not support ports", proto)
	}
}

var (
	setName   = regexp.MustCompile(`^\+(guest/|dc/|sdn/)?([A-Za-z][A-Za-z0-9_-]+)$`)
	aliasName = regexp.MustCompile(`^(guest/|dc/)?([A-Za-z][A-Za-z0-9_-]+)$`)
)

func (k *ruleCheck) address(param string) {
	value := k.rule[param]
	if value == "" {
		return
	}
	version, text := schema.AddressList(value)
	if text == "" {
		text = k.is(version)
	}
	if text != "" {
		k.add(param, "%s", text)
	}
	if strings.HasPrefix(value, "+") {
		m := setName.FindStringSubmatch(value)
		switch {
		case m == nil:
			k.add(param, "invalid ipset name '%s'", value)
		case k.cluster.Sets[m[2]] == nil && (k.own == nil || k.own.Sets[m[2]] == nil):
			k.add(param, "no such ipset '%s'", m[2])
		}
		return
	}
	m := aliasName.FindStringSubmatch(value)
	if m == nil {
		return
	}
	a := aliasIn(k.cluster, k.own, "", m[2]) // whatever scope is written before it (PVE/Firewall.pm, verify_rule)
	if a == nil {
		k.add(param, "no such alias '%s'", value)
		return
	}
	if text := k.is(versionOf(a["cidr"])); text != "" {
		k.add(param, "%s", text)
	}
}

// aliasIn finds an alias by a name with or without a scope.
func aliasIn(cluster, own *world.Firewall, scope, name string) map[string]string {
	name = strings.ToLower(name)
	if scope != "dc/" && own != nil && own.Aliases[name] != nil {
		return own.Aliases[name]
	}
	if scope != "guest/" {
		return cluster.Aliases[name]
	}
	return nil
}

func versionOf(cidr string) int {
	if strings.Contains(cidr, ":") {
		return 6
	}
	return 4
}

// macro checks a rule against those that its macro stands for (apply_macro).
func (k *ruleCheck) macro() {
	m := schema.FirewallFacts().Macros[k.rule["macro"]]
	if k.version != 0 && m.IPVersion != 0 && k.version != m.IPVersion {
		return
	}
	rules := m.Rules
	if k.version == 6 && m.IPv6 != nil {
		rules = m.IPv6
	}
	for _, text := range rules {
		for word := range strings.FieldsSeq(text) {
			key, is, _ := strings.Cut(word, "=")
			if given, there := k.rule[key]; there && given != is {
				k.add(key, "parameter '%s' already define in macro (value = '%s')", key, is)
				return
			}
		}
	}
}
