package hostprep

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
)

// RoleScript returns shell commands for root on any host of the Proxmox cluster that give a token
// (user@realm!name) the grants of [Grants]. A comment above each says what it is for, so that the
// reader can check it. It is safe to run them again.
func RoleScript(s *spec.Spec, v proxmox.Version, tokenID string) string {
	need := slices.Concat(Grants(s, v), ReadGrants(s))
	var out script
	out.say("The minimal privileges of cluster %s (%s) on Proxmox VE %d.", s.Name, s.File, v.Major())
	if len(need) == 0 {
		out.say("Nothing: it has no machine on a Proxmox host.")
		return out.String()
	}
	out.say("Run it as root on any host of the Proxmox cluster, and again after a change of the file.")
	out.WriteString("\n")
	out.token(RolePrefix(s), tokenID, need)
	if c := s.Platform.Storage.Proxmox; c != nil {
		out.WriteString("\n")
		out.say("For storage.proxmox: pods of the cluster have this token.")
		out.token(ClaimRolePrefix(s), c.TokenID, ClaimGrants(s))
	}
	return out.String()
}

// script is commands with comments.
type script struct{ strings.Builder }

func (out *script) say(format string, args ...any) {
	out.WriteString("# " + printable.Text(fmt.Sprintf(format, args...)) + "\n")
}

// token writes how to make a token, with what it needs and nothing else.
func (out *script) token(prefix, tokenID string, need []proxmox.Grant) {
	user, token, _ := strings.Cut(tokenID, "!")
	run := func(commands []string) { out.WriteString(strings.Join(commands, "\n") + "\n") }
	out.say("The user, without a password, and its API token. If the token is new, this prints")
	out.say("the token's secret, and only this once. The token is privilege-separated:")
	out.say("it may do only what both it and its user may do, so both get every role below.")
	if user != "root@pam" {
		out.say("Use both only for this: a grant on a path replaces what the user")
		out.say("inherits there from above, and a token with all of its user's privileges loses them.")
	}
	run(proxmox.TokenCommands(user, token))
	for _, r := range proxmox.Roles(prefix, need) {
		out.WriteString("\n")
		out.say("On %s%s:", r.Path, map[bool]string{true: " and the paths below", false: " alone"}[r.Propagate])
		for _, g := range need {
			if g.Path == r.Path {
				out.say("  %s: %s", strings.Join(g.Privileges, ", "), g.Reason)
			}
		}
		run(proxmox.GrantCommands(prefix, tokenID, need, r.Path))
	}
	out.WriteString("\n")
	out.say("To check: pveum user token permissions %s %s", printable.Word(user), printable.Word(token))
	out.say("To undo it, once nothing uses the token (a deleted role takes its grants along):")
	out.say("  pveum user token delete %s %s", printable.Word(user), printable.Word(token))
	for _, r := range proxmox.Roles(prefix, need) {
		out.say("  pveum role delete %s", printable.Word(r.Name))
	}
	if user != "root@pam" {
		out.say("and, if it has no other token: pveum user delete %s", printable.Word(user))
	}
}
