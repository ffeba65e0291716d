package pvesim

import (
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

func aliasHandlers(prefix string) map[string]handler {
	aliases, sets := prefix+"/aliases", prefix+"/ipset"
	return map[string]handler{
		"GET " + aliases:                    (*call).listAliases,
		"POST " + aliases:                   (*call).createAlias,
		"GET " + aliases + "/{name}":        (*call).getAlias,
		"PUT " + aliases + "/{name}":        (*call).updateAlias,
		"DELETE " + aliases + "/{name}":     (*call).deleteAlias,
		"GET " + sets:                       (*call).listSets,
		"POST " + sets:                      (*call).createSet,
		"GET " + sets + "/{name}":           (*call).listMembers,
		"POST " + sets + "/{name}":          (*call).addMember,
		"DELETE " + sets + "/{name}":        (*call).deleteSet,
		"GET " + sets + "/{name}/{cidr}":    (*call).getMember,
		"PUT " + sets + "/{name}/{cidr}":    (*call).updateMember,
		"DELETE " + sets + "/{name}/{cidr}": (*call).deleteMember,
	}
}

// alias is an alias as it is read from its file.
func (f *firewall) alias(name string) map[string]any {
	out := map[string]any{"ipversion": versionOf(f.aliases[name]["cidr"])}
	for k, v := range f.aliases[name] {
		out[k] = v
	}
	return out
}

func (c *call) listAliases() (any, error) {
	f := c.firewall()
	out := []any{}
	for _, name := range slices.Sorted(maps.Keys(f.aliases)) {
		a := f.alias(name)
		a["digest"] = digestOf(f.aliases)
		out = append(out, a)
	}
	return out, nil
}

// aliasSaid is what a call says of an alias, as its file keeps it: one address is not a
// network.
func (c *call) aliasSaid(name string) map[string]string {
	a := map[string]string{"name": name, "cidr": oneAddress(c.param("cidr"))}
	if comment := strings.TrimSpace(c.param("comment")); comment != "" {
		a["comment"] = comment
	}
	return a
}

// oneAddress drops the length of a network of one (PVE/Firewall.pm, parse_ip_or_cidr).
func oneAddress(cidr string) string {
	if versionOf(cidr) == 6 {
		return strings.TrimSuffix(cidr, "/128")
	}
	return strings.TrimSuffix(cidr, "/32")
}

func (c *call) createAlias() (any, error) {
	f, name := c.firewall(), c.param("name")
	if f.aliases[strings.ToLower(name)] != nil {
		return nil, badParam("name", "alias '"+name+"' already exists")
	}
	f.aliases[strings.ToLower(name)] = c.aliasSaid(name)
	return nil, nil
}

func (c *call) getAlias() (any, error) {
	f, name := c.firewall(), strings.ToLower(c.param("name"))
	if f.aliases[name] == nil {
		return nil, badParam("name", "no such alias")
	}
	return f.alias(name), nil
}

func (c *call) updateAlias() (any, error) {
	f, name, as := c.firewall(), strings.ToLower(c.param("name")), strings.ToLower(c.param("rename"))
	if err := c.checkDigest(digestOf(f.aliases)); err != nil {
		return nil, err
	}
	switch {
	case f.aliases[name] == nil:
		return nil, badParam("name", "no such alias")
	case as != "" && as != name && f.aliases[as] != nil:
		return nil, badParam("name", "alias '"+c.param("rename")+"' already exists")
	case as == "" || as == name:
		f.aliases[name] = c.aliasSaid(c.param("name"))
		return nil, nil
	}
	delete(f.aliases, name)
	f.aliases[as] = c.aliasSaid(c.param("rename"))
	return nil, nil
}

func (c *call) deleteAlias() (any, error) {
	f := c.firewall()
	if err := c.checkDigest(digestOf(f.aliases)); err != nil {
		return nil, err
	}
	delete(f.aliases, strings.ToLower(c.param("name")))
	return nil, nil
}

func (c *call) listSets() (any, error) {
	f := c.firewall()
	out := []any{}
	for _, name := range slices.Sorted(maps.Keys(f.sets)) {
		e := map[string]any{"name": name, "digest": digestOf(slices.Sorted(maps.Keys(f.sets)))}
		if f.sets[name].comment != "" {
			e["comment"] = f.sets[name].comment
		}
		out = append(out, e)
	}
	return out, nil
}

// createSet makes a set or renames one. The file has names in small letters.
func (c *call) createSet() (any, error) {
	f, name, old := c.firewall(), c.param("name"), c.param("rename")
	if old != "" {
		if err := c.checkDigest(digestOf(slices.Sorted(maps.Keys(f.sets)))); err != nil {
			return nil, err
		}
	}
	switch {
	case old != "" && f.sets[old] == nil:
		return nil, badParam("name", "IPSet '"+old+"' does not exist")
	case old != "" && old != name && f.sets[name] != nil:
		return nil, badParam("name", "IPSet '"+name+"' does already exist")
	case old == "" && f.sets[name] != nil:
		return nil, badParam("name", "IPSet '"+name+"' already exists")
	}
	set := f.sets[old]
	if set == nil {
		set = &ipset{members: map[string]map[string]string{}}
	}
	if c.p.has("comment") {
		set.comment = c.param("comment")
	}
	delete(f.sets, old)
	f.sets[strings.ToLower(name)] = set
	return nil, nil
}

// set returns the IP set that a call names.
func (c *call) set() (*ipset, error) {
	if set := c.firewall().sets[c.param("name")]; set != nil {
		return set, nil
	}
	return nil, die("no such IPSet '%s'", c.param("name"))
}

func (c *call) deleteSet() (any, error) {
	set, err := c.set()
	if err != nil {
		return nil, err
	}
	if len(set.members) > 0 && !c.p.bool("force") {
		return nil, die("IPSet '%s' is not empty", c.param("name"))
	}
	delete(c.firewall().sets, c.param("name"))
	return nil, nil
}

func (c *call) member(set *ipset, cidr string) map[string]any {
	out := map[string]any{"cidr": cidr, "digest": digestOf(set.members)}
	for k, v := range set.members[cidr] {
		out[k] = c.firewallValue(k, v)
	}
	return out
}

func (c *call) listMembers() (any, error) {
	set, err := c.set()
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, cidr := range slices.Sorted(maps.Keys(set.members)) {
		out = append(out, c.member(set, cidr))
	}
	return out, nil
}

func (c *call) addMember() (any, error) {
	set, err := c.set()
	if err != nil {
		return nil, err
	}
	cidr := c.param("cidr")
	if m := aliasRef.FindStringSubmatch(cidr); m != nil {
		if aliasIn(c.s.firewallOf("cluster"), c.firewall(), m[1], m[2]) == nil {
			return nil, die("no such alias '%s'", m[2])
		}
	} else {
		cidr = oneAddress(masked(cidr))
	}
	switch {
	case set.members[cidr] != nil:
		return nil, badParam("cidr", "address '"+cidr+"' already exists")
	case zeroPrefix.MatchString(cidr):
		return nil, badParam("cidr", "a zero prefix is not allowed in ipset entries")
	}
	set.members[cidr] = c.memberSaid()
	return nil, nil
}

// memberSaid is what a call says of an address in a set.
func (c *call) memberSaid() map[string]string {
	m := map[string]string{}
	if c.p.bool("nomatch") {
		m["nomatch"] = "1"
	}
	if comment := strings.TrimSpace(c.param("comment")); comment != "" {
		m["comment"] = comment
	}
	return m
}

var zeroPrefix = regexp.MustCompile(`/0+$`)

// masked is a network without the bits of an address in it.
func masked(cidr string) string {
	p, err := netip.ParsePrefix(cidr)
	if err != nil {
		return cidr
	}
	return p.Masked().String()
}

// memberNamed returns the set and the address of a call.
func (c *call) memberNamed() (*ipset, string, error) {
	set, err := c.set()
	if err != nil {
		return nil, "", err
	}
	if err := c.checkDigest(digestOf(set.members)); err != nil {
		return nil, "", err
	}
	cidr := c.param("cidr")
	if set.members[cidr] == nil {
		return nil, "", badParam("cidr", "no such IP/Network")
	}
	return set, cidr, nil
}

func (c *call) getMember() (any, error) {
	set, cidr, err := c.memberNamed()
	if err != nil {
		return nil, err
	}
	return c.member(set, cidr), nil
}

func (c *call) updateMember() (any, error) {
	set, cidr, err := c.memberNamed()
	if err != nil {
		return nil, err
	}
	set.members[cidr] = c.memberSaid()
	return nil, nil
}

// deleteMember takes an address out of a set, whether it is in it or not.
func (c *call) deleteMember() (any, error) {
	set, err := c.set()
	if err != nil {
		return nil, err
	}
	if err := c.checkDigest(digestOf(set.members)); err != nil {
		return nil, err
	}
	delete(set.members, c.param("cidr"))
	return nil, nil
}

// references are the names that a rule may use: aliases and sets, of the cluster
// and, for a machine, its own.
func (c *call) references() (any, error) {
	out := c.refs([]any{}, c.s.firewallOf("cluster"), "dc")
	if c.p.has("vmid") {
		out = c.refs(out, c.firewall(), "guest")
	}
	return out, nil
}

func (c *call) refs(out []any, f *firewall, scope string) []any {
	add := func(kind, name, ref, comment string) {
		e := map[string]any{"type": kind, "name": name, "ref": ref, "scope": scope}
		if comment != "" {
			e["comment"] = comment
		}
		if t := c.param("type"); t == "" || t == kind {
			out = append(out, e)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.sets)) {
		add("ipset", name, "+"+name, f.sets[name].comment)
	}
	for _, name := range slices.Sorted(maps.Keys(f.aliases)) {
		add("alias", name, name, f.aliases[name]["comment"])
	}
	return out
}
