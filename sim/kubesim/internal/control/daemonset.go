package control

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// daemonTolerations are those that the controller gives each pod: AddOrUpdateDaemonPodTolerations
// of pkg/controller/daemon/util.
func daemonTolerations(s *corev1.PodSpec) []corev1.Toleration {
	tolerate := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	}
	out := []corev1.Toleration{
		tolerate(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute),
		tolerate(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute),
		tolerate(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule),
		tolerate(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule),
		tolerate(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule),
		tolerate(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
	}
	if s.HostNetwork {
		out = append(out, tolerate(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule))
	}
	return out
}

func (c *Controllers) daemonSets(pods podIndex) {
	nodes := All[corev1.Node](c, "nodes")
	for _, d := range All[appsv1.DaemonSet](c, "daemonsets.apps") {
		c.daemonSet(d, nodes, pods.byOwner[d.UID])
	}
}

// fits reports whether a node should run a pod of the set, and whether one that runs may stay.
func fits(d *appsv1.DaemonSet, n *corev1.Node, tolerations []corev1.Toleration) (start, stay bool) {
	ok, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: d.Spec.Template.Spec}).Match(n)
	if !ok || err != nil {
		return false, false
	}
	kept := func(effects ...corev1.TaintEffect) bool {
		_, found := scheduling.FindMatchingUntoleratedTaint(klog.Logger{}, n.Spec.Taints, tolerations,
			func(t *corev1.Taint) bool { return slices.Contains(effects, t.Effect) }, true)
		return found
	}
	return !kept(corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule), !kept(corev1.TaintEffectNoExecute)
}

// nodeOf is the node of a daemon's pod: the one it is on, or the one it is for.
func nodeOf(p *corev1.Pod) string {
	if p.Spec.NodeName != "" {
		return p.Spec.NodeName
	}
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil || p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, t := range p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, f := range t.MatchFields {
			if f.Key == "metadata.name" && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return ""
}

func (c *Controllers) daemonSet(d *appsv1.DaemonSet, nodes []*corev1.Node, pods []*corev1.Pod) {
	on := map[string][]*corev1.Pod{}
	for _, p := range pods {
		on[nodeOf(p)] = append(on[nodeOf(p)], p)
	}
	hash := hashOf(&d.Spec.Template)
	tolerations := slices.Concat(d.Spec.Template.Spec.Tolerations, daemonTolerations(&d.Spec.Template.Spec))
	s := appsv1.DaemonSetStatus{ObservedGeneration: d.Generation, CollisionCount: d.Status.CollisionCount}
	var outdated []*corev1.Pod
	unavailable := 0
	for _, n := range nodes {
		start, stay := fits(d, n, tolerations)
		var p *corev1.Pod // the one that counts
		for _, candidate := range on[n.Name] {
			if p == nil || p.DeletionTimestamp != nil {
				p = candidate
			}
			if Ended(candidate) && candidate.DeletionTimestamp == nil && d.DeletionTimestamp == nil {
				c.delete(d, candidate)
			}
		}
		if !start {
			if p != nil && !stay && p.DeletionTimestamp == nil {
				c.delete(d, p)
			} else if p != nil {
				s.NumberMisscheduled++
			}
			continue
		}
		s.DesiredNumberScheduled++
		if p == nil {
			unavailable++
			if d.DeletionTimestamp == nil && c.create(d, c.daemonPod(d, n.Name, hash, tolerations)) {
				s.CurrentNumberScheduled++
				s.UpdatedNumberScheduled++
			}
			continue
		}
		s.CurrentNumberScheduled++
		if p.Labels[appsv1.ControllerRevisionHashLabelKey] == hash {
			s.UpdatedNumberScheduled++
		} else if p.DeletionTimestamp == nil {
			outdated = append(outdated, p)
		}
		if Ready(p) {
			s.NumberReady++
		}
		if c.available(p, d.Spec.MinReadySeconds) && p.DeletionTimestamp == nil {
			s.NumberAvailable++
		} else {
			unavailable++
		}
	}
	s.NumberUnavailable = s.DesiredNumberScheduled - s.NumberAvailable
	c.replaceDaemons(d, outdated, int(s.DesiredNumberScheduled), unavailable)
	out := d.DeepCopy()
	out.Status = s
	c.Status(out)
}

// replaceDaemons deletes pods of an older template: those that serve nobody, and of the others
// as many as may be unavailable.
func (c *Controllers) replaceDaemons(d *appsv1.DaemonSet, outdated []*corev1.Pod, nodes, unavailable int) {
	u := d.Spec.UpdateStrategy.RollingUpdate
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType || u == nil || d.DeletionTimestamp != nil {
		return
	}
	limit, _ := intstr.GetScaledValueFromIntOrPercent(u.MaxUnavailable, nodes, true)
	for _, p := range outdated {
		if !Ready(p) {
			c.delete(d, p)
			continue
		}
		if unavailable < max(limit, 1) {
			c.delete(d, p)
			unavailable++
		}
	}
}

func (c *Controllers) daemonPod(d *appsv1.DaemonSet, node, hash string, tolerations []corev1.Toleration) *corev1.Pod {
	p := newPod(d, "apps/v1", "DaemonSet", d.Name+"-"+c.Suffix(), &d.Spec.Template)
	p.GenerateName = d.Name + "-"
	maps.Copy(p.Labels, map[string]string{appsv1.ControllerRevisionHashLabelKey: hash, "pod-template-generation": "1"})
	p.Spec.Tolerations = slices.Clone(tolerations)
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	if p.Spec.Affinity.NodeAffinity == nil {
		p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	only := []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}
	a := p.Spec.Affinity.NodeAffinity
	if a.RequiredDuringSchedulingIgnoredDuringExecution == nil || len(a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms) == 0 {
		a.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: only}}}
		return p
	}
	for i := range a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[i].MatchFields = only
	}
	return p
}
