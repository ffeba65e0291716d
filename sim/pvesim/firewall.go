package pvesim

import (
	"crypto/sha1"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

func firewallHandlers() map[string]handler {
	out := map[string]handler{
		"GET /cluster/firewall/macros":                (*call).macros,
		"GET /cluster/firewall/groups":                (*call).listRuleGroups,
		"POST /cluster/firewall/groups":               (*call).createRuleGroup,
		"DELETE /cluster/firewall/groups/{group}":     (*call).deleteRuleGroup,
		"GET /nodes/{node}/qemu/{vmid}/firewall/log":  (*call).firewallLog,
		"GET /nodes/{node}/firewall/log":              (*call).firewallLog,
		"GET /cluster/firewall/refs":                  (*call).references,
		"GET /nodes/{node}/qemu/{vmid}/firewall/refs": (*call).references,
	}
	out["GET /nodes/{node}/lxc/{vmid}/firewall/log"] = (*call).firewallLog
	out["GET /nodes/{node}/lxc/{vmid}/firewall/refs"] = (*call).references
	for _, prefix := range []string{"/cluster/firewall", "/nodes/{node}/firewall", "/nodes/{node}/qemu/{vmid}/firewall", "/nodes/{node}/lxc/{vmid}/firewall"} {
		out["GET "+prefix+"/options"] = (*call).firewallOptions
		out["PUT "+prefix+"/options"] = (*call).setFirewallOptions
		maps.Copy(out, ruleHandlers(prefix+"/rules"))
		if prefix != "/nodes/{node}/firewall" {
			maps.Copy(out, aliasHandlers(prefix))
		}
	}
	maps.Copy(out, ruleHandlers("/cluster/firewall/groups/{group}"))
	out["DELETE /cluster/firewall/groups/{group}"] = (*call).deleteRuleGroup
	return out
}

func ruleHandlers(rules string) map[string]handler {
	return map[string]handler{
		"GET " + rules:               (*call).listRules,
		"POST " + rules:              (*call).addRule,
		"GET " + rules + "/{pos}":    (*call).getRule,
		"PUT " + rules + "/{pos}":    (*call).changeRule,
		"DELETE " + rules + "/{pos}": (*call).deleteRule,
	}
}

// firewall returns that which a call is about. Nobody asks whether there is such a
// machine (PVE/API2/Firewall/VM.pm).
func (c *call) firewall() *firewall {
	switch {
	case c.p.has("vmid"):
		return c.s.firewallOf("vm/" + c.param("vmid"))
	case c.p.has("node"):
		return c.s.firewallOf("node/" + c.param("node"))
	}
	return c.s.firewallOf("cluster")
}

func (s *state) firewallOf(whose string) *firewall {
	if s.firewalls == nil {
		s.firewalls = map[string]*firewall{}
	}
	if s.firewalls[whose] == nil {
		s.firewalls[whose] = &firewall{options: map[string]string{}, aliases: map[string]map[string]string{}, sets: map[string]*ipset{}, groups: map[string]*ruleGroup{}}
	}
	return s.firewalls[whose]
}

// cloneFirewall gives a machine the firewall of another, and removes the one it had
// (PVE/Firewall/Helpers.pm, clone_vmfw_conf).
func (s *state) cloneFirewall(from, to int) {
	delete(s.firewalls, "vm/"+strconv.Itoa(to))
	was := s.firewalls["vm/"+strconv.Itoa(from)]
	if was == nil {
		return
	}
	is := s.firewallOf("vm/" + strconv.Itoa(to))
	maps.Copy(is.options, was.options)
	for _, rule := range was.rules {
		is.rules = append(is.rules, maps.Clone(rule))
	}
	for name, alias := range was.aliases {
		is.aliases[name] = maps.Clone(alias)
	}
	for name, set := range was.sets {
		members := map[string]map[string]string{}
		for cidr, about := range set.members {
			members[cidr] = maps.Clone(about)
		}
		is.sets[name] = &ipset{comment: set.comment, members: members}
	}
}

// firewallLog is a log of what was never filtered, and never written.
func (c *call) firewallLog() (any, error) {
	return listing{[]any{map[string]any{"n": 1, "t": "unable to open file - No such file or directory"}}, 1}, nil
}

// firewallValue gives a value of a firewall file its JSON type.
func (c *call) firewallValue(k, v string) any {
	if k == "enable" || k == "ipversion" || k == "nomatch" {
		return atoi(v)
	}
	return c.s.typedAs(strings.Replace(c.route, "GET ", "PUT ", 1), k, v)
}

func (c *call) firewallOptions() (any, error) {
	f := c.firewall()
	out := map[string]any{"digest": digestOfObject(f.options)}
	for k, v := range f.options {
		out[k] = c.firewallValue(k, v)
	}
	return out, nil
}

func (c *call) setFirewallOptions() (any, error) {
	f := c.firewall()
	if err := c.checkDigest(digestOfObject(f.options)); err != nil {
		return nil, err
	}
	for _, k := range splitList(c.param("delete")) {
		if c.spec.Parameters[k] == nil || k == "delete" || k == "digest" || k == "node" || k == "vmid" {
			return nil, badParam("delete", "no such option '"+k+"'")
		}
		delete(f.options, k)
	}
	maps.Copy(f.options, c.section("vmid"))
	if enable := f.options["enable"]; c.route == "PUT /cluster/firewall/options" && atoi(enable) > 1 {
		f.options["enable"] = strconv.Itoa(int(time.Now().Unix())) // for a minute, so that one does not lock oneself out
	}
	return nil, nil
}

func (c *call) listRuleGroups() (any, error) {
	f := c.firewall()
	out := []any{}
	for _, name := range slices.Sorted(maps.Keys(f.groups)) {
		e := map[string]any{"group": name, "digest": digestOf(slices.Sorted(maps.Keys(f.groups)))}
		if f.groups[name].comment != "" {
			e["comment"] = f.groups[name].comment
		}
		out = append(out, e)
	}
	return out, nil
}

func (c *call) createRuleGroup() (any, error) {
	f := c.firewall()
	name, old := c.param("group"), c.param("rename")
	if old != "" {
		return nil, c.renameRuleGroup(f, old, name)
	}
	if f.groups[name] != nil {
		return nil, badParam("group", "Security group '"+name+"' already exists")
	}
	f.groups[strings.ToLower(name)] = &ruleGroup{comment: c.param("comment")}
	return nil, nil
}

// renameRuleGroup gives a group another name, in the rules that use it too.
func (c *call) renameRuleGroup(f *firewall, old, name string) error {
	if err := c.checkDigest(digestOf(slices.Sorted(maps.Keys(f.groups)))); err != nil {
		return err
	}
	switch {
	case f.groups[old] == nil:
		return badParam("group", "Security group '"+old+"' does not exist")
	case old != name && f.groups[name] != nil:
		return badParam("group", "Security group '"+name+"' does already exist")
	}
	g := f.groups[old]
	if c.p.has("comment") {
		g.comment = c.param("comment")
	}
	delete(f.groups, old)
	f.groups[strings.ToLower(name)] = g
	for _, one := range c.s.firewalls {
		for _, r := range one.rules {
			if r["type"] == "group" && r["action"] == old {
				r["action"] = name
			}
		}
	}
	return nil
}

func (c *call) deleteRuleGroup() (any, error) {
	f := c.firewall()
	g := f.groups[c.param("group")]
	switch {
	case g == nil:
		return nil, die("no such security group '%s'", c.param("group"))
	case len(g.rules) > 0:
		return nil, die("Security group '%s' is not empty", c.param("group"))
	}
	delete(f.groups, c.param("group"))
	return nil, nil
}

func (c *call) macros() (any, error) {
	out := []any{}
	for _, name := range slices.Sorted(maps.Keys(fwFacts().Macros)) {
		out = append(out, map[string]any{"macro": name, "descr": fwFacts().Macros[name].About})
	}
	return out, nil
}

// digestOfObject is the digest of a section of options (PVE/Firewall.pm,
// copy_opject_with_digest).
func digestOfObject(options map[string]string) string {
	sum := sha1.New()
	for _, k := range slices.Sorted(maps.Keys(options)) {
		_, _ = sum.Write([]byte(k + ":" + options[k] + "\n")) // never fails
	}
	return hex.EncodeToString(sum.Sum(nil))
}
