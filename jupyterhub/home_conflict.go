package jupyterhub

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// HomeConflict is a consequence of homes that stay on one node: a user who starts Profile first may
// get a home on one of Nodes, where Other never runs.
type HomeConflict struct {
	Profile string   `json:"profile"`
	Other   string   `json:"other"`
	Nodes   []string `json:"nodes"`
}

func (a HomeConflict) String() string {
	nodes := strings.Join(a.Nodes, " or ")
	if len(a.Nodes) > namedNodes {
		nodes = fmt.Sprintf("%s or one of %d more", strings.Join(a.Nodes[:namedNodes], ", "), len(a.Nodes)-namedNodes)
	}
	return fmt.Sprintf("a user who starts %s first can get a home on %s, and can then never start %s", a.Profile, nodes, a.Other)
}

// namedNodes is how many nodes a sentence names.
const namedNodes = 3

// homeConflicts checks all pairs of profiles that run somewhere.
func (h Hub) homeConflicts() []HomeConflict {
	all := spec.Variants(h.Profiles...)
	nodes := make([][]string, len(all))
	for i, p := range all {
		nodes[i] = h.nodesOf(p)
	}
	var out []HomeConflict
	for i, p := range all {
		for k, other := range all {
			if len(nodes[k]) == 0 || disjoint(p, other) {
				continue
			}
			if only := difference(nodes[i], nodes[k]); len(only) > 0 {
				out = append(out, HomeConflict{Profile: p.Name, Other: other.Name, Nodes: only})
			}
		}
	}
	return out
}

// disjoint reports whether no user sees both profiles.
func disjoint(a, b spec.HubProfile) bool {
	return len(a.Groups) > 0 && len(b.Groups) > 0 && !slices.ContainsFunc(a.Groups, func(g string) bool { return slices.Contains(b.Groups, g) })
}

// nodesOf names the nodes that hold a server of the profile.
func (h Hub) nodesOf(p spec.HubProfile) []string {
	var out []string
	pools := h.poolsOf(p)
	for _, in := range pools {
		for _, n := range in.Nodes {
			in.Nodes = []Node{n}
			if fit(p, in, pools).Count > 0 {
				out = append(out, n.Name)
			}
		}
	}
	return out
}

// difference returns the names of a that are not in b.
func difference(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(name string) bool { return slices.Contains(b, name) })
}
