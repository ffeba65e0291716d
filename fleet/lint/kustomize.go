package lint

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/fleet/lint/internal/kustomization"
	"github.com/cps-gpu/homelab/fleet/lint/internal/manifest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// checkBuilt reports kustomize's errors, and manifests that no kustomization names.
func (l overlayCheck) checkBuilt(b *lintBundle) {
	missing := slices.ContainsFunc(l.found, func(f Finding) bool {
		return f.Rule == "kustomize-path" && strings.HasPrefix(f.File, b.prefix())
	})
	for _, built := range b.built {
		file := path.Join(built.dir, "kustomization.yaml")
		switch {
		case built.refused != nil && !missing:
			l.add("kustomize-fails", file, yamlnode.Pos{}, "kustomize refuses it: %s", kustomizeWords(built.refused))
		case built.opaque != "":
			l.add("kustomize-unread", file, yamlnode.Pos{}, "the result of this is not checked: %s", built.opaque)
		}
	}
	if len(b.built) > 0 {
		l.checkUnnamed(b)
	}
}

// kustomizeWords is an error's text without quotations, which may contain a secret.
func kustomizeWords(err error) string {
	text := strings.TrimSpace(err.Error())
	if i := strings.IndexAny(text, "`[\n"); i >= 0 {
		text = strings.TrimSpace(text[:i]) + " …"
	}
	const most = 300
	if len(text) > most {
		text = text[:most] + " …"
	}
	return text
}

// checkUnnamed finds manifests beside a kustomization.yaml that no kustomization of the bundle
// names.
func (l overlayCheck) checkUnnamed(b *lintBundle) {
	named := map[string]bool{}
	for _, f := range b.files {
		if isKustomization(f.name) {
			for _, d := range f.docs {
				namedIn(d.Root, path.Dir(f.name), named)
			}
		}
	}
	for _, f := range b.files {
		dir := path.Dir(f.name)
		beside := l.tree.files[path.Join(dir, "kustomization.yaml")]
		if beside == nil || len(beside.bad) > 0 || isKustomization(f.name) || named[f.name] || l.isInNested(b, dir) || l.isInOtherChart(b,
			f.name) || l.tree.options(dir) == f.name {
			continue
		}
		if objects := objectsOf(f, b); len(objects) > 0 {
			l.add("kustomize-unnamed", f.name, objects[0].doc, "%s is never deployed: no kustomization names this file", objects[0])
		}
	}
}

// namedIn notes every text of a kustomization as a path from its folder.
func namedIn(n *yamlnode.Node, dir string, named map[string]bool) {
	if n == nil {
		return
	}
	if text := n.Str(); text != "" {
		if _, file, ok := strings.Cut(text, "="); ok {
			named[path.Join(dir, file)] = true
		}
		named[path.Join(dir, text)] = true
	}
	for _, f := range n.Fields {
		namedIn(f.Value, dir, named)
	}
	for _, item := range n.Items {
		namedIn(item, dir, named)
	}
}

// lintBuilt is the result of a kustomization.
type lintBuilt struct {
	dir     string // from the root of the repository
	opaque  string // why it was not built; "" if it was
	refused error  // kustomize's error
	objects []*lintObject
}

// lintMaxBuilt is the largest file that is passed to kustomize, in bytes.
const lintMaxBuilt = 4 << 20

// lintOrigin is kustomize's own annotation of the file that an object comes from.
const lintOrigin = "config.kubernetes.io/origin"

// buildKustomizations runs kustomize on the files of a bundle, in memory, as Fleet's agent
// does (helmdeployer/kustomize/kustomize.go), once for each folder that the bundle names. The
// objects of the first count as the bundle's: those of targets are variants.
func (l overlayCheck) buildKustomizations(b *lintBundle) {
	files, why := l.kustomizeFiles(b)
	for _, k := range kustomizeDirs(b) {
		built := lintBuilt{dir: path.Join(b.Dir, k.text)}
		if l.tree.files[path.Join(built.dir, "kustomization.yaml")] == nil {
			continue
		}
		if built.opaque = why; why == "" {
			built.objects, built.refused = l.kustomize(b, files, k.text)
		}
		if b.onChart() && why == "" {
			built.objects, built.opaque = nil, "it works on the output of a chart, which is not rendered here"
		}
		if len(b.built) == 0 {
			b.objects = built.objects
		}
		b.built = append(b.built, built)
	}
}

// kustomizeFiles collects a bundle's files for kustomize, or says why the build would need
// other files. Kustomize runs git and asks web servers, so all kustomizations of the bundle
// are first searched for anything that could lead there. Those on top of a chart are built
// without what works on the chart's output: the rest fails as it would in the cluster.
func (l overlayCheck) kustomizeFiles(b *lintBundle) (files map[string][]byte, opaque string) {
	files = map[string][]byte{}
	for _, f := range b.files {
		if why := l.unbuildable(f); why != "" {
			return nil, f.name + " " + why
		}
		data := f.data
		if isKustomization(f.name) {
			var why string
			if data, why = kustomization.Plain(f.name, f.data, b.onChart()); why != "" {
				return nil, why
			}
		}
		files[strings.TrimPrefix(f.name, b.prefix())] = data
	}
	return files, ""
}

// unbuildable says why a file is not passed to kustomize; "" if it is. A file that no YAML
// reader accepts is reported here, because no other check reports it for a bundle that is
// built.
func (l overlayCheck) unbuildable(f *lintFile) string {
	switch bad := f.syntax(); {
	case f.data == nil:
		return "was not read"
	case len(f.data) > lintMaxBuilt:
		return fmt.Sprintf("has more than %d MiB", lintMaxBuilt>>20)
	case bad != nil:
		what := plainSyntax(bad.What)
		l.reportWithCure("unread", f.name, bad.At, "fix it, or remove it from the bundle",
			"this document is not checked, nor what is built with it: %s", what)
		return "cannot be read: " + what
	case len(f.bad) > 0:
		return "cannot be read: " + f.bad[0].What
	}
	return ""
}

func isKustomization(name string) bool {
	return slices.Contains([]string{"kustomization.yaml", "kustomization.yml", "Kustomization"}, path.Base(name))
}

// chartOutput stands for a chart's output, which Fleet adds as a file to the resources
// (helmdeployer/kustomize/kustomize.go).
const chartOutput = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: the-output-of-a-chart}\n"

var errLintKustomize = errors.New("kustomize gave up on this")

// kustomize builds one folder, as Fleet does.
func (l overlayCheck) kustomize(b *lintBundle, files map[string][]byte, dir string) (out []*lintObject, err error) {
	defer func() {
		if recover() != nil {
			out, err = nil, errLintKustomize
		}
	}()
	fsys := filesys.MakeEmptyDirInMemory()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := fsys.WriteFile(name, files[name]); err != nil {
			return nil, err
		}
	}
	var output []byte
	if b.onChart() {
		output = []byte(chartOutput)
		if err := kustomization.AddResource(fsys, path.Join(dir, "kustomization.yaml"), "fleet-manifests.yaml"); err != nil {
			return nil, err
		}
	}
	if err := fsys.WriteFile(path.Join(dir, "fleet-manifests.yaml"), output); err != nil {
		return nil, err
	}
	made, err := krusty.MakeKustomizer(&krusty.Options{
		LoadRestrictions: types.LoadRestrictionsRootOnly, PluginConfig: types.DisabledPluginConfig(),
	}).Run(fsys, dir)
	if err != nil {
		return nil, err
	}
	budget := manifest.MaxNodes
	for _, r := range made.Resources() {
		m, err := r.Map()
		if err != nil {
			return nil, err
		}
		out = append(out, l.kustomizedObjects(b, m, dir, &budget)...)
	}
	return out, nil
}

// kustomizedObjects turns a result into an object, with the place of its source.
func (l *linter) kustomizedObjects(b *lintBundle, m map[string]any, dir string, budget *int) []*lintObject {
	var origin struct {
		Path         string `json:"path"`
		ConfiguredIn string `json:"configuredIn"`
	}
	if meta, _ := m["metadata"].(map[string]any); meta != nil {
		if notes, _ := meta["annotations"].(map[string]any); notes != nil {
			text, _ := notes[lintOrigin].(string)
			_ = yaml.Unmarshal([]byte(text), &origin)
			if delete(notes, lintOrigin); len(notes) == 0 {
				delete(meta, "annotations")
			}
		}
	}
	name := path.Join(dir, "kustomization.yaml")
	for _, p := range []string{origin.Path, origin.ConfiguredIn} {
		if p != "" {
			name = path.Join(dir, p)
			break
		}
	}
	f := l.tree.files[path.Join(b.Dir, name)]
	if f == nil {
		f = l.tree.files[path.Join(b.Dir, dir, "kustomization.yaml")]
	}
	if m["kind"] == nil || f == nil {
		return nil
	}
	data, err := yaml.Marshal(m)
	if err != nil {
		return nil
	}
	var v any
	if yaml.Unmarshal(data, &v) != nil { // numbers as the other reader returns them
		return nil
	}
	n := manifest.FromData(v, yamlnode.Pos{Line: 1, Col: 1}, budget)
	moveTo(n, sourcePlace(f, n))
	return objectsIn(n, f, b, 0)
}

// moveTo sets one place for a node and its children.
func moveTo(n *yamlnode.Node, at yamlnode.Pos) {
	n.At = at
	for i := range n.Fields {
		n.Fields[i].At = at
		moveTo(n.Fields[i].Value, at)
	}
	for _, item := range n.Items {
		moveTo(item, at)
	}
}

// sourcePlace is the place of a result's source in a file: kustomize may have added a prefix
// or suffix to its name.
func sourcePlace(f *lintFile, made *yamlnode.Node) yamlnode.Pos {
	for _, o := range objectsOf(f, nil) {
		if o.kind == made.Get("kind").Str() && o.name != "" && strings.Contains(made.Get("metadata", "name").Str(), o.name) {
			return o.doc
		}
	}
	return yamlnode.Pos{Line: 1, Col: 1}
}
