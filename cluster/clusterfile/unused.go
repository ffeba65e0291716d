package clusterfile

import (
	"fmt"
	"slices"
)

// unused warns of valid settings that have no effect, on some nodes or at all.
func (r *resolver) unused() {
	px := &r.spec.Proxmox
	needed := slices.ContainsFunc(r.nodes, func(n plannedNode) bool { return n.Hugepages+n.Affinity != "" })
	if r.IsSet(&px.User) && !needed {
		r.Warn(&px.User, "user and password are needed only for hugepages and affinity, and no node has those", "remove user and password; the token does everything")
	}
	guest := &r.spec.Guest
	for _, n := range r.nodes {
		if !n.External {
			continue
		}
		for _, at := range []any{&guest.Packages, &guest.Sysctls, &guest.KernelModules, &guest.Files, &r.spec.Access.PasswordHash} {
			if r.IsSet(at) {
				r.Warn(at, fmt.Sprintf("%s is external, so this has no effect on it", n.Name), "set it up by hand on that machine")
			}
		}
	}
}
