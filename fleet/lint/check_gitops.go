package lint

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/fleet/lint/internal/gitops"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// gitOpsCheck looks at the objects by which Flux and Argo CD deploy: each alone, and what they say of each other and of
// the repository.
type gitOpsCheck struct{ *linter }

// allObjects are those of bundles and those outside.
func (l *linter) allObjects() []*lintObject {
	all := slices.Clone(l.loose)
	for _, b := range l.bundles {
		all = append(all, b.objects...)
	}
	return all
}

func (l gitOpsCheck) check() {
	all := l.allObjects()
	names := map[string]map[string]bool{} // by group and kind
	var folders []lintFolder
	for _, o := range all {
		for _, f := range gitops.Check(o.group(), o.kind, o.node) {
			l.add(f.Rule, o.file.name, f.At, "%s: %s", o, f.Text)
		}
		kind := o.group() + "/" + o.kind
		if names[kind] == nil {
			names[kind] = map[string]bool{}
		}
		names[kind][o.name] = true
		folders = append(folders, foldersOf(o)...)
	}
	for _, o := range all {
		l.references(o, names)
	}
	l.folders(folders)
	for _, o := range all { // values, as those of a fleet.yaml
		switch o.group() + "/" + o.kind {
		case "helm.toolkit.fluxcd.io/HelmRelease":
			objectCheck(l).secretValues(o.file.name, o.node.Get("spec", "values"), "")
		case "argoproj.io/Application":
			for _, s := range sourcesOf(o) {
				objectCheck(l).secretValues(o.file.name, s.Get("helm", "valuesObject"), "")
			}
		}
	}
}

// named reports whether a reference can be looked up: postBuild replaces variables in names.
func named(n *yamlnode.Node) bool { return n.Str() != "" && !strings.Contains(n.Str(), "$") }

// references looks for what Flux's objects name. Their namespaces, which a kustomization may set, are not compared.
func (l gitOpsCheck) references(o *lintObject, names map[string]map[string]bool) {
	kind := o.group() + "/" + o.kind
	if kind != "kustomize.toolkit.fluxcd.io/Kustomization" && kind != "helm.toolkit.fluxcd.io/HelmRelease" {
		return
	}
	for _, d := range o.node.Get("spec", "dependsOn").List() {
		if n := d.Get("name"); named(n) && !names[kind][n.Str()] {
			l.add("flux-reference", o.file.name, n.At, "%s depends on %s, which no file here defines: it would wait forever", o, n.Str())
		}
	}
	for _, ref := range []*yamlnode.Node{o.node.Get("spec", "sourceRef"), o.node.Get("spec", "chart", "spec", "sourceRef"), o.node.Get("spec", "chartRef")} {
		source := "source.toolkit.fluxcd.io/" + ref.Get("kind").Str()
		// A repository without any source of a kind has them elsewhere.
		if n := ref.Get("name"); named(n) && len(names[source]) > 0 && !names[source][n.Str()] {
			l.add("flux-reference", o.file.name, n.At, "%s takes %s %s, which no file here defines", o, ref.Get("kind").Str(), n.Str())
		}
	}
}

// lintFolder is a folder that an object deploys from a repository.
type lintFolder struct {
	of     *lintObject
	source string // the same for the same repository
	path   *yamlnode.Node
}

// clean is the folder from the root of its repository.
func (f lintFolder) clean() string { return cmp.Or(path.Clean("/" + f.path.Str())[1:], ".") }

func sourcesOf(o *lintObject) []*yamlnode.Node {
	return append(o.node.Get("spec", "sources").List(), o.node.Get("spec", "source"))
}

func foldersOf(o *lintObject) (out []lintFolder) {
	switch o.group() + "/" + o.kind {
	case "kustomize.toolkit.fluxcd.io/Kustomization":
		ref := o.node.Get("spec", "sourceRef")
		out = []lintFolder{{o, ref.Get("kind").Str() + " " + ref.Get("name").Str(), o.node.Get("spec", "path")}}
	case "argoproj.io/Application":
		for _, s := range sourcesOf(o) {
			out = append(out, lintFolder{o, strings.TrimSuffix(s.Get("repoURL").Str(), ".git"), s.Get("path")})
		}
	}
	return slices.DeleteFunc(out, func(f lintFolder) bool { return !named(f.path) })
}

// folders finds folders that are not there. A source is this repository if it has another of its folders.
func (l gitOpsCheck) folders(all []lintFolder) {
	here := map[string]bool{}
	for _, f := range all {
		here[f.source] = here[f.source] || f.clean() != "." && l.tree.isDir(f.clean())
	}
	for _, f := range all {
		if here[f.source] && !l.tree.isDir(f.clean()) {
			l.add("gitops-path", f.of.file.name, f.path.At, "%s deploys the folder %s, which is not there", f.of, f.path.Str())
		}
	}
}
