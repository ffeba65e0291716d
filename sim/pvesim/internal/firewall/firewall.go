package firewall

import (
	"crypto/sha1"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// Endpoints answer for the firewalls of cluster, nodes and machines.
func Endpoints() map[string]world.Handler {
	out := map[string]world.Handler{
		"GET /cluster/firewall/macros":                macros,
		"GET /cluster/firewall/groups":                listRuleGroups,
		"POST /cluster/firewall/groups":               createRuleGroup,
		"DELETE /cluster/firewall/groups/{group}":     deleteRuleGroup,
		"GET /nodes/{node}/qemu/{vmid}/firewall/log":  firewallLog,
		"GET /nodes/{node}/firewall/log":              firewallLog,
		"GET /cluster/firewall/refs":                  references,
		"GET /nodes/{node}/qemu/{vmid}/firewall/refs": references,
	}
	out["GET /nodes/{node}/lxc/{vmid}/firewall/log"] = firewallLog
	out["GET /nodes/{node}/lxc/{vmid}/firewall/refs"] = references
	for _, prefix := range []string{"/cluster/firewall", "/nodes/{node}/firewall", "/nodes/{node}/qemu/{vmid}/firewall", "/nodes/{node}/lxc/{vmid}/firewall"} {
		out["GET "+prefix+"/options"] = firewallOptions
		out["PUT "+prefix+"/options"] = setFirewallOptions
		maps.Copy(out, ruleHandlers(prefix+"/rules"))
		if prefix != "/nodes/{node}/firewall" {
			maps.Copy(out, aliasHandlers(prefix))
		}
	}
	maps.Copy(out, ruleHandlers("/cluster/firewall/groups/{group}"))
	out["DELETE /cluster/firewall/groups/{group}"] = deleteRuleGroup
	return out
}

func ruleHandlers(rules string) map[string]world.Handler {
	return map[string]world.Handler{
		"GET " + rules:               listRules,
		"POST " + rules:              addRule,
		"GET " + rules + "/{pos}":    getRule,
		"PUT " + rules + "/{pos}":    changeRule,
		"DELETE " + rules + "/{pos}": deleteRule,
	}
}

// firewall returns that which a call is about. Nobody asks whether there is such a
// machine (PVE/API2/Firewall/VM.pm).
func firewall(c *world.Call) *world.Firewall {
	switch {
	case c.Params.Has("vmid"):
		return firewallOf(c.State, "vm/"+c.Param("vmid"))
	case c.Params.Has("node"):
		return firewallOf(c.State, "node/"+c.Param("node"))
	}
	return firewallOf(c.State, "cluster")
}

func firewallOf(s *world.State, whose string) *world.Firewall {
	if s.Firewalls == nil {
		s.Firewalls = map[string]*world.Firewall{}
	}
	if s.Firewalls[whose] == nil {
		s.Firewalls[whose] = &world.Firewall{Options: map[string]string{}, Aliases: map[string]map[string]string{}, Sets: map[string]*world.IPSet{}, Groups: map[string]*world.RuleGroup{}}
	}
	return s.Firewalls[whose]
}

// AddGroup gives the datacenter a security group without rules.
func AddGroup(s *world.State, name string) {
	firewallOf(s, "cluster").Groups[name] = &world.RuleGroup{}
}

// Clone gives a machine the firewall of another, and removes the one it had
// (PVE/Firewall/Helpers.pm, clone_vmfw_conf).
func Clone(s *world.State, from, to int) {
	delete(s.Firewalls, "vm/"+strconv.Itoa(to))
	was := s.Firewalls["vm/"+strconv.Itoa(from)]
	if was == nil {
		return
	}
	is := firewallOf(s, "vm/"+strconv.Itoa(to))
	maps.Copy(is.Options, was.Options)
	for _, rule := range was.Rules {
		is.Rules = append(is.Rules, maps.Clone(rule))
	}
	for name, alias := range was.Aliases {
		is.Aliases[name] = maps.Clone(alias)
	}
	for name, set := range was.Sets {
		members := map[string]map[string]string{}
		for cidr, about := range set.Members {
			members[cidr] = maps.Clone(about)
		}
		is.Sets[name] = &world.IPSet{Comment: set.Comment, Members: members}
	}
}

// firewallLog is a log of what was never filtered, and never written.
func firewallLog(c *world.Call) (any, error) {
	return answer.Listing{Data: []any{map[string]any{"n": 1, "t": "unable to open file - No such file or directory"}}, Total: 1}, nil
}

// firewallValue gives a value of a firewall file its JSON type.
func firewallValue(c *world.Call, k, v string) any {
	if k == "enable" || k == "ipversion" || k == "nomatch" {
		return schema.Atoi(v)
	}
	return c.State.TypedAs(strings.Replace(c.Route, "GET ", "PUT ", 1), k, v)
}

func firewallOptions(c *world.Call) (any, error) {
	f := firewall(c)
	out := map[string]any{"digest": digestOfObject(f.Options)}
	for k, v := range f.Options {
		out[k] = firewallValue(c, k, v)
	}
	return out, nil
}

func setFirewallOptions(c *world.Call) (any, error) {
	f := firewall(c)
	if err := c.CheckDigest(digestOfObject(f.Options)); err != nil {
		return nil, err
	}
	for _, k := range schema.SplitList(c.Param("delete")) {
		if c.Spec.Parameters[k] == nil || k == "delete" || k == "digest" || k == "node" || k == "vmid" {
			return nil, answer.BadParam("delete", "no such option '"+k+"'")
		}
		delete(f.Options, k)
	}
	maps.Copy(f.Options, c.Section("vmid"))
	if enable := f.Options["enable"]; c.Route == "PUT /cluster/firewall/options" && schema.Atoi(enable) > 1 {
		f.Options["enable"] = strconv.Itoa(int(time.Now().Unix())) // for a minute, so that one does not lock oneself out
	}
	return nil, nil
}

func listRuleGroups(c *world.Call) (any, error) {
	f := firewall(c)
	out := []any{}
	for _, name := range slices.Sorted(maps.Keys(f.Groups)) {
		e := map[string]any{"group": name, "digest": world.DigestOf(slices.Sorted(maps.Keys(f.Groups)))}
		if f.Groups[name].Comment != "" {
			e["comment"] = f.Groups[name].Comment
		}
		out = append(out, e)
	}
	return out, nil
}

func createRuleGroup(c *world.Call) (any, error) {
	f := firewall(c)
	name, old := c.Param("group"), c.Param("rename")
	if old != "" {
		return nil, renameRuleGroup(c, f, old, name)
	}
	if f.Groups[name] != nil {
		return nil, answer.BadParam("group", "Security group '"+name+"' already exists")
	}
	f.Groups[strings.ToLower(name)] = &world.RuleGroup{Comment: c.Param("comment")}
	return nil, nil
}

// renameRuleGroup gives a group another name, in the rules that use it too.
func renameRuleGroup(c *world.Call, f *world.Firewall, old, name string) error {
	if err := c.CheckDigest(world.DigestOf(slices.Sorted(maps.Keys(f.Groups)))); err != nil {
		return err
	}
	switch {
	case f.Groups[old] == nil:
		return answer.BadParam("group", "Security group '"+old+"' does not exist")
	case old != name && f.Groups[name] != nil:
		return answer.BadParam("group", "Security group '"+name+"' does already exist")
	}
	g := f.Groups[old]
	if c.Params.Has("comment") {
		g.Comment = c.Param("comment")
	}
	delete(f.Groups, old)
	f.Groups[strings.ToLower(name)] = g
	for _, one := range c.State.Firewalls {
		for _, r := range one.Rules {
			if r["type"] == "group" && r["action"] == old {
				r["action"] = name
			}
		}
	}
	return nil
}

func deleteRuleGroup(c *world.Call) (any, error) {
	f := firewall(c)
	g := f.Groups[c.Param("group")]
	switch {
	case g == nil:
		return nil, answer.Die("no such security group '%s'", c.Param("group"))
	case len(g.Rules) > 0:
		return nil, answer.Die("Security group '%s' is not empty", c.Param("group"))
	}
	delete(f.Groups, c.Param("group"))
	return nil, nil
}

func macros(c *world.Call) (any, error) {
	out := []any{}
	for _, name := range slices.Sorted(maps.Keys(schema.FirewallFacts().Macros)) {
		out = append(out, map[string]any{"macro": name, "descr": schema.FirewallFacts().Macros[name].About})
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
