package kubesim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	resourcehelper "k8s.io/component-helpers/resource"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// schedule assigns nodes to pods, or says why there is none.
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
			if home != nil {
				if at, err := scheduling.MatchNodeSelectorTerms(n, home.Required); err != nil || !at {
					reasons["node(s) had volume node affinity conflict"]++
					continue
				}
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
		if len(claimsOf(p)) > 0 { // the next pod may have to run where its volume is
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
	if c.bare() {
		status.Conditions[0].ObservedGeneration = p.Generation
		status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().UTC().Truncate(time.Second))
	}
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

// misfit says why a pod cannot run on a node, in the scheduler's words.
func misfit(p *corev1.Pod, n *corev1.Node, used map[corev1.ResourceName]int64) string {
	cordon := []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
	if _, kept := repels(cordon, p.Spec.Tolerations); kept && n.Spec.Unschedulable {
		return "node(s) were unschedulable"
	}
	if t, kept := repels(n.Spec.Taints, p.Spec.Tolerations); kept {
		return fmt.Sprintf("node(s) had untolerated taint {%s: %s}", t.Key, t.Value)
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
	ok, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *spec}).Match(n)
	return ok && err == nil
}

// repels returns the first of a node's taints that keeps a pod off it.
func repels(taints []corev1.Taint, tolerations []corev1.Toleration) (corev1.Taint, bool) {
	hard := func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }
	return scheduling.FindMatchingUntoleratedTaint(klog.Logger{}, taints, tolerations, hard, true)
}

// needs is what a pod requests: CPUs in thousandths, everything else in whole units.
func needs(p *corev1.Pod) map[corev1.ResourceName]int64 {
	sum := map[corev1.ResourceName]int64{}
	for name, q := range resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{}) {
		sum[name] = amount(name, q.Value(), q.MilliValue())
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
