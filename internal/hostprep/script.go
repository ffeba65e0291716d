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
	user, token, _ := strings.Cut(tokenID, "!")
	need := slices.Concat(Grants(s, v), ReadGrants(s))
	var out strings.Builder
	say := func(format string, args ...any) {
		out.WriteString("# " + printable.Text(fmt.Sprintf(format, args...)) + "\n")
	}
	run := func(commands []string) { out.WriteString(strings.Join(commands, "\n") + "\n") }

	say("The minimal privileges of cluster %s (%s) on Proxmox VE %d.", s.Name, s.File, v.Major())
	if len(need) == 0 {
		say("Nothing: it has no machine on a Proxmox host.")
		return out.String()
	}
	say("Run it as root on any host of the Proxmox cluster, and again after a change of the file.")
	out.WriteString("\n")
	say("The user, without a password, and its API token. If the token is new, this prints")
	say("the token's secret, and only this once. The token is privilege-separated:")
	say("it may do only what both it and its user may do, so both get every role below.")
	if user != "root@pam" {
		say("Use both only for this: a grant on a path replaces what the user")
		say("inherits there from above, and a token with all of its user's privileges loses them.")
	}
	run(proxmox.TokenCommands(user, token))
	for _, r := range proxmox.Roles(RolePrefix(s), need) {
		out.WriteString("\n")
		say("On %s%s:", r.Path, map[bool]string{true: " and the paths below", false: " alone"}[r.Propagate])
		for _, g := range need {
			if g.Path == r.Path {
				say("  %s: %s", strings.Join(g.Privileges, ", "), g.Reason)
			}
		}
		run(proxmox.GrantCommands(RolePrefix(s), tokenID, need, r.Path))
	}
	out.WriteString("\n")
	say("To check: pveum user token permissions %s %s", printable.Word(user), printable.Word(token))
	return out.String()
}
