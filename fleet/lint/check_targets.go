package lint

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// lintMatch is how a target chooses clusters (target/matcher/clustermatcher.go).
type lintMatch struct {
	ClusterName          string                `json:"clusterName"`
	ClusterSelector      *metav1.LabelSelector `json:"clusterSelector"`
	ClusterGroup         string                `json:"clusterGroup"`
	ClusterGroupSelector *metav1.LabelSelector `json:"clusterGroupSelector"`
}

func (m lintMatch) none() bool {
	return m.ClusterName == "" && m.ClusterGroup == "" && m.ClusterSelector == nil && m.ClusterGroupSelector == nil
}

// all says that every cluster matches.
func (m lintMatch) all() bool {
	s := m.ClusterSelector
	return m.ClusterName == "" && m.ClusterGroup == "" && m.ClusterGroupSelector == nil && s != nil && len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}

// matches says whether a cluster may be meant: groups' labels, and labels of a cluster
// that only its name is known of, are not held against it.
func (m lintMatch) matches(c Cluster) bool {
	if m.ClusterName != "" && m.ClusterName != c.Name && m.ClusterName != c.Labels["management.cattle.io/cluster-display-name"] {
		return false
	}
	if m.ClusterGroup != "" && !slices.Contains(c.Groups, m.ClusterGroup) {
		return false
	}
	if m.ClusterSelector != nil && c.Labels != nil {
		s, err := metav1.LabelSelectorAsSelector(m.ClusterSelector)
		return err == nil && s.Matches(labels.Set(c.Labels))
	}
	return true
}

func (l *linter) checkTargets() {
	for _, b := range l.bundles {
		if n := b.root.get("targets"); n.set() {
			l.in("targets-key", b, b.root.key("targets"), "targets of a fleet.yaml choose no clusters: they customize, as targetCustomizations do")
		}
		if n := b.root.get("overrideTargets"); n != nil && n.kind == lintList && len(n.items) == 0 {
			l.in("override-targets-empty", b, n.at, "an empty list sends the bundle to the cluster group \"default\", not nowhere")
		}
		if n := b.root.get("targetCustomizationMode"); n.str() != "" && n.str() != "FirstMatch" && n.str() != "AllMatches" {
			l.in("wrong-type", b, n.at, "targetCustomizationMode %q: there are FirstMatch and AllMatches", n.str())
		}
		l.targetList(b.File, l.targets(b), b.YAML.TargetCustomizationMode != v1alpha1.TargetCustomizationModeAllMatches)
		var override []lintTarget
		for _, n := range b.root.get("overrideTargets").list() {
			override = append(override, lintTarget{"overrideTargets", n})
		}
		l.targetList(b.File, override, true)
		for _, n := range b.root.get("dependsOn").list() {
			l.selector(b.File, n.get("selector"))
		}
	}
}

// targetList judges targets in the order in which the first match is taken.
func (l *linter) targetList(file string, targets []lintTarget, first bool) {
	seen := map[string]lintTarget{}
	var catchAll *lintTarget
	for i, t := range targets {
		var m lintMatch
		ok := l.selector(file, t.node.get("clusterSelector")) && l.selector(file, t.node.get("clusterGroupSelector"))
		if err := asData(t.node, &m); err != nil || !ok {
			continue // wrong-type and selector-invalid say it
		}
		if m.none() {
			l.add("target-empty", file, t.node.at, "%s names no clusters: without clusterName, clusterSelector, clusterGroup or clusterGroupSelector it never matches", t.name())
			continue
		}
		key, _ := json.Marshal(m)
		switch again, twice := seen[string(key)]; {
		case !first || t.key == "overrideTargets":
		case catchAll != nil:
			l.add("target-unreachable", file, t.node.at, "%s is never reached: %s above it matches every cluster", t.name(), catchAll.name())
		case twice:
			l.add("target-unreachable", file, t.node.at, "%s is never reached: %s above it matches the same clusters", t.name(), again.name())
		}
		if seen[string(key)] = t; m.all() && catchAll == nil {
			catchAll = &targets[i]
		}
		l.reaches(file, t, m)
	}
}

func (l *linter) reaches(file string, t lintTarget, m lintMatch) {
	known := m.ClusterGroupSelector == nil && (m.ClusterGroup == "" || slices.ContainsFunc(l.opt.Clusters, func(c Cluster) bool { return len(c.Groups) > 0 }))
	if len(l.opt.Clusters) == 0 || !known || slices.ContainsFunc(l.opt.Clusters, m.matches) {
		return
	}
	names, hint := []string{}, ""
	for _, c := range l.opt.Clusters {
		names = append(names, c.Name)
	}
	if !slices.Contains(names, m.ClusterName) {
		hint = didYouMean(m.ClusterName, names)
	}
	l.add("target-no-cluster", file, t.node.at, "%s matches none of the clusters %s%s", t.name(), strings.Join(names, ", "), hint)
}

// selector says whether a label selector can be used, and reports one that cannot.
func (l *linter) selector(file string, n *lintNode) bool {
	if !n.set() {
		return true
	}
	var s metav1.LabelSelector
	if err := asData(n, &s); err != nil {
		return false
	}
	if _, err := metav1.LabelSelectorAsSelector(&s); err != nil {
		l.add("selector-invalid", file, n.at, "this selector cannot be used: %v", err)
		return false
	}
	return true
}

// checkRollout: numbers and percentages (target/status.go limit).
func (l *linter) checkRollout() {
	for _, b := range l.bundles {
		r := b.root.get("rolloutStrategy")
		holders := append([]*lintNode{r}, r.get("partitions").list()...)
		for _, h := range holders {
			for _, key := range []string{"maxUnavailable", "maxUnavailablePartitions", "autoPartitionSize"} {
				n := h.get(key)
				if !n.set() {
					continue
				}
				_, err := strconv.Atoi(n.str())
				number, percent := err == nil, strings.HasSuffix(n.str(), "%")
				_, err = strconv.ParseFloat(strings.TrimSuffix(n.str(), "%"), 64)
				switch {
				case !number && (!percent || err != nil), n.kind == lintText && n.str() == "0":
					l.in("rollout-number", b, n.at, "%s %q is neither a number nor a percentage: the bundle stops", key, n.str())
				case key == "maxUnavailable" && n.str() == "0":
					l.in("rollout-zero", b, n.at, "with maxUnavailable 0 no cluster ever gets a change")
				}
			}
		}
		for _, p := range r.get("partitions").list() {
			l.selector(b.File, p.get("clusterSelector"))
			l.selector(b.File, p.get("clusterGroupSelector"))
		}
	}
}
