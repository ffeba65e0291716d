package firewall

import (
	"crypto/sha1"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// rules are those that a call is about, of a firewall or a security group.
func rules(c *world.Call) (*[]map[string]string, error) {
	f := firewall(c)
	if !c.Params.Has("group") {
		return &f.Rules, nil
	}
	g := f.Groups[c.Param("group")]
	if g == nil {
		return nil, answer.Die("no such security group '%s'", c.Param("group"))
	}
	return &g.Rules, nil
}

// ruleCheckOf is what holds a rule of a call's firewall against what it may say.
func ruleCheckOf(c *world.Call, rule map[string]string) *ruleCheck {
	k := &ruleCheck{rule: rule, of: "cluster", cluster: firewallOf(c.State, "cluster")}
	switch {
	case c.Params.Has("group"):
		k.of = "group"
	case c.Params.Has("vmid"):
		k.of, k.own = "vm", firewall(c)
	case c.Params.Has("node"):
		k.of, k.own = "host", firewall(c)
	}
	return k
}

// rule is a rule as it is read: with what is wrong with it by now.
func rule(c *world.Call, r map[string]string, pos any, digest string) map[string]any {
	out := map[string]any{"pos": pos, "digest": digest}
	k := ruleCheckOf(c, maps.Clone(r))
	k.run()
	for key, v := range k.rule {
		out[key] = firewallValue(c, key, v)
	}
	if len(k.problems) > 0 {
		errs := map[string]string{}
		for _, p := range slices.Backward(k.problems) { // the first of each stays
			errs[p.param] = p.text
		}
		out["errors"] = errs
	}
	return out
}

// digestOfRules is PVE/Firewall.pm's, copy_list_with_digest.
func digestOfRules(rules []map[string]string) string {
	sum := sha1.New()
	for _, r := range rules {
		for _, k := range slices.Sorted(maps.Keys(r)) {
			_, _ = sum.Write([]byte(k + ":" + r[k] + "\n")) // never fails
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func listRules(c *world.Call) (any, error) {
	rules, err := rules(c)
	if err != nil {
		return nil, err
	}
	out := []any{}
	for i, r := range *rules {
		out = append(out, rule(c, r, i, digestOfRules(*rules)))
	}
	return out, nil
}

// getRule answers with the position as the text that it stands as in the path.
func getRule(c *world.Call) (any, error) {
	rules, err := rules(c)
	if err != nil {
		return nil, err
	}
	pos := c.Params.Int("pos", 0)
	if pos >= len(*rules) {
		return nil, answer.Die("no rule at position %s", c.Param("pos"))
	}
	return rule(c, (*rules)[pos], c.Param("pos"), digestOfRules(*rules)), nil
}

// position returns the rules of a call and the one that it changes; line is where
// Proxmox finds that there is no file at all.
func position(c *world.Call, line int) (*[]map[string]string, int, error) {
	rules, err := rules(c)
	if err != nil {
		return nil, 0, err
	}
	if err := c.CheckDigest(digestOfRules(*rules)); err != nil {
		return nil, 0, err
	}
	pos := c.Params.Int("pos", 0)
	switch {
	case !c.Params.Has("group") && firewall(c).Empty():
		return nil, 0, answer.Die("Can't use an undefined value as an ARRAY reference at /usr/share/perl5/PVE/API2/Firewall/Rules.pm line %d.", line)
	case pos >= len(*rules):
		return nil, 0, answer.Die("no rule at position %s", c.Param("pos"))
	}
	return rules, pos, nil
}

// setRule writes what a call says of a rule, and refuses what is wrong with it then.
func setRule(c *world.Call, r map[string]string) (map[string]string, error) {
	fields := []string{"type", "action", "macro", "iface", "source", "dest", "proto", "enable", "log", "sport", "dport", "comment", "icmp-type"}
	out := maps.Clone(r)
	for _, k := range fields {
		switch v := c.Param(k); {
		case !c.Params.Has(k):
		case v == "" || v == "-":
			delete(out, k)
		default:
			out[k] = v
		}
	}
	for _, k := range schema.SplitList(c.Param("delete")) {
		switch {
		case k == "type" || k == "action":
			return nil, answer.BadParam("delete", "unable to delete required property '"+k+"'")
		case !slices.Contains(fields, k) && k != "pos" && k != "digest":
			return nil, answer.BadParam("delete", "no such property ('"+k+"')")
		}
		delete(out, k)
	}
	check := ruleCheckOf(c, out)
	check.run()
	if len(check.problems) > 0 {
		return nil, answer.BadParam(check.problems[0].param, check.problems[0].text)
	}
	return fileRule(out, check.of), nil
}

// fileRule is a rule as it is read again from its file.
func fileRule(r map[string]string, of string) map[string]string {
	r["enable"] = strconv.Itoa(answer.Flag(r["enable"] != "" && r["enable"] != "0"))
	r["comment"] = strings.TrimSpace(r["comment"])
	if r["comment"] == "" {
		delete(r, "comment")
	}
	if of == "group" {
		delete(r, "iface")
	}
	if r["type"] == "group" {
		maps.DeleteFunc(r, func(k, _ string) bool {
			return !slices.Contains([]string{"type", "action", "macro", "iface", "enable", "comment"}, k)
		})
	}
	return r
}

// addRule puts a rule before the others, wherever it is told to.
func addRule(c *world.Call) (any, error) {
	rules, err := rules(c)
	if err != nil {
		return nil, err
	}
	r, err := setRule(c, map[string]string{})
	if err != nil {
		return nil, err
	}
	*rules = slices.Insert(*rules, 0, r)
	return nil, nil
}

func changeRule(c *world.Call) (any, error) {
	rules, pos, err := position(c, 373)
	if err != nil {
		return nil, err
	}
	r := (*rules)[pos]
	if to := c.Params.Int("moveto", pos); to != pos {
		*rules = slices.Delete(*rules, pos, pos+1)
		if to > pos {
			to--
		}
		*rules = slices.Insert(*rules, min(to, len(*rules)), r)
		return nil, nil
	}
	if r, err = setRule(c, r); err != nil {
		return nil, err
	}
	(*rules)[pos] = r
	return nil, nil
}

func deleteRule(c *world.Call) (any, error) {
	rules, pos, err := position(c, 462)
	if err != nil {
		return nil, err
	}
	*rules = slices.Delete(*rules, pos, pos+1)
	return nil, nil
}
