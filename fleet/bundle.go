package fleet

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/fleet/internal/reserved"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
)

// PartLabel is the label of a bundle that says which part of the platform it belongs
// to. Fleet copies a bundle's labels to what it deploys of it.
const PartLabel = "homelab.cps-gpu.github.com/part"

// Bundle is one directory of a GitOps folder: what Fleet deploys as one Helm release.
// It is a chart, or objects, never both: beside a chart, Fleet carries the manifests of
// a directory along and deploys none (internal/helmdeployer/render/helm.go, toChart).
type Bundle struct {
	Name      string // of the bundle, its directory, and the release of objects
	Part      string // the part that it belongs to
	Namespace string // of the release, and of objects that name none

	// NamespaceLabels are set on the namespace. Fleet removes all others that
	// somebody set on it, so they are given to one bundle of a namespace.
	NamespaceLabels map[string]string

	Release *chart.Release               // nil: Objects
	Objects []*unstructured.Unstructured // in the order given

	DependsOn []string // names of bundles that are ready before
	Needs     []string // names of parts whose bundles are; those that come another way are passed over
	Keep      bool     // the bundle may go, and what it deployed stays
	Secrets   []kube.Ref
}

// releaseName is the name of the Helm release that Fleet makes of the bundle.
func (b Bundle) releaseName() string {
	if b.Release != nil {
		return b.Release.Name
	}
	return b.Name
}

// FromPart makes bundles of a part: one for its chart, and one each for what goes
// before and after it, named NAME-before and NAME-after; definitions of kinds that
// come with objects of these kinds have a bundle NAME-crds of their own. They wait
// for one another in this order. A part of objects only is one bundle, named as it.
func FromPart(p chart.Part) ([]Bundle, error) {
	before, err := plain(p.Before)
	if err != nil {
		return nil, fmt.Errorf("part %s: %w", p.Name, err)
	}
	after, err := plain(p.After)
	if err != nil {
		return nil, fmt.Errorf("part %s: %w", p.Name, err)
	}
	beforeName, afterName := p.Name+"-before", p.Name+"-after"
	if p.Release == nil {
		before, after, beforeName = append(before, after...), nil, p.Name
	}
	crds, before := definitions(before)

	var out []Bundle
	add := func(b Bundle) {
		b.Part, b.Keep, b.Namespace = p.Name, p.Keep, namespaceOf(p, b.Objects)
		if len(out) > 0 {
			b.DependsOn = []string{out[len(out)-1].Name}
		}
		out = append(out, b)
	}
	if len(crds) > 0 {
		add(Bundle{Name: p.Name + "-crds", Objects: crds})
	}
	if len(before) > 0 {
		add(Bundle{Name: beforeName, Objects: before})
	}
	if p.Release != nil {
		add(Bundle{Name: p.Name, Release: p.Release})
	}
	if len(after) > 0 {
		add(Bundle{Name: afterName, Objects: after})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("part %s has neither a chart nor objects: there is nothing to deploy", p.Name)
	}
	out[0].Needs = slices.Clone(p.Needs)
	for _, s := range p.Secrets {
		out[0].Secrets = append(out[0].Secrets, s.Ref())
	}
	out[0].NamespaceLabels = p.NamespaceLabels
	for _, b := range out {
		if err := b.validate(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// FromParts makes bundles of parts, in their order.
func FromParts(parts ...chart.Part) ([]Bundle, error) {
	var out []Bundle
	for _, p := range parts {
		bundles, err := FromPart(p)
		if err != nil {
			return nil, err
		}
		out = append(out, bundles...)
	}
	return out, nil
}

// namespaceOf is where the release of a part's bundle lives. Objects of the whole
// cluster live nowhere; their release does.
func namespaceOf(p chart.Part, objects []*unstructured.Unstructured) string {
	if p.Release != nil {
		return p.Release.Namespace
	}
	for _, o := range objects {
		if ns := o.GetNamespace(); ns != "" {
			return ns
		}
	}
	return "default"
}

// definitions takes out of objects the definitions of kinds of which there are
// objects too: both in one release is an install that fails, since the kind is looked
// up before it is there.
func definitions(objects []*unstructured.Unstructured) (crds, rest []*unstructured.Unstructured) {
	used := map[string]bool{}
	for _, o := range objects {
		used[o.GroupVersionKind().GroupKind().String()] = true
	}
	for _, o := range objects {
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
		if o.GetKind() == "CustomResourceDefinition" && used[kind+"."+group] {
			crds = append(crds, o)
			continue
		}
		rest = append(rest, o)
	}
	return crds, rest
}

// maxName is the longest name of a Helm release. Fleet cuts a longer name and adds a
// hash (internal/names), which nobody finds again.
const maxName = 53

var bundleName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// validate refuses what Fleet would take and do harm with.
func (b Bundle) validate() error {
	for _, name := range []string{b.Name, b.releaseName()} {
		if !bundleName.MatchString(name) || len(name) > maxName {
			return fmt.Errorf("bundle %q: a name is lower-case letters, digits and dashes, at most %d of them: %q is not", b.Name, maxName, name)
		}
		if err := reserved.Release(b.Namespace, name); err != nil {
			return fmt.Errorf("bundle %s: %w", b.Name, err)
		}
	}
	if r := b.Release; r != nil {
		switch {
		case r.Version == "":
			return fmt.Errorf("bundle %s: chart %s has no version: Fleet would deploy the newest version of the day", b.Name, r.Chart)
		case r.Repo == "":
			return fmt.Errorf("bundle %s: chart %s is in a local folder only, which Fleet cannot read: deploy the part directly, or name a repository that the cluster reaches", b.Name, r.Chart)
		case r.Namespace == "":
			return fmt.Errorf("bundle %s: release %s has no namespace", b.Name, r.Name)
		}
		return valuesFit(b.Name, r.Values)
	}
	for _, o := range b.Objects {
		if o.GetKind() == "Secret" && o.GetAPIVersion() == "v1" {
			return fmt.Errorf("bundle %s: secret %s/%s does not belong into Git: give it as one of the part's Secrets, which are made in the cluster", b.Name, o.GetNamespace(), o.GetName())
		}
	}
	return nil
}

// labelPrefix is what Fleet replaces by a label of the cluster, whether or not
// templates are on (internal/cmd/controller/target/builder.go, processLabelValues).
const labelPrefix = "global.fleet.clusterLabels."

func valuesFit(bundle string, values any) error {
	return eachString(values, func(s string) error {
		switch {
		case strings.HasPrefix(s, labelPrefix):
			return fmt.Errorf("bundle %s: the value %q would be replaced by a label of the cluster: Fleet replaces everything that begins with %s", bundle, s, labelPrefix)
		case masked(s):
			return fmt.Errorf("bundle %s: there is a secret among the values: give the chart the name of an existing Secret", bundle)
		}
		return nil
	})
}
