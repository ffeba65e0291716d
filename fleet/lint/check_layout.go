package lint

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/fleet/lint/internal/manifest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// checkLayout checks folders: nested bundles, empty ones, and ones that are too large.
func (l fileCheck) checkLayout() {
	for _, b := range l.bundles {
		l.checkNested(b)
		l.symlinks(b)
		if len(b.files) == 0 && b.Err == nil && !l.tree.remoteChart(b.BundleSource) {
			l.report("empty-bundle", b, yamlnode.Pos{}, "there is nothing to deploy in %s: Fleet skips it", b.Dir)
		}
		if size := l.storedSize(b); size > maxStored {
			l.report("bundle-size", b, yamlnode.Pos{}, "the bundle's files are %d KiB when packed, and an object of the cluster may have %d",
				size>>10, maxStored>>10)
		}
	}
}

// checkNested bundles are stored in the outer one too.
func (l fileCheck) checkNested(b *lintBundle) {
	var inner []string
	for _, other := range l.bundles {
		if other != b && other.Dir != b.Dir && strings.HasPrefix(other.Dir+"/", b.prefix()) && !l.isInOtherChart(b, path.Join(other.Dir, "x")) {
			inner = append(inner, other.Dir)
		}
	}
	if len(inner) > 0 {
		l.report("nested-bundle", b, yamlnode.Pos{Line: 1, Col: 1},
			"%s are inside this bundle's folder: their files are stored in this bundle too, and its own chart or kustomization may deploy them", strings.Join(inner, ", "))
	}
}

// symbolic links out of the bundle stop it (bundlereader/loaddirectory.go GetContent).
func (l fileCheck) symlinks(b *lintBundle) {
	for _, f := range b.files {
		if f.link == "" {
			continue
		}
		to := path.Join(path.Dir(f.name), f.link)
		if path.IsAbs(f.link) || to != b.Dir && !strings.HasPrefix(to, b.prefix()) || strings.HasPrefix(to, "../") {
			l.add("symlink-outside", f.name, yamlnode.Pos{}, "the link leads to %s, outside the bundle's folder", f.link)
		}
	}
}

// maxStored is etcd's default limit of a request (1.5 MiB), minus the overhead around the
// files. Fleet compresses above 1 MB (bundlereader/read.go loadBundle).
const maxStored = 1_400_000

// storedSize is the size of a bundle's files as stored: compressed one by one if they are large
// together. Only bundles that may be too large are compressed here.
func (l *linter) storedSize(b *lintBundle) int {
	plain := 0
	for _, f := range b.files {
		plain += f.size
	}
	if plain < maxStored {
		return plain
	}
	packed := 0
	for _, f := range b.files {
		if f.data == nil {
			packed += f.size / 4 // longer than our limit; compressed text is smaller
			continue
		}
		var buf bytes.Buffer
		w := gzip.NewWriter(&buf)
		_, _ = w.Write(f.data)
		_ = w.Close()
		packed += buf.Len() * 4 / 3
	}
	return packed
}

// checkKustomize: Fleet runs kustomize on the bundle's files in memory: other files are
// missing (helmdeployer/kustomize/kustomize.go).
func (l fileCheck) checkKustomize() {
	for _, b := range l.bundles {
		for _, k := range kustomizeDirs(b) {
			dir := path.Join(b.Dir, k.text)
			if l.tree.files[path.Join(dir, "kustomization.yaml")] != nil {
				continue
			}
			if k.at != (yamlnode.Pos{}) && dir != b.Dir { // "." has no meaning
				l.report("kustomize-dir", b, k.at, "%s has no kustomization.yaml: silently, nothing is kustomized", dir)
			}
			for _, other := range []string{"kustomization.yml", "Kustomization"} {
				if name := path.Join(dir, other); l.tree.files[name] != nil && !l.ignoredIn(b, name) {
					l.add("kustomization-name", name, yamlnode.Pos{}, "Fleet looks for kustomization.yaml only: this one is not used")
				}
			}
		}
		for _, f := range b.files {
			if path.Base(f.name) == "kustomization.yaml" && f.read && !l.isInNested(b, path.Dir(f.name)) {
				l.kustomization(b, f)
			}
		}
		overlayCheck(l).checkBuilt(b)
	}
}

func (l *linter) ignoredIn(b *lintBundle, name string) bool {
	return !slices.ContainsFunc(b.files, func(f *lintFile) bool { return f.name == name })
}

// kustomization checks the paths in a kustomization.yaml.
func (l fileCheck) kustomization(b *lintBundle, f *lintFile) {
	for _, d := range f.docs {
		var refs []*yamlnode.Node
		for _, key := range []string{"resources", "bases", "components", "crds", "patchesStrategicMerge", "configurations"} {
			refs = append(refs, d.Root.Get(key).List()...)
		}
		for _, key := range []string{"patches", "patchesJson6902", "replacements"} {
			for _, p := range d.Root.Get(key).List() {
				refs = append(refs, p.Get("path"))
			}
		}
		for _, key := range []string{"configMapGenerator", "secretGenerator"} {
			for _, g := range d.Root.Get(key).List() {
				for _, from := range append(g.Get("files").List(), g.Get("envs").List()...) {
					plain := *from
					if _, name, ok := strings.Cut(from.Text, "="); ok {
						plain.Text = name
					}
					refs = append(refs, &plain)
				}
			}
		}
		for _, n := range refs {
			l.kustomizePath(b, f, n)
		}
	}
}

func (l fileCheck) kustomizePath(b *lintBundle, f *lintFile, n *yamlnode.Node) {
	ref := n.Str()
	// Inline patches and remote bases (which Fleet's in-memory files also allow).
	if ref == "" || strings.ContainsAny(ref, "\n:?") || strings.HasPrefix(ref, "github.com/") || ref == "fleet-manifests.yaml" {
		return
	}
	to := path.Join(path.Dir(f.name), ref)
	switch {
	case b.Dir != "." && to != b.Dir && !strings.HasPrefix(to, b.prefix()) || strings.HasPrefix(to, "../"):
		l.add("kustomize-path", f.name, n.At, "%s is outside the bundle's folder, and only the folder's contents go to the cluster", ref)
		if l.tree.exists(to) && !l.isOneGitRepo() { // GitRepo.spec.bundles may make a parent folder the bundle's
			l.found[len(l.found)-1].Severity = Warning
		}
	case !l.tree.exists(to):
		l.add("kustomize-path", f.name, n.At, "there is no %s", to)
	}
}

// checkOverlays checks overlays of plain manifests (helmdeployer/render/patch/patch.go).
func (l fileCheck) checkOverlays() {
	for _, b := range l.bundles {
		for _, holder := range append([]*yamlnode.Node{b.root}, nodesOf(l.targets(b))...) {
			for _, n := range holder.Get("yaml", "overlays").List() {
				dir := path.Join(b.Dir, "overlays", n.Str())
				switch {
				case !b.raw():
					l.report("overlay-ignored", b, n.At, "overlay %s has no effect: the bundle is a chart or a kustomization", n.Str())
				case !l.tree.isDir(dir):
					l.report("overlay-missing", b, n.At, "there is no folder %s: Fleet skips it", dir)
				default:
					l.overlay(b, dir)
				}
			}
		}
	}
}

func nodesOf(targets []lintTarget) (out []*yamlnode.Node) {
	for _, t := range targets {
		out = append(out, t.node)
	}
	return out
}

// overlay: a file NAME_patch.yaml patches NAME.yaml, which must be there.
func (l fileCheck) overlay(b *lintBundle, dir string) {
	for _, f := range b.files {
		rel, ok := strings.CutPrefix(f.name, dir+"/")
		if !ok || !strings.Contains(path.Base(rel), "_patch.") {
			continue
		}
		base := path.Join(b.Dir, path.Dir(rel), strings.Replace(path.Base(rel), "_patch.", ".", 1))
		if l.tree.files[base] == nil {
			l.add("overlay-patch", f.name, yamlnode.Pos{}, "there is no %s to patch: Fleet refuses the bundle", base)
		}
	}
}

// asData decodes a node into a Go value through JSON.
func asData(n *yamlnode.Node, into any) error {
	data, err := json.Marshal(manifest.Data(n))
	if err != nil {
		return err
	}
	return yaml.Unmarshal(data, into)
}
