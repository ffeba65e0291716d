package pvesim

import (
	"maps"
	"slices"
	"strings"
)

// firewall is a file of rules: the cluster's, a node's or a VM's. It is kept, and
// filters nothing.
type firewall struct {
	options map[string]string
	rules   []map[string]string
	aliases map[string]map[string]string
	sets    map[string]*ipset
	groups  map[string]*ruleGroup // of the cluster alone
}

type ipset struct {
	comment string
	members map[string]map[string]string // by CIDR
}

type ruleGroup struct {
	comment string
	rules   []map[string]string
}

func firewallHandlers() map[string]handler {
	out := map[string]handler{
		"GET /cluster/firewall":                       subdirs("name", "aliases", "groups", "ipset", "macros", "options", "refs", "rules"),
		"GET /nodes/{node}/firewall":                  subdirs("name", "log", "options", "rules"),
		"GET /nodes/{node}/qemu/{vmid}/firewall":      subdirs("name", "aliases", "ipset", "log", "options", "refs", "rules"),
		"GET /cluster/firewall/macros":                (*call).macros,
		"GET /cluster/firewall/groups":                (*call).listRuleGroups,
		"POST /cluster/firewall/groups":               (*call).createRuleGroup,
		"DELETE /cluster/firewall/groups/{group}":     (*call).deleteRuleGroup,
		"GET /nodes/{node}/qemu/{vmid}/firewall/log":  func(*call) (any, error) { return listing{[]any{map[string]any{"n": 1, "t": "no content"}}, 1}, nil },
		"GET /cluster/firewall/refs":                  (*call).references,
		"GET /nodes/{node}/qemu/{vmid}/firewall/refs": (*call).references,
	}
	for _, prefix := range []string{"/cluster/firewall", "/nodes/{node}/firewall", "/nodes/{node}/qemu/{vmid}/firewall"} {
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

// firewall returns that which a call is about.
func (c *call) firewall() (*firewall, error) {
	whose := "cluster"
	switch {
	case c.p.has("vmid"):
		if _, err := c.vm(); err != nil {
			return nil, err
		}
		whose = "vm/" + c.param("vmid")
	case c.p.has("node"):
		whose = "node/" + c.param("node")
	}
	if c.s.firewalls == nil {
		c.s.firewalls = map[string]*firewall{}
	}
	if c.s.firewalls[whose] == nil {
		c.s.firewalls[whose] = &firewall{options: map[string]string{}, aliases: map[string]map[string]string{}, sets: map[string]*ipset{}, groups: map[string]*ruleGroup{}}
	}
	return c.s.firewalls[whose], nil
}

// checkDigest refuses a change of what has changed since it was read.
func (c *call) checkDigest(now string) error {
	if d := c.param("digest"); d != "" && d != now {
		return die("detected modified configuration - file changed by other user? Try again.")
	}
	return nil
}

// firewallValue gives a value of a firewall file its JSON type.
func (c *call) firewallValue(k, v string) any {
	if k == "enable" || k == "pos" || k == "nomatch" {
		return atoi(v)
	}
	return c.s.typedAs("PUT /nodes/{node}/qemu/{vmid}/firewall/options", k, v)
}

func (c *call) firewallOptions() (any, error) {
	f, err := c.firewall()
	if err != nil {
		return nil, err
	}
	out := map[string]any{"digest": digestOf(f.options)}
	for k, v := range f.options {
		out[k] = c.firewallValue(k, v)
	}
	return out, nil
}

func (c *call) setFirewallOptions() (any, error) {
	f, err := c.firewall()
	if err != nil {
		return nil, err
	}
	if err := c.checkDigest(digestOf(f.options)); err != nil {
		return nil, err
	}
	for _, k := range splitList(c.param("delete")) {
		delete(f.options, k)
	}
	maps.Copy(f.options, c.section("vmid"))
	return nil, nil
}

// rules are those that a call is about, of a firewall or a security group.
func (c *call) rules() (*[]map[string]string, error) {
	f, err := c.firewall()
	if err != nil {
		return nil, err
	}
	if !c.p.has("group") {
		return &f.rules, nil
	}
	g := f.groups[c.param("group")]
	if g == nil {
		return nil, die("no such security group '%s'", c.param("group"))
	}
	return &g.rules, nil
}

func (c *call) rule(rules []map[string]string, i int) map[string]any {
	out := map[string]any{"pos": i, "digest": digestOf(rules)}
	for k, v := range rules[i] {
		out[k] = c.firewallValue(k, v)
	}
	return out
}

func (c *call) listRules() (any, error) {
	rules, err := c.rules()
	if err != nil {
		return nil, err
	}
	out := []any{}
	for i := range *rules {
		out = append(out, c.rule(*rules, i))
	}
	return out, nil
}

// position returns the rules of a call and the one that it names.
func (c *call) position() (*[]map[string]string, int, error) {
	rules, err := c.rules()
	if err != nil {
		return nil, 0, err
	}
	pos := c.p.int("pos", 0)
	if pos >= len(*rules) {
		return nil, 0, die("no rule at position %d", pos)
	}
	return rules, pos, c.checkDigest(digestOf(*rules))
}

func (c *call) getRule() (any, error) {
	rules, pos, err := c.position()
	if err != nil {
		return nil, err
	}
	return c.rule(*rules, pos), nil
}

// addRule puts a rule before the others, or where it is told to.
func (c *call) addRule() (any, error) {
	rules, err := c.rules()
	if err != nil {
		return nil, err
	}
	if err := c.checkDigest(digestOf(*rules)); err != nil {
		return nil, err
	}
	r := c.section("vmid", "pos")
	if c.param("type") != "group" && !slices.Contains([]string{"ACCEPT", "DROP", "REJECT"}, strings.ToUpper(r["action"])) {
		return nil, badParam("action", "unknown action '"+r["action"]+"'")
	}
	if c.p.has("group") {
		delete(r, "group")
	}
	pos := min(c.p.int("pos", 0), len(*rules))
	*rules = slices.Insert(*rules, pos, r)
	return nil, nil
}

func (c *call) changeRule() (any, error) {
	rules, pos, err := c.position()
	if err != nil {
		return nil, err
	}
	r := (*rules)[pos]
	if c.p.has("moveto") {
		*rules = slices.Delete(*rules, pos, pos+1)
		to := c.p.int("moveto", 0)
		if to > pos {
			to--
		}
		*rules = slices.Insert(*rules, min(to, len(*rules)), r)
		return nil, nil
	}
	for _, k := range splitList(c.param("delete")) {
		delete(r, k)
	}
	maps.Copy(r, c.section("vmid", "pos", "group", "moveto"))
	return nil, nil
}

func (c *call) deleteRule() (any, error) {
	rules, pos, err := c.position()
	if err != nil {
		return nil, err
	}
	*rules = slices.Delete(*rules, pos, pos+1)
	return nil, nil
}

func (c *call) listRuleGroups() (any, error) {
	f, err := c.firewall()
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, name := range sortedKeys(f.groups) {
		e := map[string]any{"group": name, "digest": digestOf(sortedKeys(f.groups))}
		if f.groups[name].comment != "" {
			e["comment"] = f.groups[name].comment
		}
		out = append(out, e)
	}
	return out, nil
}

func (c *call) createRuleGroup() (any, error) {
	f, err := c.firewall()
	if err != nil {
		return nil, err
	}
	name, old := c.param("group"), c.param("rename")
	switch {
	case old != "" && f.groups[old] == nil:
		return nil, badParam("group", "Security group '"+old+"' does not exist")
	case old != "" && old != name && f.groups[name] != nil:
		return nil, badParam("group", "Security group '"+name+"' does already exist")
	case old == "" && f.groups[name] != nil:
		return nil, badParam("group", "Security group '"+name+"' already exists")
	}
	g := f.groups[old]
	if g == nil {
		g = &ruleGroup{}
	}
	if c.p.has("comment") {
		g.comment = c.param("comment")
	}
	if err := c.checkDigest(digestOf(sortedKeys(f.groups))); err != nil {
		return nil, err
	}
	delete(f.groups, old)
	f.groups[name] = g
	return nil, nil
}

func (c *call) deleteRuleGroup() (any, error) {
	f, err := c.firewall()
	if err != nil {
		return nil, err
	}
	g := f.groups[c.param("group")]
	switch {
	case g == nil:
		return nil, nil
	case len(g.rules) > 0:
		return nil, die("Security group '%s' is not empty", c.param("group"))
	}
	delete(f.groups, c.param("group"))
	return nil, nil
}

func (c *call) macros() (any, error) {
	out := []any{}
	for _, m := range [][2]string{{"DNS", "Domain Name System traffic (upd and tcp)"}, {"HTTP", "Hypertext Transfer Protocol (WWW)"},
		{"HTTPS", "Hypertext Transfer Protocol (WWW) over SSL"}, {"Ping", "ICMP echo request"}, {"SSH", "Secure shell traffic"}} {
		out = append(out, map[string]any{"macro": m[0], "descr": m[1]})
	}
	return out, nil
}
