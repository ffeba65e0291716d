package lint

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/fleet/internal/reserved"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// checkWorkloads checks objects that Kubernetes accepts and that do not work as they seem to.
func (l objectCheck) checkWorkloads() {
	for _, b := range l.bundles {
		for _, o := range b.objects {
			l.barePod(o)
			l.checkDuplicateEnv(o)
			l.filledIn(o)
			l.ranchersNamespace(o)
		}
		l.vendoredBesideRepo(b)
		l.localNamespaces(b)
	}
}

// barePod: nothing recreates a Pod, and most of its fields cannot be changed, so the
// first change of the file is refused.
func (l objectCheck) barePod(o *lintObject) {
	if o.kind == "Pod" && o.apiVersion == "v1" && o.node.Get("metadata", "annotations", "helm.sh/hook") == nil {
		l.add("bare-pod", o.file.name, o.doc, "%s is not recreated when its node fails, and most changes of it are refused", o)
	}
}

// checkDuplicateEnv: the last one counts, and a later patch of one of them changes the other (the
// list is merged by name).
func (l objectCheck) checkDuplicateEnv(o *lintObject) {
	spec := podSpec(o)
	for _, key := range []string{"initContainers", "containers"} {
		for _, c := range spec.Get(key).List() {
			seen := map[string]bool{}
			for _, e := range c.Get("env").List() {
				name := e.Get("name").Str()
				if name != "" && seen[name] {
					l.add("env-twice", o.file.name, e.At, "%s: container %s has the variable %s twice, and the last one counts", o, c.Get("name").Str(), name)
				}
				seen[name] = true
			}
		}
	}
}

// lintFilledIn are fields that the API server or a controller writes.
var lintFilledIn = map[string][][]string{
	"":                               {{"status"}, {"metadata", "resourceVersion"}, {"metadata", "uid"}, {"metadata", "generation"}, {"metadata", "managedFields"}},
	"CustomResourceDefinition":       {{"spec", "conversion", "webhook", "clientConfig", "caBundle"}},
	"APIService":                     {{"spec", "caBundle"}},
	"MutatingWebhookConfiguration":   {{"webhooks", "clientConfig", "caBundle"}},
	"ValidatingWebhookConfiguration": {{"webhooks", "clientConfig", "caBundle"}},
}

// filledIn finds fields that a controller sets, and that would differ forever.
func (l objectCheck) filledIn(o *lintObject) {
	for _, kind := range []string{"", o.kind} {
		for _, at := range lintFilledIn[kind] {
			n := descend(o.node, at)
			if !n.Set() || n.Str() == "None" || n.Kind == yamlnode.Map && len(n.Fields) == 0 || o.kind == "CustomResourceDefinition" && at[0] == "status" {
				continue
			}
			waits := l.awaited[o.bundle]
			if waits == nil {
				l.add("controller-field", o.file.name, n.At, "%s: %s is set by the cluster, and differs from this forever", o, strings.Join(at, "."))
				continue
			}
			l.add("controller-field", o.file.name, n.At, "%s: %s is set by the cluster, and differs from this forever: the bundle stays Modified, and %s, which depends on it, is never deployed",
				o, strings.Join(at, "."), cmp.Or(waits.Name, waits.Dir))
			l.found[len(l.found)-1].Severity = Failure
		}
	}
}

// descend follows names through mappings, and into the first entry of a list that has the name.
func descend(n *yamlnode.Node, names []string) *yamlnode.Node {
	for i, name := range names {
		if n != nil && n.Kind == yamlnode.List {
			for _, item := range n.Items {
				if found := descend(item, names[i:]); found != nil {
					return found
				}
			}
			return nil
		}
		if n = n.Get(name); n == nil {
			return nil
		}
	}
	return n
}

// lintRanchers are namespaces that Rancher and Fleet own (rancher pkg/settings/setting.go
// systemNamespaces, and the constants in pkg/namespace, pkg/fleet and their users), without
// those for charts of Rancher's catalogue (cattle-monitoring-system and the like).
var lintRanchers = [...]string{
	"cattle-system", "cattle-fleet-system", "cattle-fleet-local-system", "cattle-fleet-clusters-system", "cattle-impersonation-system",
	"cattle-global-data", "cattle-global-nt", "cattle-provisioning-capi-system", "cattle-capi-system", "cattle-turtles-system", "cattle-ui-plugin-system",
	"cattle-local-user-passwords", "cattle-tokens", "cattle-oidc-codes", "cattle-oidc-client-secrets", "cattle-scc-system", "cattle-telemetry-system",
}

// lintMade matches other namespaces that Rancher and Fleet create and remove: of workspaces,
// clusters and projects, with the letters of generated names (apimachinery util/rand). Objects are
// in these by right.
var lintMade = regexp.MustCompile(`^(fleet-(default|local)|cluster-fleet-(default|local)-.+|((local|c-[b-z2-9]{5}|c-m-[a-z0-9]{8})-)?p-[bcdfghjklmnpqrstvwxz2456789]{5}|c-m-[a-z0-9]{8}|c-[bcdfghjklmnpqrstvwxz2456789]{5})$`)

func (l objectCheck) ranchersNamespace(o *lintObject) {
	ns := o.scopedNamespace()
	if o.kind == "Namespace" && o.apiVersion == "v1" {
		if ns = o.name; slices.Contains(lintRanchers[:], ns) || lintMade.MatchString(ns) {
			l.reportWithCure("rancher-namespace", o.file.name, o.doc, "remove the Namespace from the bundle: it is there already",
				"%s is Rancher's: a bundle that has it cannot be installed beside it, or removes it, with all that is in it, when the bundle is removed", o)
			l.found[len(l.found)-1].Severity = Failure
		}
		return
	}
	if !slices.Contains(lintRanchers[:], ns) || strings.HasSuffix(o.group(), "cattle.io") || reserved.Release(ns, o.bundle.release()) != nil { // reserved-name says more
		return
	}
	at := o.node.Get("metadata", "namespace").Place()
	if at == (yamlnode.Pos{}) {
		at = o.doc
	}
	l.add("rancher-namespace", o.file.name, at, "%s is in %s, which belongs to Rancher: an update of Rancher may remove it, and removing the bundle may remove what Rancher needs", o, ns)
}

// vendoredBesideRepo: the bundle has both the chart's folder and the fetched chart, below
// .chart/, which is first by name; the last one found is deployed (bundlereader/style.go
// DetermineStyle).
func (l objectCheck) vendoredBesideRepo(b *lintBundle) {
	for _, h := range l.helmsOf(b) {
		name := path.Join(b.Dir, h.Chart, "Chart.yaml")
		at := h.placeOf("chart", "repo", "version")
		if at == (yamlnode.Pos{}) || h.Repo == "" || h.Chart == "" || l.tree.files[name] == nil || l.ignoredIn(b, name) {
			continue
		}
		l.report("vendored-beside-repo", b, at, "the folder %s is deployed, and not the chart %s of %s that is fetched",
			path.Join(b.Dir, h.Chart), h.Version, h.Repo)
	}
}

// localNamespaces is chartNamespaces for a chart in the repository.
func (l objectCheck) localNamespaces(b *lintBundle) {
	templates := map[string][]byte{}
	for _, f := range b.files {
		if b.chart != "" && strings.HasPrefix(f.name, path.Join(b.chart, "templates")+"/") {
			templates[f.name] = f.data
		}
	}
	l.chartNamespaces(b, templates)
}

// chartNamespaces: namespace: puts all objects of a chart into one namespace, even those whose
// templates name another.
func (l *linter) chartNamespaces(b *lintBundle, templates map[string][]byte) {
	if b.YAML.TargetNamespace == "" {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(templates)) {
		for line := range strings.Lines(string(templates[name])) {
			text, ok := strings.CutPrefix(strings.TrimSpace(line), "namespace:")
			var ns string
			if !ok || strings.Contains(text, "{{") || yaml.Unmarshal([]byte(text), &ns) != nil || ns == "" || ns == b.YAML.TargetNamespace {
				continue
			}
			l.report("chart-sets-namespace", b, b.root.Get("namespace").Place(), "the chart has objects in %s (%s), and namespace: %s moves them",
				ns, name, b.YAML.TargetNamespace)
			return
		}
	}
}
