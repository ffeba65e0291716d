package pvesim

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

func (c *call) alias(f *firewall, name string) map[string]any {
	out := map[string]any{"name": name, "ipversion": 4, "digest": digestOf(f.aliases)}
	for k, v := range f.aliases[name] {
		out[k] = v
	}
	return out
}

func (c *call) listAliases() (any, error) {
	f, err := c.firewall()
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, name := range sortedKeys(f.aliases) {
		out = append(out, c.alias(f, name))
	}
	return out, nil
}

func (c *call) createAlias() (any, error) {
	f, err := c.firewall()
	if err != nil {
		return nil, err
	}
	if f.aliases[c.param("name")] != nil {
		return nil, badParam("name", "alias '"+c.param("name")+"' already exists")
	}
	f.aliases[c.param("name")] = c.section("vmid", "name")
	return nil, nil
}

func (c *call) getAlias() (any, error) {
	f, err := c.firewall()
	if err != nil {
		return nil, err
	}
	if f.aliases[c.param("name")] == nil {
		return nil, badParam("name", "no such alias")
	}
	return c.alias(f, c.param("name")), nil
}

func (c *call) updateAlias() (any, error) {
	f, err := c.firewall()
	if err != nil {
		return nil, err
	}
	name, as := c.param("name"), c.param("rename")
	switch {
	case f.aliases[name] == nil:
		return nil, badParam("name", "no such alias")
	case as != "" && as != name && f.aliases[as] != nil:
		return nil, badParam("name", "alias '"+as+"' already exists")
	}
	if err := c.checkDigest(digestOf(f.aliases)); err != nil {
		return nil, err
	}
	delete(f.aliases, name)
	if as == "" {
		as = name
	}
	f.aliases[as] = c.section("vmid", "name", "rename")
	return nil, nil
}

func (c *call) deleteAlias() (any, error) {
	f, err := c.firewall()
	if err != nil {
		return nil, err
	}
	if err := c.checkDigest(digestOf(f.aliases)); err != nil {
		return nil, err
	}
	delete(f.aliases, c.param("name"))
	return nil, nil
}

func (c *call) listSets() (any, error) {
	f, err := c.firewall()
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, name := range sortedKeys(f.sets) {
		e := map[string]any{"name": name, "digest": digestOf(sortedKeys(f.sets))}
		if f.sets[name].comment != "" {
			e["comment"] = f.sets[name].comment
		}
		out = append(out, e)
	}
	return out, nil
}

func (c *call) createSet() (any, error) {
	f, err := c.firewall()
	if err != nil {
		return nil, err
	}
	name, old := c.param("name"), c.param("rename")
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
	if err := c.checkDigest(digestOf(sortedKeys(f.sets))); err != nil {
		return nil, err
	}
	delete(f.sets, old)
	f.sets[name] = set
	return nil, nil
}

// set returns the IP set that a call names.
func (c *call) set() (*ipset, error) {
	f, err := c.firewall()
	if err != nil {
		return nil, err
	}
	if set := f.sets[c.param("name")]; set != nil {
		return set, nil
	}
	return nil, die("no such IPSet '%s'", c.param("name"))
}

func (c *call) deleteSet() (any, error) {
	f, err := c.firewall()
	if err != nil {
		return nil, err
	}
	if set := f.sets[c.param("name")]; set != nil && len(set.members) > 0 && !c.p.bool("force") {
		return nil, die("IPSet '%s' is not empty", c.param("name"))
	}
	delete(f.sets, c.param("name"))
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
	for _, cidr := range sortedKeys(set.members) {
		out = append(out, c.member(set, cidr))
	}
	return out, nil
}

func (c *call) addMember() (any, error) {
	set, err := c.set()
	if err != nil {
		return nil, err
	}
	if set.members[c.param("cidr")] != nil {
		return nil, badParam("cidr", "address '"+c.param("cidr")+"' already exists")
	}
	set.members[c.param("cidr")] = c.section("vmid", "name", "cidr")
	return nil, nil
}

// memberNamed returns the set and the address of a call.
func (c *call) memberNamed() (*ipset, string, error) {
	set, err := c.set()
	if err != nil {
		return nil, "", err
	}
	cidr := c.param("cidr")
	if set.members[cidr] == nil {
		return nil, "", badParam("cidr", "no such IP/Network")
	}
	return set, cidr, c.checkDigest(digestOf(set.members))
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
	set.members[cidr] = c.section("vmid", "name", "cidr")
	return nil, nil
}

func (c *call) deleteMember() (any, error) {
	set, cidr, err := c.memberNamed()
	if err != nil {
		return nil, err
	}
	delete(set.members, cidr)
	return nil, nil
}

// references are the names that a rule may use: aliases and sets.
func (c *call) references() (any, error) {
	f, err := c.firewall()
	if err != nil {
		return nil, err
	}
	out := []any{}
	scope := "dc"
	if c.p.has("vmid") {
		scope = "guest"
	}
	if c.param("type") != "ipset" {
		for _, name := range sortedKeys(f.aliases) {
			out = append(out, map[string]any{"type": "alias", "name": name, "ref": scope + "/" + name, "scope": scope})
		}
	}
	if c.param("type") != "alias" {
		for _, name := range sortedKeys(f.sets) {
			out = append(out, map[string]any{"type": "ipset", "name": name, "ref": "+" + scope + "/" + name, "scope": scope})
		}
	}
	return out, nil
}
