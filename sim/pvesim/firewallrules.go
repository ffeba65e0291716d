package pvesim

import (
	"crypto/sha1"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// rules are those that a call is about, of a firewall or a security group.
func (c *call) rules() (*[]map[string]string, error) {
	f := c.firewall()
	if !c.p.has("group") {
		return &f.rules, nil
	}
	g := f.groups[c.param("group")]
	if g == nil {
		return nil, die("no such security group '%s'", c.param("group"))
	}
	return &g.rules, nil
}

// ruleCheck is what holds a rule of a call's firewall against what it may say.
func (c *call) ruleCheck(rule map[string]string) *ruleCheck {
	k := &ruleCheck{rule: rule, of: "cluster", cluster: c.s.firewallOf("cluster")}
	switch {
	case c.p.has("group"):
		k.of = "group"
	case c.p.has("vmid"):
		k.of, k.own = "vm", c.firewall()
	case c.p.has("node"):
		k.of, k.own = "host", c.firewall()
	}
	return k
}

// rule is a rule as it is read: with what is wrong with it by now.
func (c *call) rule(r map[string]string, pos any, digest string) map[string]any {
	out := map[string]any{"pos": pos, "digest": digest}
	k := c.ruleCheck(maps.Clone(r))
	k.run()
	for key, v := range k.rule {
		out[key] = c.firewallValue(key, v)
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

func (c *call) listRules() (any, error) {
	rules, err := c.rules()
	if err != nil {
		return nil, err
	}
	out := []any{}
	for i, r := range *rules {
		out = append(out, c.rule(r, i, digestOfRules(*rules)))
	}
	return out, nil
}

// getRule answers with the position as the text that it stands as in the path.
func (c *call) getRule() (any, error) {
	rules, err := c.rules()
	if err != nil {
		return nil, err
	}
	pos := c.p.int("pos", 0)
	if pos >= len(*rules) {
		return nil, die("no rule at position %s", c.param("pos"))
	}
	return c.rule((*rules)[pos], c.param("pos"), digestOfRules(*rules)), nil
}

// position returns the rules of a call and the one that it changes; line is where
// Proxmox finds that there is no file at all.
func (c *call) position(line int) (*[]map[string]string, int, error) {
	rules, err := c.rules()
	if err != nil {
		return nil, 0, err
	}
	if err := c.checkDigest(digestOfRules(*rules)); err != nil {
		return nil, 0, err
	}
	pos := c.p.int("pos", 0)
	switch {
	case !c.p.has("group") && c.firewall().empty():
		return nil, 0, die("Can't use an undefined value as an ARRAY reference at /usr/share/perl5/PVE/API2/Firewall/Rules.pm line %d.", line)
	case pos >= len(*rules):
		return nil, 0, die("no rule at position %s", c.param("pos"))
	}
	return rules, pos, nil
}

// setRule writes what a call says of a rule, and refuses what is wrong with it then.
func (c *call) setRule(r map[string]string) (map[string]string, error) {
	fields := []string{"type", "action", "macro", "iface", "source", "dest", "proto", "enable", "log", "sport", "dport", "comment", "icmp-type"}
	out := maps.Clone(r)
	for _, k := range fields {
		switch v := c.param(k); {
		case !c.p.has(k):
		case v == "" || v == "-":
			delete(out, k)
		default:
			out[k] = v
		}
	}
	for _, k := range splitList(c.param("delete")) {
		switch {
		case k == "type" || k == "action":
			return nil, badParam("delete", "unable to delete required property '"+k+"'")
		case !slices.Contains(fields, k) && k != "pos" && k != "digest":
			return nil, badParam("delete", "no such property ('"+k+"')")
		}
		delete(out, k)
	}
	check := c.ruleCheck(out)
	check.run()
	if len(check.problems) > 0 {
		return nil, badParam(check.problems[0].param, check.problems[0].text)
	}
	return written(out, check.of), nil
}

// written is a rule as it is read again from its file.
func written(r map[string]string, of string) map[string]string {
	r["enable"] = strconv.Itoa(boolInt(r["enable"] != "" && r["enable"] != "0"))
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
func (c *call) addRule() (any, error) {
	rules, err := c.rules()
	if err != nil {
		return nil, err
	}
	r, err := c.setRule(map[string]string{})
	if err != nil {
		return nil, err
	}
	*rules = slices.Insert(*rules, 0, r)
	return nil, nil
}

func (c *call) changeRule() (any, error) {
	rules, pos, err := c.position(373)
	if err != nil {
		return nil, err
	}
	r := (*rules)[pos]
	if to := c.p.int("moveto", pos); to != pos {
		*rules = slices.Delete(*rules, pos, pos+1)
		if to > pos {
			to--
		}
		*rules = slices.Insert(*rules, min(to, len(*rules)), r)
		return nil, nil
	}
	if r, err = c.setRule(r); err != nil {
		return nil, err
	}
	(*rules)[pos] = r
	return nil, nil
}

func (c *call) deleteRule() (any, error) {
	rules, pos, err := c.position(462)
	if err != nil {
		return nil, err
	}
	*rules = slices.Delete(*rules, pos, pos+1)
	return nil, nil
}
