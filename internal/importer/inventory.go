package importer

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// inventory is what Ansible knows of machines.
type inventory struct {
	groups []*group
	hosts  []*host
}

type group struct {
	name     string
	vars     []field
	hosts    []string
	children []string
}

type host struct {
	name string
	at   place
	vars []field
}

func (inv *inventory) group(name string) *group {
	for _, g := range inv.groups {
		if g.name == name {
			return g
		}
	}
	g := &group{name: name}
	inv.groups = append(inv.groups, g)
	return g
}

func (inv *inventory) host(name string, at place) *host {
	for _, h := range inv.hosts {
		if h.name == name {
			return h
		}
	}
	h := &host{name: name, at: at}
	inv.hosts = append(inv.hosts, h)
	return h
}

// groupsOf lists a host's groups, its own before those that contain them.
func (inv *inventory) groupsOf(host string) []string {
	var out []string
	for _, g := range inv.groups {
		if slices.Contains(g.hosts, host) {
			out = append(out, g.name)
		}
	}
	for i := 0; i < len(out); i++ {
		for _, g := range inv.groups {
			if slices.Contains(g.children, out[i]) && !slices.Contains(out, g.name) {
				out = append(out, g.name)
			}
		}
	}
	return out
}

var (
	iniSection = regexp.MustCompile(`^\[([A-Za-z0-9_.-]+)(?::(vars|children))?\]\s*$`)
	iniPair    = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_]*)\s*=\s*("[^"]*"|'[^']*'|\S+)`)
	hostName   = regexp.MustCompile(`^[A-Za-z0-9_.\[\]:-]+$`)
	hostRange  = regexp.MustCompile(`^([^\[\]]*)\[(\d+):(\d+)\]([^\[\]]*)$`)
)

// parseINI reads an inventory in Ansible's INI form. The error has no line of it.
func parseINI(name string, data []byte) (*inventory, error) {
	inv := &inventory{}
	g, kind := inv.group("ungrouped"), ""
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		at := place{name, i + 1}
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if m := iniSection.FindStringSubmatch(line); m != nil {
			g, kind = inv.group(m[1]), m[2]
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case kind == "vars":
			key, text, ok := strings.Cut(line, "=")
			if !ok {
				return nil, &ReadError{at.String(), "no line of an inventory", "write name=value"}
			}
			g.vars = append(g.vars, field{strings.TrimSpace(key), iniValue(strings.TrimSpace(text), at)})
		case kind == "children":
			inv.group(word)
			g.children = append(g.children, word)
		case !hostName.MatchString(word) || strings.Trim(rest, " ") != "" && !strings.Contains(rest, "="):
			return nil, &ReadError{at.String(), "no line of an inventory", "write a host, or [GROUP]"}
		default:
			for _, n := range expand(word) {
				h := inv.host(n, at)
				for _, m := range iniPair.FindAllStringSubmatch(rest, -1) {
					h.vars = append(h.vars, field{m[1], iniValue(m[2], at)})
				}
				g.hosts = append(g.hosts, n)
			}
		}
	}
	return inv, nil
}

func iniValue(s string, at place) value {
	if len(s) > 1 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return value{kind: text, text: s[1 : len(s)-1], at: at}
	}
	if s == "true" || s == "True" || s == "false" || s == "False" {
		return value{kind: boolean, text: strings.ToLower(s), at: at}
	}
	return value{kind: text, text: s, at: at}
}

// expand writes out node[01:03].
func expand(name string) []string {
	const most = 1000
	m := hostRange.FindStringSubmatch(name)
	if m == nil {
		return []string{name}
	}
	from, _ := strconv.Atoi(m[2])
	to, _ := strconv.Atoi(m[3])
	var out []string
	for n := from; n <= to && len(out) < most; n++ {
		out = append(out, fmt.Sprintf("%s%0*d%s", m[1], len(m[2]), n, m[4]))
	}
	return out
}

// isInventory reports whether a document is an inventory in YAML: groups of hosts, children and vars.
func isInventory(v value) bool {
	hosts := false
	for _, f := range v.fields {
		if f.kind != object && f.kind != null {
			return false
		}
		for _, in := range f.fields {
			switch in.name {
			case "hosts", "children", "vars":
				hosts = hosts || in.name != "vars"
			default:
				return false
			}
		}
	}
	return hosts
}

// read adds an inventory in YAML.
func (inv *inventory) read(v value) {
	for _, f := range v.fields {
		g := inv.group(f.name)
		for _, in := range f.fields {
			switch in.name {
			case "vars":
				g.vars = append(g.vars, in.fields...)
			case "children":
				for _, child := range in.fields {
					g.children = append(g.children, child.name)
				}
				inv.read(in.value)
			case "hosts":
				for _, h := range in.fields {
					for _, n := range expand(h.name) {
						known := inv.host(n, h.at)
						known.vars = append(known.vars, h.fields...)
						g.hosts = append(g.hosts, n)
					}
				}
			}
		}
	}
}

// add joins another inventory.
func (inv *inventory) add(o *inventory) {
	for _, g := range o.groups {
		to := inv.group(g.name)
		to.vars, to.hosts, to.children = append(to.vars, g.vars...), append(to.hosts, g.hosts...), append(to.children, g.children...)
	}
	for _, h := range o.hosts {
		to := inv.host(h.name, h.at)
		to.vars = append(to.vars, h.vars...)
	}
}

var (
	jinjaEnv  = regexp.MustCompile(`^\{\{\s*lookup\(\s*['"](?:ansible\.builtin\.)?env['"]\s*,\s*['"]([A-Za-z_][A-Za-z0-9_]*)['"]\s*\)(?:\s*\|\s*(?:int|bool|string|trim))?\s*\}\}$`)
	jinjaName = regexp.MustCompile(`^\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}$`)
	jinjaPart = regexp.MustCompile(`\{\{.*?\}\}|\{%.*?%\}`)
)

// jinja replaces {{ name }} and {{ lookup('env', 'NAME') }}, with which inventories are filled; more is not evaluated.
type jinja struct {
	env, vars map[string]value
}

func (j jinja) resolve(v value, depth int) value {
	switch v.kind {
	case text:
		if !jinjaPart.MatchString(v.text) {
			return v
		}
		if m := jinjaEnv.FindStringSubmatch(v.text); m != nil {
			if e, ok := j.env[m[1]]; ok {
				return e
			}
			return value{kind: computed, at: v.at, why: "the environment variable " + m[1] + ", which no file sets"}
		}
		if m := jinjaName.FindStringSubmatch(v.text); m != nil && depth < 8 {
			if e, ok := j.vars[m[1]]; ok {
				return j.resolve(e, depth+1)
			}
			return value{kind: computed, at: v.at, why: m[1]}
		}
		return value{kind: computed, at: v.at, why: "an expression of Jinja"}
	case list:
		v.items = slices.Clone(v.items)
		for i := range v.items {
			v.items[i] = j.resolve(v.items[i], depth)
		}
	case object:
		v.fields = slices.Clone(v.fields)
		for i := range v.fields {
			v.fields[i].value = j.resolve(v.fields[i].value, depth)
		}
	}
	return v
}
