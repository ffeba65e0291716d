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

// PartLabel is the label of a bundle that names its part of the platform. Fleet copies a
// bundle's labels to what it deploys.
const PartLabel = "homelab.cps-gpu.github.com/part"

// Bundle is one directory of a GitOps folder, which Fleet deploys as one Helm release. It is a
// chart, or objects, never both: Fleet deploys no manifests that are beside a chart
// (internal/helmdeployer/render/helm.go, toChart).
type Bundle struct {
	Name      string // of the bundle, its directory, and the release of objects
	Part      string // its part of the platform
	Namespace string // of the release, and of objects that name none

	// NamespaceLabels are set on the namespace. Fleet removes all other labels of it, so only
	// one bundle of a namespace has them.
	NamespaceLabels map[string]string

	Release *chart.Release               // nil: Objects
	Objects []*unstructured.Unstructured // in the order given

	DependsOn []string // names of bundles that are ready before
	Needs     []string // names of parts whose bundles are ready before; parts that are not deployed through Git are ignored
	Keep      bool     // if the bundle is removed, its objects stay
	Secrets   []kube.Ref
}

// releaseName is the name of the bundle's Helm release.
func (b Bundle) releaseName() string {
	if b.Release != nil {
		return b.Release.Name
	}
	return b.Name
}

// BundlesOf turns a part into bundles: one for its chart, and one each for the objects before
// and after it, named NAME-before and NAME-after. Definitions of kinds of which there are also
// objects are in a bundle NAME-crds. The bundles depend on each other in this order. A part
// with objects only is one bundle with its name. Namespaces among the objects are not in bundles: make them before.
func BundlesOf(p chart.Part) ([]Bundle, error) {
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

// BundlesOfAll turns parts into bundles, in their order.
func BundlesOfAll(parts ...chart.Part) ([]Bundle, error) {
	var out []Bundle
	for _, p := range parts {
		bundles, err := BundlesOf(p)
		if err != nil {
			return nil, err
		}
		out = append(out, bundles...)
	}
	return out, nil
}

// namespaceOf is the namespace of the release of a part's bundle. Cluster-scoped objects have
// none, but their release does.
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

// definitions separates the definitions of kinds of which objects has instances: with both in
// one release the install fails, because Helm looks up the kind before it exists.
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

// maxName is the longest name of a Helm release. Fleet shortens a longer name and adds a hash
// (internal/names), which is hard to find.
const maxName = 53

var bundleName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// validate refuses what Fleet would accept and what would do harm.
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
			return fmt.Errorf("bundle %s: secret %s/%s does not belong in Git: make it one of the part's Secrets, which are created in the cluster", b.Name, o.GetNamespace(), o.GetName())
		}
	}
	return nil
}

// labelPrefix starts a value that Fleet replaces with a label of the cluster, even if
// templates are off (internal/cmd/controller/target/builder.go, processLabelValues).
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
