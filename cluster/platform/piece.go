package platform

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/spec"
)

// Piece is a part of the platform, and how it gets into the cluster.
type Piece struct {
	chart.Part
	Via string // ViaDirect or ViaFleet

	Network  bool     // the pods' network itself: no node is ready before
	Base     bool     // Fleet or one of its dependencies: Fleet cannot deploy it
	Gpus     bool     // it watches GPUs: not before they can be asked for
	Replaces []string // parts that do the same work, and must be gone before

	// late builds the part again with values of the running cluster; nil: it has
	// none.
	Late func(context.Context, *kube.Client) (chart.Part, error)

	// assumes says what late adds to what goes into Git.
	assumes []string
}

// NFS is the part that makes volumes on the NFS server.
const NFS = "nfs"

// ObjectsApart reports whether a part has a step for objects beside its chart's.
func (p Piece) ObjectsApart() bool { return p.Release == nil || len(p.After) > 0 }

// Split sorts the parts that we apply ourselves into those that Fleet may wait for,
// and those that wait for something of Fleet's.
func Split(pieces []Piece) (before, after []Piece) {
	late := map[string]bool{}
	for _, p := range pieces {
		waits := slices.ContainsFunc(p.Needs, func(name string) bool { return late[name] })
		switch {
		case p.Via == spec.ViaFleet:
			late[p.Name] = true
		case p.Name == GitOps: // Fleet's own steps have it
		case waits:
			late[p.Name] = true
			after = append(after, p)
		case !p.Network: // the nodes have waited for it
			before = append(before, p)
		}
	}
	return before, after
}

// Now is a part with all that only a living cluster can tell.
func (p Piece) Now(ctx context.Context, client *kube.Client) (Piece, error) {
	if p.Late == nil {
		return p, nil
	}
	part, err := p.Late(ctx, client)
	p.Part = part
	return p, err
}

// inOrder sorts parts so that each comes after those that it needs, and else as they
// are.
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

// Objects are what a part has beside its release: kinds that the release has brought,
// or all of a part that has none.
func (p Piece) Objects() []runtime.Object {
	if p.Release == nil {
		return append(append([]runtime.Object(nil), p.Before...), p.After...)
	}
	return p.After
}

// Early reports whether something of a part that goes through Git must be in the
// cluster beforehand: Secrets, and labels of its namespace that Fleet does not set.
func (p Piece) Early() bool { return len(p.Secrets) > 0 || len(p.NamespaceLabels) > 0 }

// GitOps is the part that points Fleet at the repository.
const GitOps = "gitops"

// LocalPath is the storage class that K3s brings, and makes the default.
const LocalPath = "local-path"
