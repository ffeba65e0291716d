package platform

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
)

// Piece is a part of the platform, and how it is installed in the cluster.
type Piece struct {
	chart.Part
	Via string // ViaDirect or ViaFleet

	Network  bool     // the pods' network itself: no node is ready without it
	Offers   bool     // it makes GPUs allocatable: parts that need GPUs wait for that
	Base     bool     // Fleet or one of its dependencies: Fleet cannot deploy it
	Gpus     bool     // it monitors GPUs: install it when pods can request GPUs
	Replaces []string // parts that do the same work, and must be removed before

	// Late builds the part again with values of the running cluster; nil: it needs none.
	Late func(context.Context, *kube.Client) (chart.Part, error)

	// assumes says what Late adds to the files for Git.
	assumes []string
}

// NFS is the part that provides volumes on the NFS server.
const NFS = "nfs"

// ObjectsApart reports whether a part has a separate step for objects outside its chart.
func (p Piece) ObjectsApart() bool { return p.Release == nil || len(p.After) > 0 }

// Split divides the parts that we install ourselves into those that Fleet may wait for, and those
// that wait for a part that Fleet installs.
func Split(pieces []Piece) (before, after []Piece) {
	late := map[string]bool{}
	for _, p := range pieces {
		waits := slices.ContainsFunc(p.Needs, func(name string) bool { return late[name] })
		switch {
		case p.Via == spec.ViaFleet:
			late[p.Name] = true
		case p.Name == GitOps: // Fleet's own steps install it
		case waits:
			late[p.Name] = true
			after = append(after, p)
		case !p.Network && !p.Offers: // the nodes, and their GPUs, waited for these
			before = append(before, p)
		}
	}
	return before, after
}

// Now returns a part with the values that only a running cluster can provide.
func (p Piece) Now(ctx context.Context, client *kube.Client) (Piece, error) {
	if p.Late == nil {
		return p, nil
	}
	part, err := p.Late(ctx, client)
	p.Part = part
	return p, err
}

// inOrder sorts parts so that each comes after those that it needs. Otherwise it keeps their order.
func inOrder(all []Piece) ([]Piece, error) {
	names := map[string]bool{}
	for _, p := range all {
		names[p.Name] = true
	}
	var out []Piece
	placed := map[string]bool{}
	for len(out) < len(all) {
		before := len(out)
		for _, p := range all {
			if placed[p.Name] || slices.ContainsFunc(p.Needs, func(n string) bool { return names[n] && !placed[n] }) {
				continue
			}
			out, placed[p.Name] = append(out, p), true
		}
		if len(out) == before {
			var rest []string
			for _, p := range all {
				if !placed[p.Name] {
					rest = append(rest, p.Name)
				}
			}
			return nil, fmt.Errorf("parts wait for each other: %s", strings.Join(rest, ", "))
		}
	}
	return out, nil
}

// Objects returns the objects of a part outside its release: kinds that the release defines, or all
// objects of a part without a release.
func (p Piece) Objects() []runtime.Object {
	if p.Release == nil {
		return append(append([]runtime.Object(nil), p.Before...), p.After...)
	}
	return p.After
}

// Early reports whether a part that goes through Git needs objects in the cluster first: Secrets,
// and labels of its namespace that Fleet does not set.
func (p Piece) Early() bool { return len(p.Secrets) > 0 || len(p.NamespaceLabels) > 0 }

// GitOps is the part that points Fleet at the repository.
const GitOps = "gitops"

// LocalPath is the storage class that K3s includes and makes the default.
const LocalPath = "local-path"
