package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cps-gpu/homelab/fleet/internal/reserved"
	"github.com/cps-gpu/homelab/internal/suggest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// checkNames checks names of bundles and of their releases.
func (l bundleCheck) checkNames() {
	byName := map[string]*lintBundle{}
	byRelease := map[string]*lintBundle{}
	for _, b := range l.bundles {
		l.checkName(b)
		if first := byName[b.Name]; first != nil {
			l.report("duplicate-bundle-name", b, b.root.Key("name"),
				"the bundle of %s is also called %s: the one that is written last replaces the other", first.Dir, b.Name)
		} else {
			byName[b.Name] = b
		}
		at := b.root.Get("helm", "releaseName").Place()
		if at == (yamlnode.Pos{}) {
			at = b.root.Key("name")
		}
		l.releaseName(b, at)
		// A bundle without a namespace goes to "default" (helmdeployer/deployer.go getOpts).
		key := b.namespace() + "/" + b.release()
		if first := byRelease[key]; first != nil && first.Name != b.Name {
			l.report("release-collision", b, at, "the bundle of %s has the release %s in namespace %q too", first.Dir, b.release(), b.namespace())
			if !l.isOneGitRepo() {
				l.found[len(l.found)-1].Severity = Info
			}
		} else if first == nil {
			byRelease[key] = b
		}
	}
}

// isOneGitRepo says that the bundles are known to belong to one GitRepo. Otherwise they may be for
// different clusters, or alternatives.
func (l *linter) isOneGitRepo() bool {
	return l.opt.GitRepo != "" || len(l.opt.Paths) > 0 || len(l.opt.Bundles) > 0
}

func (l bundleCheck) checkName(b *lintBundle) {
	name, at := b.YAML.Name, b.root.Get("name").Place()
	if name == "" {
		return
	}
	switch problems := validation.IsDNS1123Subdomain(name); {
	case len(problems) > 0:
		l.report("bundle-name", b, at, "%q cannot be the name of a bundle", name)
	case len(name) > 63:
		l.report("bundle-name", b, at, "%q has %d letters: it is also a label's value, of 63 at most", name, len(name))
	case b.release() != name && (b.YAML.Helm == nil || b.YAML.Helm.ReleaseName == ""):
		l.report("bundle-name-long", b, at, "the Helm release of %q is called %q", name, b.release())
	}
}

func (l bundleCheck) releaseName(b *lintBundle, at yamlnode.Pos) {
	release := b.release()
	if b.YAML.Helm != nil && b.YAML.Helm.ReleaseName != "" && (len(release) > maxReleaseName || !lintNameRelease.MatchString(release)) {
		l.report("release-name", b, at, "%q cannot be the name of a release: at most %d of a-z, 0-9, hyphens and dots", release, maxReleaseName)
	}
	err := reserved.Release(b.namespace(), b.Name)
	if err == nil {
		err = reserved.Release(b.namespace(), release)
	}
	if err != nil {
		l.report("reserved-name", b, at, "%v", err)
		if h := b.YAML.Helm; h != nil && h.Chart == release { // this is how Rancher manages other clusters
			l.found[len(l.found)-1].Severity = Warning
		}
		return
	}
	for _, r := range l.opt.Releases {
		if r == b.namespace()+"/"+release {
			l.report("reserved-name", b, at, "the release %s exists in the cluster: Fleet takes it over, and deletes it with the bundle", r)
		}
	}
}

// checkDependsOn resolves every dependency: the agent looks for BundleDeployments by labels,
// and waits forever if there are none (agent/deployer/deployer.go checkDependency).
func (l bundleCheck) checkDependsOn() {
	edges := map[*lintBundle][]lintEdge{}
	l.awaited = map[*lintBundle]*lintBundle{}
	for _, b := range l.bundles {
		nodes := b.root.Get("dependsOn").List()
		for i, n := range nodes[:min(len(nodes), len(b.YAML.DependsOn))] {
			found := l.dependency(b, b.YAML.DependsOn[i], n)
			edges[b] = append(edges[b], found...)
			for _, e := range found {
				if !slices.Contains(b.YAML.DependsOn[i].AcceptedStates, v1alpha1.Modified) {
					l.awaited[e.to] = b
				}
			}
		}
	}
	l.cycles(edges)
}

type lintEdge struct {
	to *lintBundle
	at yamlnode.Pos
}

func (l bundleCheck) dependency(b *lintBundle, d v1alpha1.BundleRef, n *yamlnode.Node) (out []lintEdge) {
	for _, s := range n.Get("acceptedStates").List() {
		if _, ok := v1alpha1.StateRank[v1alpha1.BundleState(s.Str())]; !ok {
			l.report("accepted-states", b, s.At, "there is no state %q%s", s.Str(), didYouMean(s.Str(), lintBundleStates()))
		}
	}
	switch {
	case d.Name == "" && d.Selector == nil:
		l.report("depends-on-empty", b, n.At, "a dependency without name and selector: Fleet refuses the bundle")
		return nil
	case d.Name != "":
		to := l.byName(d.Name)
		if to == nil && !slices.Contains(l.opt.Elsewhere, d.Name) {
			l.report("depends-on-unknown", b, n.Get("name").Place(), "no bundle here is called %q%s", d.Name, l.nearestBundle(d.Name))
		}
		if to != nil {
			out = append(out, lintEdge{to, n.Get("name").Place()})
		}
	default:
		out = l.bySelector(b, d.Selector, n.Get("selector"))
	}
	if len(d.AcceptedStates) == 0 && len(out) > 0 {
		l.report("depends-on-modified", b, n.At, "while its dependency is Modified, this bundle waits")
	}
	return out
}

func lintBundleStates() (out []string) {
	for s := range v1alpha1.StateRank {
		out = append(out, string(s))
	}
	slices.Sort(out)
	return out
}

// byName finds the bundle that a dependency means. If the GitRepo is not known, neither is the
// start of generated names.
func (l bundleCheck) byName(name string) *lintBundle {
	for _, b := range l.bundles {
		if b.Name == name || !l.isNameKnown(b) && mayBeGeneratedFrom(name, b) {
			return b
		}
	}
	return nil
}

var lintChecksum = regexp.MustCompile(`-[0-9a-f]{5,8}$`)

// mayBeGeneratedFrom says whether Fleet could generate the name for the bundle, with some GitRepo's
// name.
func mayBeGeneratedFrom(name string, b *lintBundle) bool {
	if b.Dir == "." {
		return false
	}
	if rel, own := b.ownOptions(); own {
		return strings.HasSuffix(name, "-"+helmReleaseName(path.Join(b.Dir, strings.TrimSuffix(rel, path.Ext(rel)))))
	}
	if strings.HasSuffix(name, "-"+b.Name) {
		return true
	}
	if !lintChecksum.MatchString(name) {
		return false
	}
	// The checksum includes the GitRepo's name: only the part before it can be compared.
	plain := strings.Trim(lintNameDashes.ReplaceAllString(lintNameOther.ReplaceAllString(strings.ToLower(strings.ReplaceAll(b.Dir, "/", "-")), "-"), "-"), "-")
	head := lintChecksum.ReplaceAllString(name, "")
	if strings.HasSuffix(head, "-"+plain) {
		return true
	}
	if len(name) < maxReleaseName-1 { // not shortened
		return false
	}
	for i := len(plain); i > 3; i-- {
		if strings.HasSuffix(head, "-"+plain[:i]) {
			return true
		}
	}
	return false
}

func (l bundleCheck) nearestBundle(name string) string {
	var known []string
	for _, b := range l.bundles {
		known = append(known, b.Name)
	}
	if near := suggest.Nearest(name, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	for _, b := range l.bundles { // users often write the folder's name
		if path.Base(b.Dir) == name {
			if l.isNameKnown(b) {
				return fmt.Sprintf("; the bundle of %s is called %q", b.Dir, b.Name)
			}
			return fmt.Sprintf("; the bundle of %s is called GITREPO-%s", b.Dir, b.Name)
		}
	}
	return ""
}

// bySelector finds the bundles with labels. Labels of Fleet itself and of the GitRepo are not
// in the repository: selectors with them are not checked.
func (l bundleCheck) bySelector(b *lintBundle, s *metav1.LabelSelector, n *yamlnode.Node) (out []lintEdge) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil // reported by selector-invalid
	}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		if strings.Contains(r.Key(), "cattle.io/") {
			return nil
		}
	}
	for _, other := range l.bundles {
		if selector.Matches(labels.Set(other.YAML.Labels)) {
			out = append(out, lintEdge{other, n.Place()})
		}
	}
	if len(out) == 0 {
		l.report("depends-on-selector", b, n.Place(), "no bundle here has labels that match %s", selector)
	}
	return out
}

// cycles reports each cycle of dependencies once.
func (l bundleCheck) cycles(edges map[*lintBundle][]lintEdge) {
	const onPath, done = 1, 2
	state := map[*lintBundle]int{}
	var trail []*lintBundle
	var visit func(b *lintBundle)
	visit = func(b *lintBundle) {
		state[b] = onPath
		trail = append(trail, b)
		for _, e := range edges[b] {
			switch state[e.to] {
			case 0:
				visit(e.to)
			case onPath:
				var names []string
				for _, on := range trail[slices.Index(trail, e.to):] {
					names = append(names, on.Name)
				}
				l.report("depends-on-cycle", b, e.at, "%s wait for each other forever", strings.Join(append(names, e.to.Name), " → "))
			}
		}
		trail = trail[:len(trail)-1]
		state[b] = done
	}
	for _, b := range l.bundles {
		if state[b] == 0 {
			visit(b)
		}
	}
}
