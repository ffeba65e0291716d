package lint

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/fleet/lint/internal/manifest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// checkBuilt reports kustomize's errors, and manifests that no kustomization names.
func (l *linter) checkBuilt(b *lintBundle) {
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
		l.unnamed(b)
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

// unnamed finds manifests beside a kustomization.yaml that no kustomization of the bundle
// names.
func (l *linter) unnamed(b *lintBundle) {
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
		if beside == nil || len(beside.bad) > 0 || isKustomization(f.name) || named[f.name] || l.inNested(b, dir) || l.inOtherChart(b, f.name) || l.tree.options(dir) == f.name {
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
	at      yamlnode.Pos // of kustomize.dir
	dir     string       // from the root of the repository
	opaque  string       // why it was not built; "" if it was
	refused error        // kustomize's error
	objects []*lintObject
}

// lintMaxBuilt is the largest file that is passed to kustomize, in bytes.
const lintMaxBuilt = 4 << 20

// lintOrigin is kustomize's own annotation of the file that an object comes from.
const lintOrigin = "config.kubernetes.io/origin"

// buildKustomizations runs kustomize on the files of a bundle, in memory, as Fleet's agent
// does (helmdeployer/kustomize/kustomize.go), once for each folder that the bundle names. The
// objects of the first count as the bundle's: those of targets are variants.
func (l *linter) buildKustomizations(b *lintBundle) {
	files, why := l.kustomizeFiles(b)
	onChart := b.chart != "" || b.remote
	for _, k := range kustomizeDirs(b) {
		built := lintBuilt{at: k.at, dir: path.Join(b.Dir, k.text)}
		if l.tree.files[path.Join(built.dir, "kustomization.yaml")] == nil {
			continue
		}
		if built.opaque = why; why == "" {
			built.objects, built.refused = l.kustomize(b, files, k.text)
		}
		if onChart && why == "" {
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
func (l *linter) kustomizeFiles(b *lintBundle) (files map[string][]byte, opaque string) {
	files = map[string][]byte{}
	for _, f := range b.files {
		if why := l.unbuildable(f); why != "" {
			return nil, f.name + " " + why
		}
		data := f.data
		if isKustomization(f.name) {
			var why string
			if data, why = plainKustomization(f, b.chart != "" || b.remote); why != "" {
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
func (l *linter) unbuildable(f *lintFile) string {
	switch bad := f.syntax(); {
	case f.data == nil:
		return "was not read"
	case len(f.data) > lintMaxBuilt:
		return fmt.Sprintf("has more than %d MiB", lintMaxBuilt>>20)
	case bad != nil:
		what := plainSyntax(bad.What)
		l.cure("unread", f.name, bad.At, "fix it, or remove it from the bundle", "this document is not checked, nor what is built with it: %s", what)
		return "cannot be read: " + what
	case len(f.bad) > 0:
		return "cannot be read: " + f.bad[0].What
	}
	return ""
}

func isKustomization(name string) bool {
	return slices.Contains([]string{"kustomization.yaml", "kustomization.yml", "Kustomization"}, path.Base(name))
}

// kustomizeText are keys of a kustomization whose text is never a file or an address.
var kustomizeText = map[string]bool{
	"literals": true, "commonAnnotations": true, "commonLabels": true, "labels": true, "metadata": true, "images": true, "imageTags": true,
	"replicas": true, "generatorOptions": true, "options": true, "target": true, "patch": true, "apiVersion": true, "kind": true,
	"namespace": true, "namePrefix": true, "nameSuffix": true, "vars": true, "targets": true, "source": true, "sortOptions": true,
}

// kustomizeReach are keys that run programs, load plugins, or change kustomize's knowledge of
// all objects, in any case, as kustomize decodes them.
var kustomizeReach = []string{"generators", "transformers", "validators", "helmcharts", "helmchartinflationgenerator", "helmglobals", "openapi", "inventory"}

// lintElsewhere matches what kustomize treats as a remote place: api/internal/git/repospec.go
// NewRepoSpecFromURL and api/internal/loader/fileloader.go IsRemoteFile at v0.21.1.
var lintElsewhere = regexp.MustCompile(`(?i)^(git::)?([a-z][a-z0-9+.-]*://|[a-z][a-z0-9-]*@|github\.com[/:]|https?:)|=(https?:|[a-z]+://)`)

// kustomizeOnOthers are the keys of a modern kustomization that change objects which it does not bring.
var kustomizeOnOthers = []string{"patches", "replacements", "vars", "images", "replicas"}

// chartOutput stands for a chart's output, which Fleet adds as a file to the resources
// (helmdeployer/kustomize/kustomize.go).
const chartOutput = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: the-output-of-a-chart}\n"

// plainKustomization returns a kustomization as JSON without deprecated keys, about which
// kustomize warns on stderr, or why it is not built here. On a chart it is without the keys that
// work on the chart's output.
func plainKustomization(f *lintFile, onChart bool) (data []byte, opaque string) {
	var k map[string]any
	if err := yaml.Unmarshal(f.data, &k); err != nil {
		return nil, f.name + " is not a kustomization"
	}
	for key, v := range k {
		if slices.Contains(kustomizeReach, strings.ToLower(key)) && v != nil {
			return nil, fmt.Sprintf("%s has %s, which is not run here", f.name, key)
		}
	}
	if ref := elsewhere(k, false); ref != "" {
		return nil, fmt.Sprintf("%s takes from %s, which is not fetched", f.name, ref)
	}
	if !slices.ContainsFunc(slices.Sorted(maps.Keys(k)), func(key string) bool { return key != "apiVersion" && key != "kind" }) {
		return f.data, "" // empty, which kustomize refuses
	}
	modernKustomization(k)
	if onChart {
		for _, key := range kustomizeOnOthers {
			delete(k, key)
		}
	}
	k["buildMetadata"] = []string{types.OriginAnnotations}
	data, err := yaml.Marshal(k)
	if err != nil {
		return nil, f.name + " cannot be written out"
	}
	return data, ""
}

// elsewhere finds a text that refers to something outside the bundle.
func elsewhere(v any, inline bool) string {
	switch v := v.(type) {
	case string:
		if (!inline || !strings.Contains(v, "\n")) && lintElsewhere.MatchString(strings.TrimSpace(v)) {
			return v
		}
	case []any:
		for _, item := range v {
			if ref := elsewhere(item, inline); ref != "" {
				return ref
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if kustomizeText[key] {
				continue
			}
			if ref := elsewhere(v[key], key == "patchesStrategicMerge"); ref != "" {
				return ref
			}
		}
	}
	return ""
}

// modernKustomization moves deprecated keys to where `kustomize edit fix` puts them.
func modernKustomization(k map[string]any) {
	list := func(key string) []any { l, _ := k[key].([]any); return l }
	move := func(from, to string, each func(any) any) {
		if old := list(from); len(old) > 0 {
			for _, item := range old {
				k[to] = append(list(to), each(item))
			}
			delete(k, from)
		}
	}
	same := func(v any) any { return v }
	move("bases", "resources", same)
	move("imageTags", "images", same)
	move("patchesJson6902", "patches", same)
	move("patchesStrategicMerge", "patches", func(v any) any {
		if text, _ := v.(string); strings.Contains(text, "\n") {
			return map[string]any{"patch": text}
		}
		return map[string]any{"path": v}
	})
	if common, ok := k["commonLabels"].(map[string]any); ok {
		k["labels"] = append(list("labels"), map[string]any{"pairs": common, "includeSelectors": true})
		delete(k, "commonLabels")
	}
}

var errLintKustomize = errors.New("kustomize gave up on this")

// kustomize builds one folder, as Fleet does.
func (l *linter) kustomize(b *lintBundle, files map[string][]byte, dir string) (out []*lintObject, err error) {
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
	if b.chart != "" || b.remote {
		output = []byte(chartOutput)
		if err := addResource(fsys, path.Join(dir, "kustomization.yaml"), "fleet-manifests.yaml"); err != nil {
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
		out = append(out, l.kustomized(b, m, dir, &budget)...)
	}
	return out, nil
}

// addResource adds a file to the resources of a kustomization.
func addResource(fsys filesys.FileSystem, kustomization, file string) error {
	data, err := fsys.ReadFile(kustomization)
	if err != nil {
		return err
	}
	k := map[string]any{}
	if err := yaml.Unmarshal(data, &k); err != nil {
		return err
	}
	list, _ := k["resources"].([]any)
	k["resources"] = append(list, file)
	if data, err = yaml.Marshal(k); err != nil {
		return err
	}
	return fsys.WriteFile(kustomization, data)
}

// kustomized turns a result into an object, with the place of its source.
func (l *linter) kustomized(b *lintBundle, m map[string]any, dir string, budget *int) []*lintObject {
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
