package proxmox

import (
	"fmt"
	"slices"
	"strings"
)

// Role is a role of Proxmox and the path that it is granted on.
type Role struct {
	Name       string
	Path       string
	Propagate  bool
	Privileges []string // sorted
	Why        []string // what needs it, one reason a grant
}

// Roles turns grants into one role for each path: an entry of Proxmox's tree of
// access control replaces what is inherited from above, so a path must have in
// one place all that is wanted on it. Names begin with prefix, which must not
// begin with PVE: those are Proxmox's own.
func Roles(prefix string, need []Grant) []Role {
	var out []Role
	for _, g := range need {
		i := slices.IndexFunc(out, func(r Role) bool { return r.Path == g.Path })
		if i < 0 {
			i = len(out)
			out = append(out, Role{Name: roleName(prefix, g.Path), Path: g.Path})
		}
		r := &out[i]
		r.Propagate = r.Propagate || g.Propagate
		r.Privileges = append(r.Privileges, g.Privileges...)
		slices.Sort(r.Privileges)
		r.Privileges = slices.Compact(r.Privileges)
		if g.Why != "" {
			r.Why = append(r.Why, g.Why)
		}
	}
	return out
}

// String names what the role grants, on what.
func (r Role) String() string { return granted(r.Privileges, r.Path, r.Propagate) }

// roleName names a role after its path: /storage/local is PREFIX-storage-local.
func roleName(prefix, path string) string {
	if path == "/" {
		return prefix + "-root"
	}
	return prefix + strings.ReplaceAll(path, "/", "-")
}

// RoleCommands returns the commands that give a token what need says, for root on
// any host of the cluster: roles as in [Roles], the user, its privilege-separated
// token, and every role for both of them, since such a token has only what its
// user has too. They may be run again: what is there is brought to what is said
// here. Only the first run of the line with "token add" prints the token's secret.
// token is the name behind the exclamation mark; root@pam needs no roles.
func RoleCommands(prefix, user, token string, need []Grant) []string {
	if _, name, found := strings.Cut(token, "!"); found {
		token = name
	}
	roles := Roles(prefix, need)
	var out []string
	for _, r := range roles {
		out = append(out, r.command())
	}
	if user != rootUser {
		out = append(out, fmt.Sprintf("pveum user list --output-format json | grep -q %s || pveum user add %s --comment homelab",
			shellQuote(`"`+user+`"`), shellQuote(user)))
	}
	out = append(out, fmt.Sprintf("pveum user token modify %s %s --privsep 1 2>/dev/null || pveum user token add %s %s --privsep 1",
		shellQuote(user), token, shellQuote(user), token))
	for _, r := range roles {
		out = append(out, r.grantCommands(user, user+"!"+token)...)
	}
	return out
}

// command makes the role, or brings it to what it should be.
func (r Role) command() string {
	privileges := strings.Join(r.Privileges, ",")
	return fmt.Sprintf("pveum role modify %s --privs %s 2>/dev/null || pveum role add %s --privs %s", r.Name, privileges, r.Name, privileges)
}

// grantCommands give the role to a user and to its token.
func (r Role) grantCommands(user, tokenID string) []string {
	var out []string
	grant := func(flag, who string) {
		out = append(out, fmt.Sprintf("pveum acl modify %s %s %s --roles %s --propagate %s", r.Path, flag, shellQuote(who), r.Name, zeroOne(r.Propagate)))
	}
	if user != rootUser {
		grant("--users", user)
	}
	grant("--tokens", tokenID)
	return out
}

// rootUser has every privilege without an entry; its tokens have not.
const rootUser = "root@pam"

// shellQuote quotes a word for the shell where it has to be.
func shellQuote(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_", r)
	}) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}
