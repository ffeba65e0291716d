package access

import (
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// tokenInfo is what may be shown of a token: all but its secret.
func tokenInfo(s *world.State, id string) map[string]any {
	about := s.Access.About(id)
	e := map[string]any{"privsep": answer.Flag(s.Access.Tokens[id].PrivSep), "expire": max(0, schema.Atoi(about["expire"]))}
	if about["comment"] != "" {
		e["comment"] = about["comment"]
	}
	return e
}

func listTokens(c *world.Call) (any, error) {
	out := []any{}
	for _, name := range c.State.TokensOf(c.Param("userid")) {
		e := tokenInfo(c.State, c.Param("userid")+"!"+name)
		e["tokenid"] = name
		out = append(out, e)
	}
	return out, nil
}

// token returns the full ID of the one that a call names.
func token(c *world.Call) (string, error) {
	user, name := c.Param("userid"), c.Param("tokenid")
	if _, there := c.State.Access.Tokens[user+"!"+name]; !there {
		return "", answer.Die("no such token '%s' for user '%s'", name, user)
	}
	return user + "!" + name, nil
}

func getToken(c *world.Call) (any, error) {
	id, err := token(c)
	if err != nil {
		return nil, err
	}
	return tokenInfo(c.State, id), nil
}

func createToken(c *world.Call) (any, error) {
	id := c.Param("userid") + "!" + c.Param("tokenid")
	if c.State.Access.Users[c.Param("userid")].ID == "" {
		return nil, answer.Die("no such user ('%s')", c.Param("userid"))
	}
	if _, there := c.State.Access.Tokens[id]; there {
		return nil, answer.BadParam("tokenid", "Token already exists.")
	}
	t := model.Token{ID: id, Secret: c.State.UUID(), PrivSep: !c.Params.Has("privsep") || c.Params.Bool("privsep")}
	c.State.Access.Tokens[id] = t
	putToken(c, id)
	info := tokenInfo(c.State, id)
	delete(info, "expire")
	asGiven(c, info)
	return map[string]any{"full-tokenid": id, "value": t.Secret, "info": info}, nil
}

func putToken(c *world.Call, id string) {
	about := c.State.Access.About(id)
	for _, k := range []string{"comment", "expire"} {
		if c.Params.Has(k) {
			about[k] = c.Param(k)
		}
	}
}

func updateToken(c *world.Call) (any, error) {
	id, err := token(c)
	if err != nil {
		return nil, err
	}
	for _, k := range schema.SplitList(c.Param("delete")) {
		if k != "comment" {
			return nil, answer.BadParam("delete", "unknown option '"+k+"'")
		}
		delete(c.State.Access.About(id), k)
	}
	t := c.State.Access.Tokens[id]
	if c.Params.Has("privsep") {
		t.PrivSep = c.Params.Bool("privsep")
	}
	putToken(c, id)
	out := map[string]any{}
	if c.Params.Bool("regenerate") {
		t.Secret = c.State.UUID()
		out["value"], out["full-tokenid"] = t.Secret, id
	}
	c.State.Access.Tokens[id] = t
	maps.Copy(out, tokenInfo(c.State, id))
	asGiven(c, out)
	return out, nil
}

// asGiven puts what a call says of a token into an answer as the text that it came
// as: Proxmox answers with its own parameters, which are no numbers.
func asGiven(c *world.Call, token map[string]any) {
	for _, k := range []string{"privsep", "expire"} {
		if c.Params.Has(k) {
			token[k] = c.Param(k)
		}
	}
}

func deleteToken(c *world.Call) (any, error) {
	id, err := token(c)
	if err != nil {
		return nil, err
	}
	delete(c.State.Access.Tokens, id)
	delete(c.State.Access.People, id)
	c.State.ForgetWho(id)
	return nil, nil
}

func listRealms(c *world.Call) (any, error) {
	c.State.Access.Realm("pam")
	out := []any{}
	for _, id := range slices.Sorted(maps.Keys(c.State.Access.Realms)) {
		r := c.State.Access.Realms[id]
		e := map[string]any{"realm": id, "type": r["type"]}
		if r["comment"] != "" {
			e["comment"] = r["comment"]
		}
		if factor, err := schema.ParseProps(c.State.Schema.Methods["POST /access/domains"].Parameters["tfa"].Format.Keys, r["tfa"]); err == nil && factor["type"] != "" {
			e["tfa"] = factor["type"]
		}
		if r["default"] == "1" {
			e["default"] = 1
		}
		out = append(out, e)
	}
	return out, nil
}

func getRealm(c *world.Call) (any, error) {
	r := c.State.Access.Realm(c.Param("realm"))
	if r == nil {
		return nil, answer.Die("domain '%s' does not exist", c.Param("realm"))
	}
	e := map[string]any{"digest": world.DigestOf(c.State.Access.Realms)}
	for k, v := range r {
		e[k] = c.State.TypedAs("POST /access/domains", k, v)
	}
	if r["type"] == "pam" { // PVE/Auth/Plugin.pm, parse_config
		e["plugin"] = "PVE::Auth::PAM"
	}
	return e, nil
}

func createRealm(c *world.Call) (any, error) {
	id, kind := c.Param("realm"), c.Param("type")
	const failed = "add auth server failed"
	section := c.Section("realm", "password", "check-connection")
	switch {
	case c.State.Access.Realm(id) != nil:
		return nil, answer.UserConfig(failed, answer.Die("domain '%s' already exists", id))
	case kind == "pam" || kind == "pve":
		return nil, answer.UserConfig(failed, answer.Die("unable to create builtin type '%s'", kind))
	case c.Params.Has("check-connection") && kind == "openid":
		return nil, answer.UserConfig(failed, answer.Die("'check-connection' parameter can only be set for realms of type 'ldap' or 'ad'"))
	}
	if err := schema.SectionOf("realm", kind).Check(section, true); err != nil {
		return nil, answer.UserConfig(failed, err)
	}
	setRealm(c, id, section)
	return nil, nil
}

// setRealm writes a realm down. One alone is that which is chosen before anybody
// chooses.
func setRealm(c *world.Call, id string, section map[string]string) {
	realms := c.State.Access.Realms
	if section["default"] == "1" {
		for _, r := range realms {
			delete(r, "default")
		}
	}
	if realms[id] == nil {
		realms[id] = map[string]string{}
	}
	maps.Copy(realms[id], section)
	world.WithoutEmpty(realms[id])
	if sync := schema.SplitList(realms[id]["sync-defaults-options"]); len(sync) > 0 { // printed again, in order
		slices.Sort(sync)
		realms[id]["sync-defaults-options"] = strings.Join(sync, ",")
	}
}

func updateRealm(c *world.Call) (any, error) {
	const failed = "update auth server failed"
	id := c.Param("realm")
	r, remove := c.State.Access.Realm(id), schema.SplitList(c.Param("delete"))
	section := c.Section("realm", "password", "check-connection")
	if err := c.CheckDigest(world.DigestOf(c.State.Access.Realms)); err != nil {
		return nil, answer.UserConfig(failed, err)
	}
	switch {
	case len(section) == 0 && len(remove) == 0 && !c.Params.Has("password"):
		return nil, answer.UserConfig(failed, answer.Die("no options specified"))
	case r == nil:
		return nil, answer.UserConfig(failed, answer.Die("cannot lookup undefined type! at /usr/share/perl5/PVE/API2/Domains.pm line 261."))
	}
	about := schema.SectionOf("realm", r["type"])
	if err := about.Check(section, false); err != nil {
		return nil, answer.UserConfig(failed, err)
	}
	left := maps.Clone(r)
	for _, k := range remove {
		delete(left, k)
	}
	maps.Copy(left, section)
	if err := about.Check(left, true); err != nil { // the file is not written without it
		return nil, answer.UserConfig(failed, answer.Die("section '%s' - %s", id, err))
	}
	for _, k := range remove {
		delete(r, k)
	}
	setRealm(c, id, section)
	return nil, nil
}

// deleteRealm forgets a realm, not its users. Those that are always there are as
// they were at first.
func deleteRealm(c *world.Call) (any, error) {
	id := c.Param("realm")
	if c.State.Access.Realm(id) == nil {
		return nil, answer.UserConfig("delete auth server failed", answer.Die("authentication domain '%s' does not exist", id))
	}
	delete(c.State.Access.Realms, id)
	if first := world.FirstRealms()[id]; first != nil {
		c.State.Access.Realms[id] = first
	}
	return nil, nil
}
