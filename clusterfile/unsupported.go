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
		{&r.raw.K3s.Snapshots.S3, r.raw.K3s.Snapshots.S3 != nil, "copying snapshots to S3 is not supported yet", "remove s3: and fetch them from /var/lib/rancher/k3s/server/db/snapshots of a server"},
		{&nv.Sharing.Strategy, nv.Sharing.Strategy == spec.SharingMIG, notMIG, orSlices},
	} {
		if no.said {
			r.Wrong(no.at, no.what, no.cure)
		}
	}
	for _, n := range r.nodes {
		if s := n.raw.GPUs.Sharing; s != nil && s.Strategy == spec.SharingMIG {
			r.Wrong(&s.Strategy, notMIG, orSlices)
		}
	}
	r.unused()
}

const (
	notMIG   = "partitioning GPUs with MIG is not supported yet"
	orSlices = "write strategy: time-slicing or mps with replicas, or none"
)

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
