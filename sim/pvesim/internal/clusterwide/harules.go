package clusterwide

import (
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// Rules of high availability are kept; nothing is ever moved by them.

func haRuleHandlers() map[string]world.Handler {
	const one = "/cluster/ha/rules/{rule}"
	const resource = "/cluster/ha/resources/{sid}"
	return map[string]world.Handler{
		"POST " + resource + "/migrate":  moveHAResource,
		"POST " + resource + "/relocate": moveHAResource,

		"GET /cluster/ha/rules":  listHARules,
		"POST /cluster/ha/rules": createHARule,
		"GET " + one:             getHARule,
		"PUT " + one:             updateHARule,
		"DELETE " + one:          deleteHARule,
	}
}

// haRule is a rule as it is read; rules without an order are as old as their number.
func haRule(c *world.Call, id string) map[string]any {
	out := map[string]any{"rule": id, "digest": world.DigestOf(c.State.HARules), "order": slices.Index(c.State.HARuleOrder, id) + 1}
	kind := c.State.HARules[id]["type"]
	for k, v := range c.State.HARules[id] {
		out[k] = v
		if p := c.State.Schema.Methods["POST /cluster/ha/rules"].Variants[kind][k]; p != nil && p.Type == "boolean" {
			out[k] = schema.Atoi(v)
		}
	}
	return out
}

func listHARules(c *world.Call) (any, error) {
	out := []any{}
	for _, id := range c.State.HARuleOrder {
		r := c.State.HARules[id]
		if t := c.Param("type"); t != "" && t != r["type"] {
			continue
		}
		if sid := c.Param("resource"); sid != "" && !slices.Contains(schema.SplitList(r["resources"]), sid) {
			continue
		}
		out = append(out, haRule(c, id))
	}
	return out, nil
}

func getHARule(c *world.Call) (any, error) {
	id := c.Param("rule")
	if c.State.HARules[id] == nil {
		return nil, answer.Die("no such ha rule '%s'", id)
	}
	return haRule(c, id), nil
}

// fits refuses a rule about resources or nodes that there are not.
func fits(c *world.Call, rule map[string]string) error {
	for _, sid := range schema.SplitList(rule["resources"]) {
		if c.State.Entries(world.Register{Path: "/cluster/ha/resources"})[sid] == nil {
			return answer.Die("cannot use unmanaged resource(s) %s.", sid)
		}
	}
	for _, node := range schema.SplitList(rule["nodes"]) {
		name, _, _ := strings.Cut(node, ":")
		if c.State.Hosts[name] == nil {
			return answer.Die("cannot use non-existent node(s) %s.", name)
		}
	}
	return nil
}

// feasible refuses a rule that can do nothing, or that the nodes which take part in
// high availability are too few for (PVE/HA/Rules/ResourceAffinity.pm).
func feasible(c *world.Call, id string, rule map[string]string) error {
	if rule["type"] != "resource-affinity" || rule["disable"] == "1" {
		return nil
	}
	var why []string
	n := len(schema.SplitList(rule["resources"]))
	if n < 2 {
		why = append(why, "rule is ineffective as there are less than two resources")
	}
	if rule["affinity"] == "negative" && n > len(c.State.Nodes()) {
		why = append(why, "rule defines more resources than available nodes")
	}
	if why == nil {
		return nil
	}
	return answer.Die("400 Rule '%s' is invalid.\nresources: %s", id, strings.Join(why, ", "))
}

func createHARule(c *world.Call) (any, error) {
	id := c.Param("rule")
	const failed = "create ha rule failed"
	if c.State.HARules[id] != nil {
		return nil, answer.UserConfig(failed, answer.Die("HA rule '%s' already defined", id))
	}
	rule := c.Section("rule")
	if rule["disable"] == "0" {
		delete(rule, "disable")
	}
	err := fits(c, rule)
	if err == nil {
		err = feasible(c, id, rule)
	}
	if err != nil {
		return nil, answer.UserConfig(failed, err)
	}
	if c.State.HARules == nil {
		c.State.HARules = map[string]map[string]string{}
	}
	c.State.HARules[id] = rule
	c.State.HARuleOrder = append(c.State.HARuleOrder, id)
	return nil, nil
}

func updateHARule(c *world.Call) (any, error) {
	id := c.Param("rule")
	const failed = "update HA rules failed"
	if err := c.CheckDigest(world.DigestOf(c.State.HARules)); err != nil {
		return nil, answer.UserConfig(failed, err)
	}
	rule := c.State.HARules[id]
	if rule == nil {
		return nil, answer.UserConfig(failed, answer.Die("HA rule '%s' does not exist", id))
	}
	given := c.Section("rule")
	if given["type"] != rule["type"] {
		return nil, answer.UserConfig(failed, answer.Die("unexpected property 'type'"))
	}
	if given["disable"] == "0" {
		delete(given, "disable")
		delete(rule, "disable")
	}
	changed := maps.Clone(rule)
	for _, k := range schema.SplitList(c.Param("delete")) {
		delete(changed, k)
	}
	maps.Copy(changed, given)
	err := fits(c, given)
	if err == nil {
		err = feasible(c, id, changed)
	}
	if err != nil {
		return nil, answer.UserConfig(failed, err)
	}
	c.State.HARules[id] = changed
	return nil, nil
}

func deleteHARule(c *world.Call) (any, error) {
	id := c.Param("rule")
	delete(c.State.HARules, id)
	c.State.HARuleOrder = slices.DeleteFunc(c.State.HARuleOrder, func(r string) bool { return r == id })
	return nil, nil
}

// moveHAResource asks the manager, who has time; whether there is such a node is his
// to find out (PVE/API2/HA/Resources.pm, migrate).
func moveHAResource(c *world.Call) (any, error) {
	resources := world.Register{Path: "/cluster/ha/resources", ID: "sid"}
	id := entryID(c, resources)
	if e := c.State.Entries(resources)[id]; e == nil || slices.Equal(e["state"], []string{"ignored"}) {
		return nil, answer.Die("resource '%s' is not HA managed", id)
	}
	return map[string]any{"sid": id, "requested-node": c.Param("node")}, nil
}
