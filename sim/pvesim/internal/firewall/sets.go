package firewall

import (
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

func aliasHandlers(prefix string) map[string]world.Handler {
	aliases, sets := prefix+"/aliases", prefix+"/ipset"
	return map[string]world.Handler{
		"GET " + aliases:                    listAliases,
		"POST " + aliases:                   createAlias,
		"GET " + aliases + "/{name}":        getAlias,
		"PUT " + aliases + "/{name}":        updateAlias,
		"DELETE " + aliases + "/{name}":     deleteAlias,
		"GET " + sets:                       listSets,
		"POST " + sets:                      createSet,
		"GET " + sets + "/{name}":           listMembers,
		"POST " + sets + "/{name}":          addMember,
		"DELETE " + sets + "/{name}":        deleteSet,
		"GET " + sets + "/{name}/{cidr}":    getMember,
		"PUT " + sets + "/{name}/{cidr}":    updateMember,
		"DELETE " + sets + "/{name}/{cidr}": deleteMember,
	}
}

// alias is an alias as it is read from its file.
func alias(f *world.Firewall, name string) map[string]any {
	out := map[string]any{"ipversion": versionOf(f.Aliases[name]["cidr"])}
	for k, v := range f.Aliases[name] {
		out[k] = v
	}
	return out
}

func listAliases(c *world.Call) (any, error) {
	f := firewall(c)
	out := []any{}
	for _, name := range slices.Sorted(maps.Keys(f.Aliases)) {
		a := alias(f, name)
		a["digest"] = world.DigestOf(f.Aliases)
		out = append(out, a)
	}
	return out, nil
}

// aliasSaid is what a call says of an alias, as its file keeps it: one address is not a
// network.
func aliasSaid(c *world.Call, name string) map[string]string {
	a := map[string]string{"name": name, "cidr": oneAddress(c.Param("cidr"))}
	if comment := strings.TrimSpace(c.Param("comment")); comment != "" {
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

func createAlias(c *world.Call) (any, error) {
	f, name := firewall(c), c.Param("name")
	if f.Aliases[strings.ToLower(name)] != nil {
		return nil, answer.BadParam("name", "alias '"+name+"' already exists")
	}
	f.Aliases[strings.ToLower(name)] = aliasSaid(c, name)
	return nil, nil
}

func getAlias(c *world.Call) (any, error) {
	f, name := firewall(c), strings.ToLower(c.Param("name"))
	if f.Aliases[name] == nil {
		return nil, answer.BadParam("name", "no such alias")
	}
	return alias(f, name), nil
}

func updateAlias(c *world.Call) (any, error) {
	f, name, as := firewall(c), strings.ToLower(c.Param("name")), strings.ToLower(c.Param("rename"))
	if err := c.CheckDigest(world.DigestOf(f.Aliases)); err != nil {
		return nil, err
	}
	switch {
	case f.Aliases[name] == nil:
		return nil, answer.BadParam("name", "no such alias")
	case as != "" && as != name && f.Aliases[as] != nil:
		return nil, answer.BadParam("name", "alias '"+c.Param("rename")+"' already exists")
	case as == "" || as == name:
		f.Aliases[name] = aliasSaid(c, c.Param("name"))
		return nil, nil
	}
	delete(f.Aliases, name)
	f.Aliases[as] = aliasSaid(c, c.Param("rename"))
	return nil, nil
}

func deleteAlias(c *world.Call) (any, error) {
	f := firewall(c)
	if err := c.CheckDigest(world.DigestOf(f.Aliases)); err != nil {
		return nil, err
	}
	delete(f.Aliases, strings.ToLower(c.Param("name")))
	return nil, nil
}

func listSets(c *world.Call) (any, error) {
	f := firewall(c)
	out := []any{}
	for _, name := range slices.Sorted(maps.Keys(f.Sets)) {
		e := map[string]any{"name": name, "digest": world.DigestOf(slices.Sorted(maps.Keys(f.Sets)))}
		if f.Sets[name].Comment != "" {
			e["comment"] = f.Sets[name].Comment
		}
		out = append(out, e)
	}
	return out, nil
}

// createSet makes a set or renames one. The file has names in small letters.
func createSet(c *world.Call) (any, error) {
	f, name, old := firewall(c), c.Param("name"), c.Param("rename")
	if old != "" {
		if err := c.CheckDigest(world.DigestOf(slices.Sorted(maps.Keys(f.Sets)))); err != nil {
			return nil, err
		}
	}
	switch {
	case old != "" && f.Sets[old] == nil:
		return nil, answer.BadParam("name", "IPSet '"+old+"' does not exist")
	case old != "" && old != name && f.Sets[name] != nil:
		return nil, answer.BadParam("name", "IPSet '"+name+"' does already exist")
	case old == "" && f.Sets[name] != nil:
		return nil, answer.BadParam("name", "IPSet '"+name+"' already exists")
	}
	set := f.Sets[old]
	if set == nil {
		set = &world.IPSet{Members: map[string]map[string]string{}}
	}
	if c.Params.Has("comment") {
		set.Comment = c.Param("comment")
	}
	delete(f.Sets, old)
	f.Sets[strings.ToLower(name)] = set
	return nil, nil
}

// set returns the IP set that a call names.
func set(c *world.Call) (*world.IPSet, error) {
	if set := firewall(c).Sets[c.Param("name")]; set != nil {
		return set, nil
	}
	return nil, answer.Die("no such IPSet '%s'", c.Param("name"))
}

func deleteSet(c *world.Call) (any, error) {
	set, err := set(c)
	if err != nil {
		return nil, err
	}
	if len(set.Members) > 0 && !c.Params.Bool("force") {
		return nil, answer.Die("IPSet '%s' is not empty", c.Param("name"))
	}
	delete(firewall(c).Sets, c.Param("name"))
	return nil, nil
}

func member(c *world.Call, set *world.IPSet, cidr string) map[string]any {
	out := map[string]any{"cidr": cidr, "digest": world.DigestOf(set.Members)}
	for k, v := range set.Members[cidr] {
		out[k] = firewallValue(c, k, v)
	}
	return out
}

func listMembers(c *world.Call) (any, error) {
	set, err := set(c)
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, cidr := range slices.Sorted(maps.Keys(set.Members)) {
		out = append(out, member(c, set, cidr))
	}
	return out, nil
}

func addMember(c *world.Call) (any, error) {
	set, err := set(c)
	if err != nil {
		return nil, err
	}
	cidr := c.Param("cidr")
	if m := schema.AliasRef.FindStringSubmatch(cidr); m != nil {
		if aliasIn(firewallOf(c.State, "cluster"), firewall(c), m[1], m[2]) == nil {
			return nil, answer.Die("no such alias '%s'", m[2])
		}
	} else {
		cidr = oneAddress(networkOf(cidr))
	}
	switch {
	case set.Members[cidr] != nil:
		return nil, answer.BadParam("cidr", "address '"+cidr+"' already exists")
	case zeroPrefix.MatchString(cidr):
		return nil, answer.BadParam("cidr", "a zero prefix is not allowed in ipset entries")
	}
	set.Members[cidr] = memberSaid(c)
	return nil, nil
}

// memberSaid is what a call says of an address in a set.
func memberSaid(c *world.Call) map[string]string {
	m := map[string]string{}
	if c.Params.Bool("nomatch") {
		m["nomatch"] = "1"
	}
	if comment := strings.TrimSpace(c.Param("comment")); comment != "" {
		m["comment"] = comment
	}
	return m
}

var zeroPrefix = regexp.MustCompile(`/0+$`)

// networkOf is a network without the bits of an address in it.
func networkOf(cidr string) string {
	p, err := netip.ParsePrefix(cidr)
	if err != nil {
		return cidr
	}
	return p.Masked().String()
}

// memberNamed returns the set and the address of a call.
func memberNamed(c *world.Call) (*world.IPSet, string, error) {
	set, err := set(c)
	if err != nil {
		return nil, "", err
	}
	if err := c.CheckDigest(world.DigestOf(set.Members)); err != nil {
		return nil, "", err
	}
	cidr := c.Param("cidr")
	if set.Members[cidr] == nil {
		return nil, "", answer.BadParam("cidr", "no such IP/Network")
	}
	return set, cidr, nil
}

func getMember(c *world.Call) (any, error) {
	set, cidr, err := memberNamed(c)
	if err != nil {
		return nil, err
	}
	return member(c, set, cidr), nil
}

func updateMember(c *world.Call) (any, error) {
	set, cidr, err := memberNamed(c)
	if err != nil {
		return nil, err
	}
	set.Members[cidr] = memberSaid(c)
	return nil, nil
}

// deleteMember takes an address out of a set, whether it is in it or not.
func deleteMember(c *world.Call) (any, error) {
	set, err := set(c)
	if err != nil {
		return nil, err
	}
	if err := c.CheckDigest(world.DigestOf(set.Members)); err != nil {
		return nil, err
	}
	delete(set.Members, c.Param("cidr"))
	return nil, nil
}

// references are the names that a rule may use: aliases and sets, of the cluster
// and, for a machine, its own.
func references(c *world.Call) (any, error) {
	out := refs(c, []any{}, firewallOf(c.State, "cluster"), "dc")
	if c.Params.Has("vmid") {
		out = refs(c, out, firewall(c), "guest")
	}
	return out, nil
}

func refs(c *world.Call, out []any, f *world.Firewall, scope string) []any {
	add := func(kind, name, ref, comment string) {
		e := map[string]any{"type": kind, "name": name, "ref": ref, "scope": scope}
		if comment != "" {
			e["comment"] = comment
		}
		if t := c.Param("type"); t == "" || t == kind {
			out = append(out, e)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Sets)) {
		add("ipset", name, "+"+name, f.Sets[name].Comment)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Aliases)) {
		add("alias", name, name, f.Aliases[name]["comment"])
	}
	return out
}
