package clusterfile

import (
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/spec"
)

// unsupported refuses keys that no recipe implements yet, instead of silently ignoring them.
// Each line is removed with its recipe.
func (r *resolver) unsupported() {
	nv := &r.raw.NVIDIA
	for _, no := range []struct {
		at         any
		said       bool
		what, cure string
	}{
		{&nv.Stack, nv.Stack == spec.StackOperator, "the GPU operator is not supported yet", "write stack: device-plugin"},
		{&nv.Driver.Mode, nv.Driver.Mode == spec.DriverOperator, "a driver in a container is not supported yet", "write mode: prebuilt, or mode: dkms"},
		{&nv.Values, len(nv.Values) > 0, "raw values for the stack are not supported yet", "remove values:"},
	} {
		if no.said {
			r.Wrong(no.at, no.what, no.cure)
		}
	}
	r.unused()
}

// unused warns of valid settings that have no effect, on some nodes or at all.
func (r *resolver) unused() {
	px := &r.raw.Proxmox
	needed := slices.ContainsFunc(r.nodes, func(n plannedNode) bool { return n.Hugepages+n.Affinity != "" })
	if r.IsSet(&px.User) && !needed {
		r.Warn(&px.User, "user and password are needed only for hugepages and affinity, and no node has those", "remove user and password; the token does everything")
	}
	guest := &r.raw.Guest
	for _, n := range r.nodes {
		if !n.External {
			continue
		}
		for _, at := range []any{&guest.Packages, &guest.Sysctls, &guest.KernelModules, &guest.Files, &r.raw.SSH.PasswordHash} {
			if r.IsSet(at) {
				r.Warn(at, fmt.Sprintf("%s is external, so this has no effect on it", n.Name), "set it up by hand on that machine")
			}
		}
	}
}
