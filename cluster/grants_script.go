package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/spec"
)

// RoleScript returns shell commands for root on any host of the Proxmox cluster that
// give a token (user@realm!name) the grants of [Grants], and above each what it
// is for, so that the reader can check it. They can run again.
func RoleScript(s *spec.Spec, v proxmox.Version, tokenID string) string {
	user, token, _ := strings.Cut(tokenID, "!")
	need := slices.Concat(Grants(s, v), LookGrants(s))
	var out strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&out, "# "+format+"\n", args...) }
	run := func(commands []string) { out.WriteString(strings.Join(commands, "\n") + "\n") }

	say("What cluster %s (%s) has to be allowed on Proxmox VE %d, and no more.", s.Name, s.File, v.Major())
	if len(need) == 0 {
		say("Nothing: it has no machine on a Proxmox host.")
		return out.String()
	}
	say("For root on any host of the Proxmox cluster; may be run again, also after the file has changed.")
	out.WriteString("\n")
	say("The user, without a password, and its API token. Where there is none yet, this prints")
	say("the token's secret, and nobody will see it again. The token is privilege-separated:")
	say("it may do what both it and its user may, so every role below is given to both.")
	if user != "root@pam" {
		say("Let both be for this alone: what is granted on a path takes the place of what the user")
		say("inherits there from above, and a token that had all of its user's rights loses them.")
	}
	run(proxmox.TokenCommands(user, token))
	for _, r := range proxmox.Roles(RolePrefix(s), need) {
		out.WriteString("\n")
		say("On %s%s:", r.Path, map[bool]string{true: " and what lies below", false: " alone"}[r.Propagate])
		for _, g := range need {
			if g.Path == r.Path {
				say("  %s: %s", strings.Join(g.Privileges, ", "), g.Why)
			}
		}
		run(proxmox.GrantCommands(RolePrefix(s), tokenID, need, r.Path))
	}
	out.WriteString("\n")
	say("What the token may do then: pveum user token permissions %s %s", user, token)
	return out.String()
}
