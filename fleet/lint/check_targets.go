package lint

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// lintMatch says how a target chooses clusters (target/matcher/clustermatcher.go).
type lintMatch struct {
	ClusterName          string                `json:"clusterName"`
	ClusterSelector      *metav1.LabelSelector `json:"clusterSelector"`
	ClusterGroup         string                `json:"clusterGroup"`
	ClusterGroupSelector *metav1.LabelSelector `json:"clusterGroupSelector"`
}

func (m lintMatch) matchesNothing() bool {
	return m.ClusterName == "" && m.ClusterGroup == "" && m.ClusterSelector == nil && m.ClusterGroupSelector == nil
}

// all says that every cluster matches.
func (m lintMatch) all() bool {
	s := m.ClusterSelector
	return m.ClusterName == "" && m.ClusterGroup == "" && m.ClusterGroupSelector == nil && s != nil && len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}

// matches says whether a target may match a cluster: unknown labels, those of groups and of
// clusters with only a known name, count as matching.
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

func (l bundleCheck) checkTargets() {
	for _, b := range l.bundles {
		if n := b.root.Get("targets"); n.Set() {
			l.report("targets-key", b, b.root.Key("targets"),
				"targets of a fleet.yaml choose no clusters: they customize, as targetCustomizations do")
		}
		if n := b.root.Get("overrideTargets"); n != nil && n.Kind == yamlnode.List && len(n.Items) == 0 {
			l.report("override-targets-empty", b, n.At, "an empty list sends the bundle to the cluster group \"default\", not nowhere")
		}
		if n := b.root.Get("targetCustomizationMode"); n.Str() != "" && n.Str() != "FirstMatch" && n.Str() != "AllMatches" {
			l.report("wrong-type", b, n.At, "targetCustomizationMode %q: there are FirstMatch and AllMatches", n.Str())
		}
		l.targetList(b.File, l.targets(b), b.YAML.TargetCustomizationMode != v1alpha1.TargetCustomizationModeAllMatches)
		var override []lintTarget
		for _, n := range b.root.Get("overrideTargets").List() {
			override = append(override, lintTarget{"overrideTargets", n})
		}
		l.targetList(b.File, override, true)
		for _, n := range b.root.Get("dependsOn").List() {
			l.selector(b.File, n.Get("selector"))
		}
	}
}

// targetList checks targets in order; the first match wins.
func (l bundleCheck) targetList(file string, targets []lintTarget, first bool) {
	seen := map[string]lintTarget{}
	var catchAll *lintTarget
	for i, t := range targets {
		var m lintMatch
		ok := l.selector(file, t.node.Get("clusterSelector")) && l.selector(file, t.node.Get("clusterGroupSelector"))
		if err := asData(t.node, &m); err != nil || !ok {
			continue // reported by wrong-type and selector-invalid
		}
		if m.matchesNothing() {
			l.add("target-empty", file, t.node.At, "%s names no clusters: without clusterName, clusterSelector, clusterGroup or clusterGroupSelector it never matches", t.name())
			continue
		}
		key, _ := json.Marshal(m)
		switch again, twice := seen[string(key)]; {
		case !first || t.key == "overrideTargets":
		case catchAll != nil:
			l.add("target-unreachable", file, t.node.At, "%s is never reached: %s above it matches every cluster", t.name(), catchAll.name())
		case twice:
			l.add("target-unreachable", file, t.node.At, "%s is never reached: %s above it matches the same clusters", t.name(), again.name())
		}
		if seen[string(key)] = t; m.all() && catchAll == nil {
			catchAll = &targets[i]
		}
		l.checkReached(file, t, m)
	}
}

func (l bundleCheck) checkReached(file string, t lintTarget, m lintMatch) {
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
	l.add("target-no-cluster", file, t.node.At, "%s matches none of the clusters %s%s", t.name(), strings.Join(names, ", "), hint)
}

// selector says whether a label selector can be used, and reports one that cannot.
func (l bundleCheck) selector(file string, n *yamlnode.Node) bool {
	if !n.Set() {
		return true
	}
	var s metav1.LabelSelector
	if err := asData(n, &s); err != nil {
		return false
	}
	if _, err := metav1.LabelSelectorAsSelector(&s); err != nil {
		l.add("selector-invalid", file, n.At, "this selector cannot be used: %v", err)
		return false
	}
	return true
}

// checkRollout: numbers and percentages (target/status.go limit).
func (l bundleCheck) checkRollout() {
	for _, b := range l.bundles {
		r := b.root.Get("rolloutStrategy")
		holders := append([]*yamlnode.Node{r}, r.Get("partitions").List()...)
		for _, h := range holders {
			for _, key := range []string{"maxUnavailable", "maxUnavailablePartitions", "autoPartitionSize"} {
				n := h.Get(key)
				if !n.Set() {
					continue
				}
				_, err := strconv.Atoi(n.Str())
				number, percent := err == nil, strings.HasSuffix(n.Str(), "%")
				_, err = strconv.ParseFloat(strings.TrimSuffix(n.Str(), "%"), 64)
				switch {
				case !number && (!percent || err != nil), n.Kind == yamlnode.Text && n.Str() == "0":
					l.report("rollout-number", b, n.At, "%s %q is neither a number nor a percentage: the bundle stops", key, n.Str())
				case key == "maxUnavailable" && n.Str() == "0":
					l.report("rollout-zero", b, n.At, "with maxUnavailable 0 no cluster ever gets a change")
				}
			}
		}
		for _, p := range r.Get("partitions").List() {
			l.selector(b.File, p.Get("clusterSelector"))
			l.selector(b.File, p.Get("clusterGroupSelector"))
		}
	}
}
