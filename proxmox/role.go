package proxmox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// Role is a role of Proxmox and the path that it is granted on.
type Role struct {
	Name       string
	Path       string
	Propagate  bool
	Privileges []string // sorted
	Reasons    []string // what needs it, one reason a grant
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
		if g.Reason != "" {
			r.Reasons = append(r.Reasons, g.Reason)
		}
	}
	return out
}

// String names what the role grants, on what.
func (r Role) String() string { return describeGrant(r.Privileges, r.Path, r.Propagate) }

// roleName names a role after its path: /storage/local is PREFIX-storage-local.
func roleName(prefix, path string) string {
	if path == "/" {
		return prefix + "-root"
	}
	return prefix + strings.ReplaceAll(path, "/", "-")
}

// TokenCommands returns the commands that make a user without a password, and its
// token: one that is privilege-separated, which has only what both it and its user
// are granted. Where there is none yet the last prints its secret, once. root@pam
// is there already.
func TokenCommands(user, token string) []string {
	name := tokenName(token)
	token = fmt.Sprintf("pveum user token modify %s %s --privsep 1 2>/dev/null || pveum user token add %s %s --privsep 1", printable.Word(user), printable.Word(name), printable.Word(user), printable.Word(name))
	if user == rootUser {
		return []string{token}
	}
	return []string{fmt.Sprintf("pveum user list --output-format json | grep -qF %s || pveum user add %s --comment homelab", printable.Word(`"`+user+`"`), printable.Word(user)), token}
}

// tokenName is what follows the exclamation mark, if there is one.
func tokenName(token string) string {
	if _, name, found := strings.Cut(token, "!"); found {
		return name
	}
	return token
}

// command makes the role, or brings it to what it should be.
func (r Role) command() string {
	return fmt.Sprintf("pveum role add %s 2>/dev/null; pveum role modify %s --privs %s", printable.Word(r.Name), printable.Word(r.Name), printable.Word(strings.Join(r.Privileges, ",")))
}

// grantCommands give the role to a user and to its token.
func (r Role) grantCommands(user, tokenID string) []string {
	var out []string
	grant := func(flag, who string) {
		out = append(out, fmt.Sprintf("pveum acl modify %s %s %s --roles %s --propagate %s", printable.Word(r.Path), flag, printable.Word(who), printable.Word(r.Name), wire.ZeroOne(r.Propagate)))
	}
	if user != rootUser {
		grant("--users", user)
	}
	grant("--tokens", tokenID)
	return out
}

// rootUser has every privilege without an entry; its tokens do not.
const rootUser = "root@pam"

// GrantCommands returns the commands that grant what need says on one path,
// to a token that is there (user@realm!name). What the token inherited on that path
// from a path above is replaced: Proxmox does not add the two.
func GrantCommands(prefix, tokenID string, need []Grant, path string) []string {
	user, _, _ := strings.Cut(tokenID, "!")
	var out []string
	for _, r := range Roles(prefix, need) {
		if r.Path == path {
			out = append(out, r.command())
			out = append(out, r.grantCommands(user, tokenID)...)
		}
	}
	return out
}

// MissingGrantCommands returns, for [Client.SetGrantCommands], the commands that grant what a token lacks of need, by
// roles that are named as in [Roles] with prefix.
func MissingGrantCommands(prefix, tokenID string, need []Grant) func(path string, privileges []string) []string {
	return func(path string, privileges []string) []string {
		i := slices.IndexFunc(need, func(g Grant) bool {
			reaches := g.Path == path || g.Propagate && strings.HasPrefix(path, strings.TrimSuffix(g.Path, "/")+"/")
			return reaches && slices.ContainsFunc(privileges, func(p string) bool { return slices.Contains(g.Privileges, p) })
		})
		if i < 0 {
			return nil
		}
		return GrantCommands(prefix, tokenID, need, need[i].Path)
	}
}
