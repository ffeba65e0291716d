package addon

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/verify"
)

// Part is a service of the cluster, as its section of cluster.yaml describes it.
type Part interface {
	Info() Info
	// Make says how it is installed; an empty Piece has nothing to install.
	Make(*Site) (Recipe, error)
}

// Info is what is known of a part without making it.
type Info struct {
	Name         string    // in charts.versions, charts.values and charts.via
	Section      string    // the key of the file that turns it on, e.g. storage.longhorn
	On           bool      // the file asks for it
	Namespace    string    // of its release
	Chart        chart.Pin // zero: it has objects only
	Shared       bool      // volumes of its storage class survive a node, and every node can mount them
	Stays        string    // what outlives the cluster elsewhere, e.g. "backups in the bucket b"
	NeverInFleet string    // why Fleet cannot deploy it, nor Flux, nor Argo CD; empty: they can
	NeverInArgo  string    // why Argo CD alone cannot; empty: it can
	Host         Host      // what it needs on every node
	CPUShare     float64   // of each node's CPUs, that it guarantees itself
}

// Never says why the tool that charts.via calls so cannot deploy the part; empty: it can.
func (i Info) Never(via string) string {
	if i.NeverInFleet == "" && via == spec.ViaArgo {
		return i.NeverInArgo
	}
	return i.NeverInFleet
}

// Host is what a part needs on every node, in addition to Kubernetes.
type Host struct {
	Packages []string          // of the distribution
	Modules  []string          // of the kernel
	Files    map[string]string // by absolute path
}

// Add adds what another part needs.
func (h *Host) Add(more Host) {
	h.Packages = append(h.Packages, more.Packages...)
	h.Modules = append(h.Modules, more.Modules...)
	maps.Copy(h.Files, more.Files)
}

// ObjectsApart reports whether a part has a separate step for objects outside its chart.
func (p Recipe) ObjectsApart() bool { return p.Release == nil || len(p.After) > 0 }

// Objects returns the objects of a part outside its release: kinds that the release defines, or all
// objects of a part without a release.
func (p Recipe) Objects() []runtime.Object {
	if p.Release == nil {
		return slices.Concat(p.Before, p.After)
	}
	return p.After
}

// InGit reports whether the part goes through Git.
func (p Recipe) InGit() bool {
	return p.Via == spec.ViaFleet || p.Via == spec.ViaFlux || p.Via == spec.ViaArgo
}

// NeedsObjectsFirst reports whether a part that goes through Git needs objects in the cluster first: Secrets,
// namespaces, and labels of its own that Fleet does not set.
func (p Recipe) NeedsObjectsFirst() bool {
	return len(p.Secrets) > 0 || len(p.NamespaceLabels) > 0 || len(p.Namespaces()) > 0
}

// Namespaces are those among the objects of a part.
func (p Recipe) Namespaces() []runtime.Object {
	return slices.DeleteFunc(slices.Concat(p.Before, p.After), func(o runtime.Object) bool { return !IsNamespace(o) })
}

// IsNamespace reports whether an object is a namespace.
func IsNamespace(o runtime.Object) bool {
	return o.GetObjectKind().GroupVersionKind().Kind == "Namespace"
}

// Recipe is how a part is installed.
type Recipe struct {
	chart.Part
	Via string // spec.ViaDirect, or what deploys it from Git

	Network bool   // the pods' network itself: no node is ready without it
	Offers  bool   // it makes GPUs allocatable: parts that need GPUs wait for that
	Direct  string // why Fleet cannot deploy it, as in Info
	GPUs    bool   // it monitors or uses GPUs: install it when pods can request GPUs
	Fleet   bool   // it brings Fleet, Flux or Argo CD

	Replaces []string // parts that do the same work, and must be removed before
	APIs     []string // kinds that it adds and that templates of other charts ask for
	Probes   []Probe  // prove its storage classes

	Settle time.Duration // until its objects are ready; 0: five minutes

	Operands []string // images that its programs start and that none of its objects names
	Unlisted []string // what more they start, and where it is listed

	Web       *Web           // where people find it
	Callbacks []Web          // of programs, which a login's provider has to know
	Passwords []Password     // that are generated, and that people need
	Verify    []verify.Check // of what people have it for, beside Web and Probe; see [Recipe.Checks]
	TriedBy   string         // the part or command that tries it, if it has no check of its own

	// Stays reports whether an object beside the release is left as the cluster has it; nil: none is.
	Stays func(context.Context, *kube.Client, runtime.Object) (bool, error)
	// Late builds the part again with values of the running cluster; nil: it needs none.
	Late func(context.Context, *kube.Client) (chart.Part, error)
	// Assumes says what Late adds to the files for Git.
	Assumes []string
}

// Web is the address of a part's pages.
type Web struct {
	Title, URL string
	Login      string // the issuer to which they send who has not signed in; empty: they do it themselves
	Checked    bool   // by a check of the part, because it has no pages for people or an authority of its own
}

// Password is a generated secret that a person wants to read once.
type Password struct {
	Title                string
	Namespace, Name, Key string // of the Secret
}

// Resolve returns a part with the values that only a running cluster can provide.
func (p Recipe) Resolve(ctx context.Context, client *kube.Client) (Recipe, error) {
	if p.Late == nil {
		return p, nil
	}
	part, err := p.Late(ctx, client)
	if part.Release != nil {
		part.Release.Digest = p.Release.Digest // the file may have another than the pin
	}
	p.Part = part
	return p, err
}

// requireParts adds those parts that were made before.
func (s *Site) requireParts(p *Recipe, names ...string) {
	for _, name := range names {
		if s.Has(name) && !slices.Contains(p.Needs, name) {
			p.Needs = append(p.Needs, name)
		}
	}
}
