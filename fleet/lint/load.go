package lint

import (
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/cps-gpu/homelab/fleet/lint/internal/manifest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// lintBundle is a bundle with the data that the checks need.
type lintBundle struct {
	*BundleSource
	file  *lintFile      // its fleet.yaml; nil: it has none
	root  *yamlnode.Node // its contents; never nil
	files []*lintFile

	chart     string // folder of its own chart, "" for none
	remote    bool   // its chart is remote
	kustomize bool   // a kustomization creates its objects
	built     []lintBuilt
	objects   []*lintObject
}

// lintObject is an object of a manifest.
type lintObject struct {
	bundle *lintBundle // nil: in none
	file   *lintFile
	node   *yamlnode.Node
	doc    yamlnode.Pos

	apiVersion, kind, namespace, name string
}

// mainFile is the file of findings about a bundle as a whole.
func (b *lintBundle) mainFile() string {
	if b.File != "" {
		return b.File
	}
	return b.Dir
}

// raw says that Fleet deploys the bundle's manifests unchanged.
func (b *lintBundle) raw() bool { return !b.onChart() && !b.kustomize }

// onChart says that the bundle has a chart, below a kustomization or alone.
func (b *lintBundle) onChart() bool { return b.chart != "" || b.remote }

// namespace is the namespace of the bundle's objects that name none.
func (b *lintBundle) namespace() string {
	if b.YAML.TargetNamespace != "" {
		return b.YAML.TargetNamespace
	}
	return b.YAML.DefaultNamespace
}

// release is the name of the bundle's Helm release.
func (b *lintBundle) release() string {
	if b.YAML.Helm != nil && b.YAML.Helm.ReleaseName != "" {
		return b.YAML.Helm.ReleaseName
	}
	return helmReleaseName(b.Name)
}

// isNameKnown says that the bundle's name is known: from its fleet.yaml, or because the GitRepo's is
// known.
func (l *linter) isNameKnown(b *lintBundle) bool { return b.YAML.Name != "" || l.opt.GitRepo != "" }

func (l *linter) load() error {
	l.parse()
	places, err := l.find()
	if err != nil {
		return err
	}
	for _, p := range places {
		s := l.tree.source(l.opt.GitRepo, p)
		b := &lintBundle{BundleSource: s, file: l.tree.files[s.File], files: l.tree.resources(s), root: &yamlnode.Node{}}
		if b.file != nil && len(b.file.docs) > 0 {
			b.root = b.file.docs[0].Root
		}
		l.style(b)
		switch {
		case b.raw():
			for _, f := range l.manifests(b) {
				b.objects = append(b.objects, objectsOf(f, b)...)
			}
		case b.kustomize:
			overlayCheck{l}.buildKustomizations(b)
		}
		l.bundles = append(l.bundles, b)
	}
	l.loadLoose()
	return nil
}

// find lists the folders that become bundles. If the GitRepo's paths are not known, every
// folder with a fleet.yaml is a bundle; the root is one only if there is no other.
func (l *linter) find() ([]lintPlace, error) {
	if len(l.opt.Bundles) > 0 || len(l.opt.Paths) > 0 {
		return l.tree.scan(l.opt.BundleScan)
	}
	var out []lintPlace
	for _, dir := range l.tree.foldersUnder(".") {
		if file := l.tree.options(dir); file != "" {
			out = append(out, lintPlace{dir: dir, file: file})
		}
	}
	return out, nil
}

// parse reads all YAML files in parallel. A chart's templates are not YAML before Helm renders
// them.
func (l *linter) parse() {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for name, f := range l.tree.files {
		if f.read = isManifest(name) && f.data != nil && !l.isTemplate(name); f.read {
			group.Go(func() error {
				f.docs, f.bad = manifest.Docs(f.data)
				return nil
			})
		}
	}
	_ = group.Wait() // they return none
}

func isManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}

// isTemplate: templates/ of a chart, and templates/ of a bundle, which Fleet turns into a
// chart's (helmdeployer/render/helm.go manifests).
func (l *linter) isTemplate(name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if path.Base(dir) != "templates" {
			continue
		}
		up := path.Dir(dir)
		if l.tree.files[path.Join(up, "Chart.yaml")] != nil || l.tree.options(up) != "" {
			return true
		}
	}
	return false
}

// style finds out how Fleet deploys a bundle (bundlereader/style.go DetermineStyle).
func (l *linter) style(b *lintBundle) {
	at := "."
	if h := b.YAML.Helm; h != nil {
		if at = h.Chart; at == "" && h.Repo != "" {
			at = h.Repo
		}
		b.remote = h.Repo != "" || h.Chart != "" && !l.tree.exists(path.Join(b.Dir, h.Chart))
	}
	has := func(name string) bool {
		full := path.Join(b.Dir, name)
		return slices.ContainsFunc(b.files, func(f *lintFile) bool { return f.name == full })
	}
	if !b.remote && has(path.Join(at, "Chart.yaml")) {
		b.chart = path.Join(b.Dir, at)
	}
	dirs := kustomizeDirs(b)
	b.kustomize = slices.ContainsFunc(dirs, func(k lintRef) bool { return has(path.Join(k.text, "kustomization.yaml")) })
}

// lintRef is a piece of text with its place.
type lintRef struct {
	text string
	at   yamlnode.Pos
}

// kustomizeDirs returns the folders of kustomizations that a bundle and its targets name.
func kustomizeDirs(b *lintBundle) []lintRef {
	out := []lintRef{{".", yamlnode.Pos{}}}
	if n := b.root.Get("kustomize", "dir"); n.Str() != "" {
		out[0] = lintRef{n.Text, n.At}
	}
	for _, key := range []string{"targets", "targetCustomizations"} {
		for _, t := range b.root.Get(key).List() {
			if n := t.Get("kustomize", "dir"); n.Str() != "" {
				out = append(out, lintRef{n.Text, n.At})
			}
		}
	}
	return out
}

// manifests returns the files of a bundle that Fleet deploys unchanged: not those in folders
// with a fleet.yaml or a Chart.yaml of their own, nor overlays (helmdeployer/render/helm.go
// manifests, render/patch).
func (l *linter) manifests(b *lintBundle) (out []*lintFile) {
	var skip []string
	for _, f := range b.files {
		base := path.Base(f.name)
		if dir := path.Dir(f.name); dir != b.Dir && (base == "fleet.yaml" || base == "fleet.yml" || base == "Chart.yaml") {
			skip = append(skip, dir+"/")
		}
	}
	for _, f := range b.files {
		rel := strings.TrimPrefix(f.name, b.prefix())
		switch {
		case !isManifest(f.name), rel == "fleet.yaml", rel == "fleet.yml", strings.HasPrefix(rel, "overlays/"), strings.HasPrefix(rel, "templates/"):
		case slices.ContainsFunc(skip, func(dir string) bool { return strings.HasPrefix(f.name, dir) }):
		default:
			out = append(out, f)
		}
	}
	return out
}

// objectsOf lists the objects of a manifest, including those in Lists.
func objectsOf(f *lintFile, b *lintBundle) (out []*lintObject) {
	for _, d := range f.docs {
		out = append(out, objectsIn(d.Root, f, b, 0)...)
	}
	return out
}

func objectsIn(n *yamlnode.Node, f *lintFile, b *lintBundle, depth int) (out []*lintObject) {
	o := &lintObject{bundle: b, file: f, node: n, doc: n.At, apiVersion: n.Get("apiVersion").Str(), kind: n.Get("kind").Str(),
		namespace: n.Get("metadata", "namespace").Str(), name: n.Get("metadata", "name").Str()}
	if o.apiVersion == "" || o.kind == "" {
		return nil
	}
	if strings.HasSuffix(o.kind, "List") && n.Get("items") != nil && depth == 0 {
		for _, item := range n.Get("items").List() {
			out = append(out, objectsIn(item, f, b, 1)...)
		}
		return out
	}
	return []*lintObject{o}
}

// loadLoose collects objects of files outside bundles: GitRepos and the like, which are
// applied by hand.
func (l *linter) loadLoose() {
	in := map[string]bool{}
	for _, b := range l.bundles {
		in[b.File] = true
		for _, f := range b.files {
			in[f.name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.tree.files)) {
		if f := l.tree.files[name]; f.read && !in[name] {
			l.loose = append(l.loose, objectsOf(f, nil)...)
		}
	}
}

// scopedNamespace is the namespace of a bundle's object when deployed, "" for cluster-scoped
// ones.
func (o *lintObject) scopedNamespace() string {
	if lintClusterScoped[o.kind] {
		return ""
	}
	switch {
	case o.bundle != nil && o.bundle.YAML.TargetNamespace != "":
		return o.bundle.YAML.TargetNamespace
	case o.namespace != "":
		return o.namespace
	case o.bundle != nil && o.bundle.namespace() != "":
		return o.bundle.namespace()
	}
	return "default"
}

func (o *lintObject) group() string {
	group, _, ok := strings.Cut(o.apiVersion, "/")
	if !ok {
		return ""
	}
	return group
}

func (o *lintObject) String() string { return o.kind + " " + o.name }

// lintClusterScoped are cluster-scoped kinds: Kubernetes' own, and common ones of other
// projects.
var lintClusterScoped = map[string]bool{
	"Namespace": true, "Node": true, "PersistentVolume": true, "CustomResourceDefinition": true, "ClusterRole": true, "ClusterRoleBinding": true,
	"StorageClass": true, "CSIDriver": true, "CSINode": true, "VolumeAttachment": true, "VolumeSnapshotClass": true, "PriorityClass": true,
	"IngressClass": true, "RuntimeClass": true, "APIService": true, "GatewayClass": true, "ClusterIssuer": true, "FlowSchema": true,
	"MutatingWebhookConfiguration": true, "ValidatingWebhookConfiguration": true, "ValidatingAdmissionPolicy": true, "ValidatingAdmissionPolicyBinding": true,
	"ClusterPolicy": true, "NVIDIADriver": true, "CiliumLoadBalancerIPPool": true, "CiliumL2AnnouncementPolicy": true, "CiliumClusterwideNetworkPolicy": true,
	"DeviceClass": true, "ResourceSlice": true, "PriorityLevelConfiguration": true, "CertificateSigningRequest": true, "ClusterSecretStore": true,
}
