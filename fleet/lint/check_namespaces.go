package lint

import (
	"maps"
	"path"
	"regexp"
	"strings"
)

// checkNamespaces: namespace: forces everything into one namespace and refuses cluster-scoped
// objects; defaultNamespace: applies to objects that name none (postrender.go Run).
func (l bundleCheck) checkNamespaces() {
	cluster := l.clusterKinds()
	labelled := map[string]*lintBundle{}
	for _, b := range l.bundles {
		if b.YAML.TargetNamespace != "" {
			if n := b.root.Get("defaultNamespace"); n.Str() != "" {
				l.report("two-namespaces", b, n.At, "defaultNamespace is ignored beside namespace")
			}
			l.scopes(b, cluster)
		}
		l.namespaceLabels(b, labelled)
	}
}

// clusterKinds are the cluster-scoped kinds of the repository's CustomResourceDefinitions, by
// group and kind.
func (l bundleCheck) clusterKinds() map[string]bool {
	out := map[string]bool{}
	for _, b := range l.bundles {
		for _, o := range b.objects {
			if o.kind == "CustomResourceDefinition" && o.node.Get("spec", "scope").Str() == "Cluster" {
				out[o.node.Get("spec", "group").Str()+"/"+o.node.Get("spec", "names", "kind").Str()] = true
			}
		}
	}
	return out
}

var lintKindLine = regexp.MustCompile(`(?m)^kind:\s*["']?([A-Za-z]+)`)

func (l bundleCheck) scopes(b *lintBundle, cluster map[string]bool) {
	at := b.root.Get("namespace").Place()
	for _, o := range b.objects {
		if lintClusterScoped[o.kind] || cluster[o.group()+"/"+o.kind] {
			l.report("namespace-cluster-scoped", b, at, "%s (%s line %d) belongs to no namespace: with namespace: %s Fleet refuses the bundle", o,
				o.file.name, o.doc.Line, b.YAML.TargetNamespace)
			return
		}
	}
	if b.chart == "" {
		return
	}
	for _, f := range b.files {
		// Text inside a condition may not be rendered.
		if !strings.HasPrefix(f.name, path.Join(b.chart, "templates")+"/") || strings.Contains(string(f.data), "{{- if") || strings.Contains(string(f.data), "{{ if") {
			continue
		}
		for _, m := range lintKindLine.FindAllStringSubmatch(string(f.data), -1) {
			if lintClusterScoped[m[1]] {
				l.report("namespace-cluster-scoped", b, at, "a %s (%s) belongs to no namespace: with namespace: %s Fleet refuses the bundle", m[1],
					f.name, b.YAML.TargetNamespace)
				return
			}
		}
	}
}

// namespaceLabels: the agent replaces all labels of the namespace but Kubernetes' own
// and those of pod security (agent/deployer/deployer.go addLabelsFromOptions).
func (l bundleCheck) namespaceLabels(b *lintBundle, labelled map[string]*lintBundle) {
	labels := b.root.Get("namespaceLabels")
	for _, f := range labels.Entries() {
		if strings.HasPrefix(f.Name, "pod-security.kubernetes.io/") {
			l.report("namespace-pod-security", b, f.At, "%s is never set: the agent does not change labels of pod security", f.Name)
		}
	}
	ns := b.namespace()
	if !labels.Set() || ns == "" {
		return
	}
	if ns == "default" || strings.HasPrefix(ns, "kube-") || strings.HasPrefix(ns, "cattle-") {
		l.report("namespace-labels", b, b.root.Key("namespaceLabels"),
			"these replace all other labels of the namespace %s, which does not belong to this bundle", ns)
	}
	if first := labelled[ns]; first != nil && !maps.Equal(first.YAML.NamespaceLabels, b.YAML.NamespaceLabels) {
		l.report("namespace-labels", b, b.root.Key("namespaceLabels"),
			"the bundle of %s has other labels for the namespace %s: each removes the other's", first.Dir, ns)
	}
	if labelled[ns] == nil {
		labelled[ns] = b
	}
}
