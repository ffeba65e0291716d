package kubesim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// schedule gives pods without a node one, or says why there is none.
func (c *Cluster) schedule(pods podIndex) {
	nodes := c.all("nodes")
	used := map[string]map[corev1.ResourceName]int64{}
	for name, list := range pods.onNode {
		used[name] = map[corev1.ResourceName]int64{}
		for _, e := range list {
			take(used[name], typed[corev1.Pod](e))
		}
	}
	for _, e := range c.all("pods") {
		p := typed[corev1.Pod](e)
		if p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
			continue
		}
		if why := c.waitsForVolume(p); why != "" {
			c.unschedulable(e, p, len(nodes), map[string]int{why: len(nodes)})
			continue
		}
		home := c.homeOf(p)
		reasons := map[string]int{}
		best, most := "", int64(-1)
		for _, ne := range nodes {
			n := typed[corev1.Node](ne)
			if why := misfit(p, n, used[n.Name]); why != "" {
				reasons[why]++
				continue
			}
			if home != nil && !slices.ContainsFunc(home.Required.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool { return termMatches(t, n) }) {
				reasons["node(s) had volume node affinity conflict"]++
				continue
			}
			if free := free(n, used[n.Name]); free > most {
				best, most = n.Name, free
			}
		}
		if best == "" {
			c.unschedulable(e, p, len(nodes), reasons)
			continue
		}
		if used[best] == nil {
			used[best] = map[corev1.ResourceName]int64{}
		}
		take(used[best], p)
		c.bind(e, p, best)
		if len(claimsOf(p)) > 0 { // the next pod may have to be where its volume is
			c.volumes()
		}
	}
}

// bind puts a pod on a node.
func (c *Cluster) bind(e *entry, p *corev1.Pod, node string) {
	spec := p.Spec.DeepCopy()
	spec.NodeName = node
	e = c.putField(e, "spec", toMap(spec))
	status := p.Status.DeepCopy()
	status.Phase = corev1.PodPending
	status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	c.putStatus(e, status)
}

func (c *Cluster) unschedulable(e *entry, p *corev1.Pod, nodes int, reasons map[string]int) {
	parts := make([]string, 0, len(reasons))
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		parts = append(parts, fmt.Sprintf("%d %s", reasons[why], why))
	}
	message := fmt.Sprintf("0/%d nodes are available: %s.", nodes, strings.Join(parts, ", "))
	if nodes == 0 {
		message = "no nodes available to schedule pods"
	}
	status := p.Status.DeepCopy()
	status.Phase = corev1.PodPending
	status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable, Message: message}}
	c.putStatus(e, status)
}

// misfit says why a pod cannot be on a node, in the scheduler's words.
func misfit(p *corev1.Pod, n *corev1.Node, used map[corev1.ResourceName]int64) string {
	if n.Spec.Unschedulable && !tolerates(p.Spec.Tolerations, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}) {
		return "node(s) were unschedulable"
	}
	for _, t := range n.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(p.Spec.Tolerations, t) {
			return fmt.Sprintf("node(s) had untolerated taint {%s: %s}", t.Key, t.Value)
		}
	}
	if !selects(&p.Spec, n) {
		return "node(s) didn't match Pod's node affinity/selector"
	}
	for name, want := range needs(p) {
		q := n.Status.Allocatable[name]
		if want > amount(name, q.Value(), q.MilliValue())-used[name] {
			return "Insufficient " + string(name)
		}
	}
	return ""
}

// selects reports whether a node selector and a required affinity allow a node.
func selects(spec *corev1.PodSpec, n *corev1.Node) bool {
	if !labels.SelectorFromSet(spec.NodeSelector).Matches(labels.Set(n.Labels)) {
		return false
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil || spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	return slices.ContainsFunc(spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms,
		func(t corev1.NodeSelectorTerm) bool { return termMatches(t, n) })
}

func termMatches(t corev1.NodeSelectorTerm, n *corev1.Node) bool {
	for _, r := range t.MatchExpressions {
		if !requirementMatches(r, n.Labels) {
			return false
		}
	}
	for _, r := range t.MatchFields {
		if !requirementMatches(r, map[string]string{"metadata.name": n.Name}) {
			return false
		}
	}
	return len(t.MatchExpressions)+len(t.MatchFields) > 0
}

func requirementMatches(r corev1.NodeSelectorRequirement, set map[string]string) bool {
	op, ok := map[corev1.NodeSelectorOperator]selection.Operator{
		corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
		corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
		corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
	}[r.Operator]
	if !ok {
		return false
	}
	req, err := labels.NewRequirement(r.Key, op, r.Values)
	return err == nil && req.Matches(labels.Set(set))
}

// tolerates reports whether one of the tolerations covers a taint.
func tolerates(tolerations []corev1.Toleration, t corev1.Taint) bool {
	return slices.ContainsFunc(tolerations, func(o corev1.Toleration) bool {
		if o.Effect != "" && o.Effect != t.Effect || o.Key != "" && o.Key != t.Key {
			return false
		}
		return o.Operator == corev1.TolerationOpExists || o.Key != "" && o.Value == t.Value
	})
}

// needs is what a pod requests: CPUs in thousandths, all else in whole units.
func needs(p *corev1.Pod) map[corev1.ResourceName]int64 {
	sum := map[corev1.ResourceName]int64{}
	for _, ct := range p.Spec.Containers {
		requests := maps.Clone(ct.Resources.Requests)
		for name, q := range ct.Resources.Limits {
			if _, ok := requests[name]; !ok {
				if requests == nil {
					requests = corev1.ResourceList{}
				}
				requests[name] = q
			}
		}
		for name, q := range requests {
			sum[name] += amount(name, q.Value(), q.MilliValue())
		}
	}
	return sum
}

func amount(name corev1.ResourceName, whole, milli int64) int64 {
	if name == corev1.ResourceCPU {
		return milli
	}
	return whole
}

// take counts what a pod that has not ended holds.
func take(used map[corev1.ResourceName]int64, p *corev1.Pod) {
	if ended(p) {
		return
	}
	for name, n := range needs(p) {
		used[name] += n
	}
}

func free(n *corev1.Node, used map[corev1.ResourceName]int64) int64 {
	q := n.Status.Allocatable[corev1.ResourceMemory]
	return q.Value() - used[corev1.ResourceMemory]
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(cond corev1.PodCondition) bool {
		return cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue
	})
}

// matchesSelector evaluates an object's label selector.
func matchesSelector(s *metav1.LabelSelector, set map[string]string) bool {
	sel, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && sel.Matches(labels.Set(set))
}
