package lint

import (
	"cmp"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"

	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// lintHelm is the helm section of a bundle or of one of its targets.
type lintHelm struct {
	*v1alpha1.HelmOptions
	node *yamlnode.Node
	own  bool // the bundle's
}

// helmsOf returns the helm sections of a bundle, with their places. A target's section has the
// bundle's repo, chart and version where it has none of its own (bundlereader/read.go
// propagateHelmChartProperties).
func (l *linter) helmsOf(b *lintBundle) (out []lintHelm) {
	if n := b.root.Get("helm"); b.YAML.Helm != nil && n != nil {
		out = append(out, lintHelm{b.YAML.Helm, n, true})
	}
	for _, list := range []struct {
		key     string
		targets []v1alpha1.BundleTarget
	}{{"targets", b.YAML.Targets}, {"targetCustomizations", b.YAML.TargetCustomizations}} {
		nodes := b.root.Get(list.key).List()
		for i, n := range nodes[:min(len(nodes), len(list.targets))] {
			if list.targets[i].Helm != nil && n.Get("helm") != nil {
				out = append(out, lintHelm{inheriting(*list.targets[i].Helm, b.YAML.Helm), n.Get("helm"), false})
			}
		}
	}
	return out
}

// inheriting fills in what a target's section takes from the bundle's.
func inheriting(target v1alpha1.HelmOptions, bundle *v1alpha1.HelmOptions) *v1alpha1.HelmOptions {
	if bundle != nil {
		target.Repo, target.Chart, target.Version = cmp.Or(target.Repo, bundle.Repo), cmp.Or(target.Chart, bundle.Chart), cmp.Or(target.Version, bundle.Version)
	}
	return &target
}

// placeOf is the place of the first of these keys that the section itself has.
func (h lintHelm) placeOf(keys ...string) yamlnode.Pos {
	for _, key := range keys {
		if n := h.node.Get(key); n != nil && n.Text != "" {
			return n.Place()
		}
	}
	return yamlnode.Pos{}
}

func (l chartCheck) checkCharts() {
	for _, b := range l.bundles {
		for _, h := range l.helmsOf(b) {
			l.chartSource(b, h)
			l.chartPin(b, h)
			l.helmWaits(b, h)
		}
		l.checkNotDeployed(b)
	}
}

// chartSource checks the source of the chart (bundlereader/resources.go addRemoteCharts,
// source.go parseSource, charturl.go ChartURL).
func (l chartCheck) chartSource(b *lintBundle, h lintHelm) {
	at := h.placeOf("chart", "repo")
	if at == (yamlnode.Pos{}) {
		return // all of it is the bundle's
	}
	switch oci := strings.HasPrefix(h.Repo, "oci://"); {
	case oci && h.Chart != "":
		l.report("oci-chart", b, at, "helm.chart %q is ignored: an oci:// repo is the whole name of the chart", h.Chart)
		return
	case strings.HasPrefix(h.Chart, "oci://"):
		l.report("oci-in-chart", b, at, "oci:// in helm.chart is deprecated")
		return
	case oci:
		return
	case h.Repo != "" && h.Chart == "":
		l.report("chart-missing", b, at, "helm.repo without helm.chart: which chart of %s?", h.Repo)
		return
	case h.Repo != "" || h.Chart == "" || isChartURL(h.Chart):
		return
	}
	full := path.Join(b.Dir, h.Chart)
	switch {
	case strings.HasPrefix(path.Join("x", b.Dir, h.Chart), "..") || full == ".." || strings.HasPrefix(full, "../"):
		l.report("chart-outside", b, at, "%s leaves the repository", h.Chart)
	case !l.tree.exists(full):
		l.report("chart-missing", b, at, "there is no %s in the bundle's folder, and without helm.repo Fleet has no other place to look", h.Chart)
	case full != b.Dir && !strings.HasPrefix(full, b.prefix()):
		l.report("chart-outside", b, at, "%s is outside the bundle's folder, and only the folder's contents go to the cluster", h.Chart)
	case l.tree.isDir(full) && l.tree.files[path.Join(full, "Chart.yaml")] == nil:
		l.report("chart-missing", b, at, "%s has no Chart.yaml", h.Chart)
	}
}

var lintHostFirst = regexp.MustCompile(`^(https?|git|ssh)(::|://)|^(github|gitlab)\.com/|^[^/@]+@[^/:]+:`)

func isChartURL(chart string) bool { return lintHostFirst.MatchString(chart) }

// exact reports whether a version is one and no range. Helm takes one with leading zeros, too.
func exact(version string) bool {
	_, err := semver.NewVersion(version)
	core, _, _ := strings.Cut(strings.SplitN(version, "-", 2)[0], "+")
	return err == nil && strings.Count(core, ".") == 2
}

// chartPin: a chart without an exact version changes over time.
func (l chartCheck) chartPin(b *lintBundle, h lintHelm) {
	version := h.node.Get("version")
	switch {
	case !h.own && version == nil: // the bundle's, if any
	case h.Repo == "" && !strings.HasPrefix(h.Chart, "oci://"):
		if h.Version == "" || !h.own || b.remote && h.Chart != "" {
			return // a URL names its version
		}
		l.report("vendored-version", b, version.Place(), "helm.version %s has no effect: the chart is in the repository", h.Version)
	case h.Version == "":
		l.report("chart-unpinned", b, h.node.Key("repo"), "helm.version is missing: Fleet uses the newest at each check")
	default:
		if exact(h.Version) {
			break
		}
		if _, err := semver.NewConstraint(h.Version); err != nil {
			l.report("chart-unpinned", b, version.Place(), "helm.version %q is neither a version nor a range, and Helm refuses it: %v", h.Version,
				err)
		} else {
			l.report("chart-unpinned", b, version.Place(), "helm.version %q is a range: Fleet uses the newest in it at each check", h.Version)
		}
	}
	if u, err := url.Parse(h.Repo); h.placeOf("repo") != (yamlnode.Pos{}) && (err != nil || !slices.Contains([]string{"http", "https",
		"oci"}, u.Scheme) || u.Host == "") {
		l.report("chart-missing", b, h.node.Get("repo").Place(), "helm.repo %q is not a URL of http, https or oci", h.Repo)
	}
}

// helmWaits checks settings that need a timeout (helmdeployer/install.go
// configureInstallAction: without one Helm waits only for hooks, 30 s each).
func (l chartCheck) helmWaits(b *lintBundle, h lintHelm) {
	if h.TimeoutSeconds > 0 || !h.own && b.YAML.Helm != nil && b.YAML.Helm.TimeoutSeconds > 0 {
		return
	}
	for _, key := range []string{"waitForJobs", "atomic"} {
		if n := h.node.Get(key); n.Str() == "true" {
			l.report("wait-without-timeout", b, n.At, "%s does nothing without timeoutSeconds", key)
		}
	}
	if h.own && b.chart != "" {
		for _, f := range b.files {
			if strings.HasPrefix(f.name, path.Join(b.chart, "templates")+"/") && lintHookLine.Match(f.data) {
				l.report("hook-timeout", b, h.node.At, "the chart has hooks (%s), and each has 30 s without timeoutSeconds",
					strings.TrimPrefix(f.name, b.prefix()))
				return
			}
		}
	}
}

var lintHookLine = regexp.MustCompile(`(?m)^\s*["']?helm\.sh/hook["']?:\s*["']?(pre|post)-`)

// checkNotDeployed: a bundle with a chart deploys the chart only; a bundle of manifests leaves
// out folders with a Chart.yaml (helmdeployer/render/helm.go toChart, manifests).
func (l chartCheck) checkNotDeployed(b *lintBundle) {
	if b.kustomize {
		return
	}
	if b.raw() {
		for _, f := range b.files {
			if dir := path.Dir(f.name); path.Base(f.name) == "Chart.yaml" && dir != b.Dir && !l.isInNested(b, dir) {
				l.add("chart-not-deployed", f.name, yamlnode.Pos{}, "no helm.chart of %s names this chart: Fleet leaves its folder out", b.mainFile())
			}
		}
		return
	}
	for _, f := range b.files {
		inChart := b.chart == b.Dir || strings.HasPrefix(f.name, b.chart+"/")
		if inChart || !f.read || l.isInNested(b, path.Dir(f.name)) || l.isInOtherChart(b, f.name) {
			continue
		}
		if objects := objectsOf(f, b); len(objects) > 0 {
			l.add("manifest-not-deployed", f.name, objects[0].doc, "%s is never deployed: the bundle %s has a chart, and deploys that only",
				objects[0], b.mainFile())
		}
	}
}

// isInNested: the folder belongs to a bundle inside the bundle.
func (l *linter) isInNested(b *lintBundle, dir string) bool {
	for ; dir != b.Dir && dir != "."; dir = path.Dir(dir) {
		if l.tree.options(dir) != "" {
			return true
		}
	}
	return false
}

func (l *linter) isInOtherChart(b *lintBundle, name string) bool {
	for dir := path.Dir(name); dir != b.Dir && dir != "."; dir = path.Dir(dir) {
		if l.tree.files[path.Join(dir, "Chart.yaml")] != nil {
			return true
		}
	}
	return false
}
