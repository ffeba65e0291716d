package pvesim

import (
	"maps"
	"slices"
	"strings"
)

// Rules of high availability are kept; nothing is ever moved by them.

func haRuleHandlers() map[string]handler {
	const one = "/cluster/ha/rules/{rule}"
	const resource = "/cluster/ha/resources/{sid}"
	return map[string]handler{
		"POST " + resource + "/migrate":  (*call).moveHAResource,
		"POST " + resource + "/relocate": (*call).moveHAResource,

		"GET /cluster/ha/rules":  (*call).listHARules,
		"POST /cluster/ha/rules": (*call).createHARule,
		"GET " + one:             (*call).getHARule,
		"PUT " + one:             (*call).updateHARule,
		"DELETE " + one:          (*call).deleteHARule,
	}
}

// haRule is a rule as it is read; rules without an order are as old as their number.
func (c *call) haRule(id string) map[string]any {
	out := map[string]any{"rule": id, "digest": digestOf(c.s.haRules), "order": slices.Index(c.s.haRuleOrder, id) + 1}
	kind := c.s.haRules[id]["type"]
	for k, v := range c.s.haRules[id] {
		out[k] = v
		if p := c.s.schema.Methods["POST /cluster/ha/rules"].Variants[kind][k]; p != nil && p.Type == "boolean" {
			out[k] = atoi(v)
		}
	}
	return out
}

func (c *call) listHARules() (any, error) {
	out := []any{}
	for _, id := range c.s.haRuleOrder {
		r := c.s.haRules[id]
		if t := c.param("type"); t != "" && t != r["type"] {
			continue
		}
		if sid := c.param("resource"); sid != "" && !slices.Contains(splitList(r["resources"]), sid) {
			continue
		}
		out = append(out, c.haRule(id))
	}
	return out, nil
}

func (c *call) getHARule() (any, error) {
	id := c.param("rule")
	if c.s.haRules[id] == nil {
		return nil, die("no such ha rule '%s'", id)
	}
	return c.haRule(id), nil
}

// fits refuses a rule about resources or nodes that there are not.
func (c *call) fits(rule map[string]string) error {
	for _, sid := range splitList(rule["resources"]) {
		if c.s.entries(register{path: "/cluster/ha/resources"})[sid] == nil {
			return die("cannot use unmanaged resource(s) %s.", sid)
		}
	}
	for _, node := range splitList(rule["nodes"]) {
		name, _, _ := strings.Cut(node, ":")
		if c.s.hosts[name] == nil {
			return die("cannot use non-existent node(s) %s.", name)
		}
	}
	return nil
}

// feasible refuses a rule that can do nothing, or that the nodes which take part in
// high availability are too few for (PVE/HA/Rules/ResourceAffinity.pm).
func (c *call) feasible(id string, rule map[string]string) error {
	if rule["type"] != "resource-affinity" || rule["disable"] == "1" {
		return nil
	}
	var why []string
	n := len(splitList(rule["resources"]))
	if n < 2 {
		why = append(why, "rule is ineffective as there are less than two resources")
	}
	if rule["affinity"] == "negative" && n > len(c.s.nodes()) {
		why = append(why, "rule defines more resources than available nodes")
	}
	if why == nil {
		return nil
	}
	return die("400 Rule '%s' is invalid.\nresources: %s", id, strings.Join(why, ", "))
}

func (c *call) createHARule() (any, error) {
	id := c.param("rule")
	const failed = "create ha rule failed"
	if c.s.haRules[id] != nil {
		return nil, userConfig(failed, die("HA rule '%s' already defined", id))
	}
	rule := c.section("rule")
	if rule["disable"] == "0" {
		delete(rule, "disable")
	}
	err := c.fits(rule)
	if err == nil {
		err = c.feasible(id, rule)
	}
	if err != nil {
		return nil, userConfig(failed, err)
	}
	if c.s.haRules == nil {
		c.s.haRules = map[string]map[string]string{}
	}
	c.s.haRules[id] = rule
	c.s.haRuleOrder = append(c.s.haRuleOrder, id)
	return nil, nil
}

func (c *call) updateHARule() (any, error) {
	id := c.param("rule")
	const failed = "update HA rules failed"
	if err := c.checkDigest(digestOf(c.s.haRules)); err != nil {
		return nil, userConfig(failed, err)
	}
	rule := c.s.haRules[id]
	if rule == nil {
		return nil, userConfig(failed, die("HA rule '%s' does not exist", id))
	}
	given := c.section("rule")
	if given["type"] != rule["type"] {
		return nil, userConfig(failed, die("unexpected property 'type'"))
	}
	if given["disable"] == "0" {
		delete(given, "disable")
		delete(rule, "disable")
	}
	changed := maps.Clone(rule)
	for _, k := range splitList(c.param("delete")) {
		delete(changed, k)
	}
	maps.Copy(changed, given)
	err := c.fits(given)
	if err == nil {
		err = c.feasible(id, changed)
	}
	if err != nil {
		return nil, userConfig(failed, err)
	}
	c.s.haRules[id] = changed
	return nil, nil
}

func (c *call) deleteHARule() (any, error) {
	id := c.param("rule")
	delete(c.s.haRules, id)
	c.s.haRuleOrder = slices.DeleteFunc(c.s.haRuleOrder, func(r string) bool { return r == id })
	return nil, nil
}

// moveHAResource asks the manager, who has time; whether there is such a node is his
// to find out (PVE/API2/HA/Resources.pm, migrate).
func (c *call) moveHAResource() (any, error) {
	resources := register{path: "/cluster/ha/resources", id: "sid"}
	id := c.entryID(resources)
	if e := c.s.entries(resources)[id]; e == nil || slices.Equal(e["state"], []string{"ignored"}) {
		return nil, die("resource '%s' is not HA managed", id)
	}
	return map[string]any{"sid": id, "requested-node": c.param("node")}, nil
}

// leaveHARules takes a resource out of the rules that name it, and those that name
// nothing then.
func (s *state) leaveHARules(sid string) {
	for _, id := range slices.Clone(s.haRuleOrder) {
		left := slices.DeleteFunc(splitList(s.haRules[id]["resources"]), func(r string) bool { return r == sid })
		s.haRules[id]["resources"] = strings.Join(left, ",")
		if len(left) == 0 {
			delete(s.haRules, id)
			s.haRuleOrder = slices.DeleteFunc(s.haRuleOrder, func(r string) bool { return r == id })
		}
	}
}
