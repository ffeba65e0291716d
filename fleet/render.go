package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Options describe the cluster of a rendered folder.
type Options struct {
	Tool    Tool   // who deploys it; default Fleet
	Cluster string // its name, for the README
	Source  string // the file that the folder is generated from; default cluster.yaml
	Path    string // the folder's path in the repository, for the README; may be empty, but not for Argo CD
	Repo    string // the repository's URL, as in [Remote]; only for Argo CD, whose bundles name it
	Branch  string // for Argo CD; default main
}

// Render writes bundles as a GitOps folder: one directory each, a README, and the list of our
// files (see merge). The same bundles give the same bytes. A duplicate name, an object in two
// bundles, and a dependency on a missing bundle or on itself are errors.
func Render(bundles []Bundle, o Options) (Tree, error) {
	if o.Source == "" {
		o.Source = "cluster.yaml"
	}
	resolved, err := resolve(bundles)
	if err != nil {
		return nil, err
	}
	ordered, err := order(resolved)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(unique(ordered), checkNamespaceOwners(ordered)); err != nil {
		return nil, err
	}
	switch o.Tool {
	case ToolFlux:
		return renderFlux(ordered, o)
	case ToolArgo:
		return renderArgo(ordered, o)
	}
	t := Tree{"README.md": readme(ordered, o)}
	for _, b := range ordered {
		if err := b.render(t, o); err != nil {
			return nil, err
		}
	}
	t[ListFile] = t.list()
	return t, nil
}

// resolve turns needed parts into dependencies on bundles: the last one of each part.
func resolve(bundles []Bundle) ([]Bundle, error) {
	last := map[string]string{}
	names := map[string]bool{}
	for _, b := range bundles {
		if names[b.Name] {
			return nil, fmt.Errorf("two bundles are named %s", b.Name)
		}
		names[b.Name] = true
		last[b.Part] = b.Name
	}
	out := slices.Clone(bundles)
	for i, b := range out {
		out[i].DependsOn = slices.Clone(b.DependsOn)
		for _, need := range b.Needs {
			if name, here := last[need]; here {
				out[i].DependsOn = append(out[i].DependsOn, name)
			}
		}
		for _, name := range out[i].DependsOn {
			if !names[name] {
				return nil, fmt.Errorf("bundle %s depends on %s, which is not among the bundles: it would wait forever", b.Name, name)
			}
		}
		slices.Sort(out[i].DependsOn)
		out[i].DependsOn = slices.Compact(out[i].DependsOn)
	}
	return out, nil
}

// order sorts bundles by dependency, then by name.
func order(bundles []Bundle) ([]Bundle, error) {
	left := map[string]Bundle{}
	for _, b := range bundles {
		left[b.Name] = b
	}
	var out []Bundle
	for len(left) > 0 {
		var free []string
		for name, b := range left {
			if !slices.ContainsFunc(b.DependsOn, func(d string) bool { _, waits := left[d]; return waits }) {
				free = append(free, name)
			}
		}
		if len(free) == 0 {
			return nil, fmt.Errorf("bundles wait for each other: %s", strings.Join(slices.Sorted(maps.Keys(left)), ", "))
		}
		slices.Sort(free)
		for _, name := range free {
			out = append(out, left[name])
			delete(left, name)
		}
	}
	return out, nil
}

// unique refuses a release or an object in two bundles: they would take it from each other
// again and again, and one would delete it.
func unique(bundles []Bundle) error {
	var errs []error
	where := map[string]string{}
	claim := func(what, bundle string) {
		if other, taken := where[what]; taken {
			errs = append(errs, fmt.Errorf("%s is in two bundles, %s and %s", what, other, bundle))
			return
		}
		where[what] = bundle
	}
	for _, b := range bundles {
		claim("release "+b.Namespace+"/"+b.releaseName(), b.Name)
		for _, o := range b.Objects {
			ns := o.GetNamespace()
			claim(strings.TrimSpace(o.GroupVersionKind().GroupKind().String()+" "+path.Join(ns, o.GetName())), b.Name)
		}
	}
	return errors.Join(errs...)
}

// checkNamespaceOwners refuses labels of one namespace in two bundles: each would remove the
// other's.
func checkNamespaceOwners(bundles []Bundle) error {
	owner := map[string]string{}
	for _, b := range bundles {
		if len(b.fleetLabels()) == 0 {
			continue
		}
		if other, taken := owner[b.Namespace]; taken {
			return fmt.Errorf("bundles %s and %s both set labels of namespace %s: Fleet keeps only those of the last one, so give them to one part", other, b.Name, b.Namespace)
		}
		owner[b.Namespace] = b.Name
	}
	return nil
}

// podSecurity is the prefix of labels that Fleet never sets, so that no bundle can raise its
// own rights (internal/cmd/agent/deployer/deployer.go, addLabelsFromOptions).
const podSecurity = "pod-security.kubernetes.io/"

// sharedNamespaces are namespaces whose labels no bundle may replace.
var sharedNamespaces = [...]string{"kube-system", "default", "kube-public", "cattle-system", "cattle-fleet-system"}

// fleetLabels are the labels of the namespace that Fleet can set.
func (b Bundle) fleetLabels() map[string]string {
	if slices.Contains(sharedNamespaces[:], b.Namespace) {
		return nil
	}
	out := map[string]string{}
	for k, v := range b.NamespaceLabels {
		if !strings.HasPrefix(k, podSecurity) {
			out[k] = v
		}
	}
	return out
}

// render writes the directory of one bundle.
func (b Bundle) render(t Tree, o Options) error {
	files, err := b.files(b.Objects)
	if err != nil {
		return err
	}
	if b.Release != nil && len(b.Release.Values) > 0 {
		if files["values.yaml"], err = values(b, b.Release.Values); err != nil {
			return err
		}
	}
	files["fleet.yaml"] = b.fleetYAML(o)
	return t.add(b, files)
}

// files writes objects, one file each.
func (b Bundle) files(objects []*unstructured.Unstructured) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, obj := range objects {
		name := fileOf(obj, files)
		text, err := manifest(obj)
		if err != nil {
			return nil, fmt.Errorf("bundle %s: %w", b.Name, err)
		}
		files[name] = text
	}
	return files, nil
}

// add adds the directory of a bundle, unless a secret is in it.
func (t Tree) add(b Bundle, files map[string][]byte) error {
	for name, text := range files {
		if masked(string(text)) {
			return fmt.Errorf("bundle %s: a secret would be written to %s: make it one of the part's Secrets", b.Name, name)
		}
		t[path.Join(b.Name, name)] = text
	}
	return nil
}

// fileOf names the file of an object: its kind and name, and its namespace if two objects
// differ only in that.
func fileOf(o *unstructured.Unstructured, taken map[string][]byte) string {
	name := strings.ToLower(o.GetKind()) + "-" + strings.NewReplacer(":", "-", "/", "-").Replace(o.GetName())
	if _, twice := taken[name+".yaml"]; twice {
		name += "-" + cmp.Or(o.GetNamespace(), strings.ReplaceAll(o.GroupVersionKind().Group, ".", "-"))
	}
	return name + ".yaml"
}
