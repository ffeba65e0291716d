package pvesim

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// tokenInfo is what may be shown of a token: all but its secret.
func (s *state) tokenInfo(id string) map[string]any {
	about := s.access.about(id)
	e := map[string]any{"privsep": boolInt(s.access.tokens[id].PrivSep), "expire": max(0, atoi(about["expire"]))}
	if about["comment"] != "" {
		e["comment"] = about["comment"]
	}
	return e
}

func (c *call) listTokens() (any, error) {
	out := []any{}
	for _, name := range c.s.tokensOf(c.param("userid")) {
		e := c.s.tokenInfo(c.param("userid") + "!" + name)
		e["tokenid"] = name
		out = append(out, e)
	}
	return out, nil
}

// token returns the full ID of the one that a call names.
func (c *call) token() (string, error) {
	user, name := c.param("userid"), c.param("tokenid")
	if _, there := c.s.access.tokens[user+"!"+name]; !there {
		return "", die("no such token '%s' for user '%s'", name, user)
	}
	return user + "!" + name, nil
}

func (c *call) getToken() (any, error) {
	id, err := c.token()
	if err != nil {
		return nil, err
	}
	return c.s.tokenInfo(id), nil
}

func (c *call) createToken() (any, error) {
	id := c.param("userid") + "!" + c.param("tokenid")
	if c.s.access.users[c.param("userid")].ID == "" {
		return nil, die("no such user ('%s')", c.param("userid"))
	}
	if _, there := c.s.access.tokens[id]; there {
		return nil, badParam("tokenid", "Token already exists.")
	}
	t := Token{ID: id, Secret: c.s.uuid(), PrivSep: !c.p.has("privsep") || c.p.bool("privsep")}
	c.s.access.tokens[id] = t
	c.putToken(id)
	info := c.s.tokenInfo(id)
	delete(info, "expire")
	c.asGiven(info)
	return map[string]any{"full-tokenid": id, "value": t.Secret, "info": info}, nil
}

func (c *call) putToken(id string) {
	about := c.s.access.about(id)
	for _, k := range []string{"comment", "expire"} {
		if c.p.has(k) {
			about[k] = c.param(k)
		}
	}
}

func (c *call) updateToken() (any, error) {
	id, err := c.token()
	if err != nil {
		return nil, err
	}
	for _, k := range splitList(c.param("delete")) {
		if k != "comment" {
			return nil, badParam("delete", "unknown option '"+k+"'")
		}
		delete(c.s.access.about(id), k)
	}
	t := c.s.access.tokens[id]
	if c.p.has("privsep") {
		t.PrivSep = c.p.bool("privsep")
	}
	c.putToken(id)
	out := map[string]any{}
	if c.p.bool("regenerate") {
		t.Secret = c.s.uuid()
		out["value"], out["full-tokenid"] = t.Secret, id
	}
	c.s.access.tokens[id] = t
	maps.Copy(out, c.s.tokenInfo(id))
	c.asGiven(out)
	return out, nil
}

// asGiven puts what a call says of a token into an answer as the text that it came
// as: Proxmox answers with its own parameters, which are no numbers.
func (c *call) asGiven(token map[string]any) {
	for _, k := range []string{"privsep", "expire"} {
		if c.p.has(k) {
			token[k] = c.param(k)
		}
	}
}

func (c *call) deleteToken() (any, error) {
	id, err := c.token()
	if err != nil {
		return nil, err
	}
	delete(c.s.access.tokens, id)
	delete(c.s.access.people, id)
	c.s.forgetWho(id)
	return nil, nil
}

func (c *call) listRealms() (any, error) {
	c.s.access.realm("pam")
	out := []any{}
	for _, id := range slices.Sorted(maps.Keys(c.s.access.realms)) {
		r := c.s.access.realms[id]
		e := map[string]any{"realm": id, "type": r["type"]}
		if r["comment"] != "" {
			e["comment"] = r["comment"]
		}
		if factor, err := parseProps(c.s.schema.Methods["POST /access/domains"].Parameters["tfa"].Format.Keys, r["tfa"]); err == nil && factor["type"] != "" {
			e["tfa"] = factor["type"]
		}
		if r["default"] == "1" {
			e["default"] = 1
		}
		out = append(out, e)
	}
	return out, nil
}

func (c *call) getRealm() (any, error) {
	r := c.s.access.realm(c.param("realm"))
	if r == nil {
		return nil, die("domain '%s' does not exist", c.param("realm"))
	}
	e := map[string]any{"digest": digestOf(c.s.access.realms)}
	for k, v := range r {
		e[k] = c.s.typedAs("POST /access/domains", k, v)
	}
	if r["type"] == "pam" { // PVE/Auth/Plugin.pm, parse_config
		e["plugin"] = "PVE::Auth::PAM"
	}
	return e, nil
}

func (c *call) createRealm() (any, error) {
	id, kind := c.param("realm"), c.param("type")
	const failed = "add auth server failed"
	section := c.section("realm", "password", "check-connection")
	switch {
	case c.s.access.realm(id) != nil:
		return nil, userConfig(failed, die("domain '%s' already exists", id))
	case kind == "pam" || kind == "pve":
		return nil, userConfig(failed, die("unable to create builtin type '%s'", kind))
	case c.p.has("check-connection") && kind == "openid":
		return nil, userConfig(failed, die("'check-connection' parameter can only be set for realms of type 'ldap' or 'ad'"))
	}
	if err := sectionTypeOf("realm", kind).check(section, true); err != nil {
		return nil, userConfig(failed, err)
	}
	c.setRealm(id, section)
	return nil, nil
}

// setRealm writes a realm down. One alone is that which is chosen before anybody
// chooses.
func (c *call) setRealm(id string, section map[string]string) {
	realms := c.s.access.realms
	if section["default"] == "1" {
		for _, r := range realms {
			delete(r, "default")
		}
	}
	if realms[id] == nil {
		realms[id] = map[string]string{}
	}
	maps.Copy(realms[id], section)
	withoutEmpty(realms[id])
	if sync := splitList(realms[id]["sync-defaults-options"]); len(sync) > 0 { // printed again, in order
		slices.Sort(sync)
		realms[id]["sync-defaults-options"] = strings.Join(sync, ",")
	}
}

// syncRealm asks a directory that nobody is at (PVE/API2/Domains.pm, sync).
func (c *call) syncRealm() (any, error) {
	id := c.param("realm")
	r := c.s.access.realm(id)
	switch {
	case r == nil:
		return nil, badParam("realm", "Realm does not exist.")
	case r["type"] != "ldap" && r["type"] != "ad":
		return nil, die("Cannot sync realm type '%s'! Only LDAP/AD realms can be synced.", r["type"])
	case !c.p.has("scope") && !strings.Contains(r["sync-defaults-options"], "scope="):
		return nil, badParam("scope", "Not passed as parameter and not defined in realm default sync options.")
	}
	kind, begin := "auth-realm-sync", "starting sync for realm "+id
	if c.p.bool("dry-run") {
		kind, begin = "auth-realm-sync-test", "(dry test run) "+begin
	}
	return c.startTask(kind, id, func(w worker) error {
		w.log("%s", begin)
		if _, err := netip.ParseAddr(r["server1"]); err != nil { // nobody knows its name here
			return die("Temporary failure in name resolution")
		}
		return die("No route to host")
	})
}

// askOpenID refuses a realm that is none of OpenID's; there is nobody to ask for one that is.
func (c *call) askOpenID() (any, error) {
	r := c.s.access.realm(c.param("realm"))
	switch {
	case r == nil:
		return nil, die("authentication domain '%s' does not exist", c.param("realm"))
	case r["type"] != "openid":
		return nil, die("wrong realm type (%s != openid)", r["type"])
	}
	return nil, die("OpenID Connect: discovery failed: %s", r["issuer-url"])
}

func (c *call) updateRealm() (any, error) {
	const failed = "update auth server failed"
	id := c.param("realm")
	r, remove := c.s.access.realm(id), splitList(c.param("delete"))
	section := c.section("realm", "password", "check-connection")
	if err := c.checkDigest(digestOf(c.s.access.realms)); err != nil {
		return nil, userConfig(failed, err)
	}
	switch {
	case len(section) == 0 && len(remove) == 0 && !c.p.has("password"):
		return nil, userConfig(failed, die("no options specified"))
	case r == nil:
		return nil, userConfig(failed, die("cannot lookup undefined type! at /usr/share/perl5/PVE/API2/Domains.pm line 261."))
	}
	about := sectionTypeOf("realm", r["type"])
	if err := about.check(section, false); err != nil {
		return nil, userConfig(failed, err)
	}
	left := maps.Clone(r)
	for _, k := range remove {
		delete(left, k)
	}
	maps.Copy(left, section)
	if err := about.check(left, true); err != nil { // the file is not written without it
		return nil, userConfig(failed, die("section '%s' - %s", id, err))
	}
	for _, k := range remove {
		delete(r, k)
	}
	c.setRealm(id, section)
	return nil, nil
}

// deleteRealm forgets a realm, not its users. Those that are always there are as
// they were at first.
func (c *call) deleteRealm() (any, error) {
	id := c.param("realm")
	if c.s.access.realm(id) == nil {
		return nil, userConfig("delete auth server failed", die("authentication domain '%s' does not exist", id))
	}
	delete(c.s.access.realms, id)
	if first := firstRealms()[id]; first != nil {
		c.s.access.realms[id] = first
	}
	return nil, nil
}
