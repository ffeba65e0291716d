package control

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// orphanTime is how long pods of a node that is gone are kept (quarantineTime of pkg/controller/podgc).
const orphanTime = 40 * time.Second

// nodes taints nodes by what their kubelets said, evicts pods that do not tolerate it, and removes
// those of nodes that are gone: pkg/controller/nodelifecycle, tainteviction, podgc and nodeipam.
func (c *Controllers) nodes(pods podIndex) {
	if c.ready == nil {
		c.ready, c.absent = map[string]bool{}, map[string]time.Time{}
	}
	there := map[string]bool{}
	ranges := map[string]bool{}
	list := All[corev1.Node](c, "nodes")
	for _, n := range list {
		for _, p := range n.Spec.PodCIDRs {
			ranges[p] = true
		}
	}
	for _, n := range list {
		there[n.Name] = true
		is := nodeCondition(n) == corev1.ConditionTrue
		was, known := c.ready[n.Name]
		if !is && (was || !known) { // also what it finds when it starts
			c.markNotReady(pods.onNode[n.Name])
		}
		if !is && was {
			c.Event(n, corev1.EventTypeNormal, "NodeNotReady", fmt.Sprintf("Node %s status is now: NodeNotReady", n.Name))
		}
		c.ready[n.Name] = is
		out := n.DeepCopy()
		out.Spec.Taints = wantedTaints(n)
		if out.Spec.PodCIDR == "" {
			c.giveRanges(out, ranges)
		}
		if !equality.Semantic.DeepEqual(n.Spec, out.Spec) {
			c.Update(out)
		}
		c.evict(out, pods.onNode[n.Name])
	}
	c.orphans(there, pods)
}

func nodeCondition(n *corev1.Node) corev1.ConditionStatus {
	for _, cond := range n.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			return cond.Status
		}
	}
	return ""
}

// wantedTaints are the taints that a node should have: its own, and those of its condition.
func wantedTaints(n *corev1.Node) []corev1.Taint {
	want := map[string][]corev1.TaintEffect{}
	both := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute}
	switch nodeCondition(n) {
	case corev1.ConditionFalse:
		want[corev1.TaintNodeNotReady] = both
	case corev1.ConditionUnknown:
		want[corev1.TaintNodeUnreachable] = both
	}
	if n.Spec.Unschedulable {
		want[corev1.TaintNodeUnschedulable] = both[:1]
	}
	var out []corev1.Taint
	for _, t := range n.Spec.Taints {
		ours := slices.Contains([]string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable}, t.Key)
		if ours && !slices.Contains(want[t.Key], t.Effect) {
			continue
		}
		if ours {
			want[t.Key] = slices.DeleteFunc(slices.Clone(want[t.Key]), func(e corev1.TaintEffect) bool { return e == t.Effect })
		}
		out = append(out, t)
	}
	at := now()
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable} {
		for _, effect := range want[key] {
			out = append(out, corev1.Taint{Key: key, Effect: effect, TimeAdded: &at})
		}
	}
	return out
}

// markNotReady says of the pods of a silent node that nobody knows of them.
func (c *Controllers) markNotReady(pods []*corev1.Pod) {
	for _, p := range pods {
		if !Ready(p) {
			continue
		}
		out := p.DeepCopy()
		cond := readyCondition(out)
		cond.Status, cond.LastTransitionTime = corev1.ConditionFalse, now()
		c.Status(out)
		c.Event(p, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
	}
}

// evict deletes the pods that do not tolerate a node's NoExecute taints, or no longer.
func (c *Controllers) evict(n *corev1.Node, pods []*corev1.Pod) {
	for _, t := range n.Spec.Taints {
		if t.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		for _, p := range pods {
			if p.DeletionTimestamp != nil || Ended(p) {
				continue
			}
			left, forever := tolerates(p, &t)
			if forever {
				continue
			}
			if left > 0 {
				c.WakeAfter(left)
				continue
			}
			c.Event(p, corev1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod "+p.Namespace+"/"+p.Name)
			c.Delete(p, nil)
		}
	}
}

// tolerates reports for how much longer a pod tolerates a taint.
func tolerates(p *corev1.Pod, t *corev1.Taint) (left time.Duration, forever bool) {
	shortest := time.Duration(-1)
	for _, tol := range p.Spec.Tolerations {
		match := (tol.Effect == "" || tol.Effect == t.Effect) && (tol.Key == t.Key || tol.Key == "" && tol.Operator == corev1.TolerationOpExists) &&
			(tol.Operator == corev1.TolerationOpExists || tol.Value == t.Value)
		switch {
		case !match:
		case tol.TolerationSeconds == nil:
			if shortest < 0 {
				forever = true
			}
		default:
			if d := time.Duration(*tol.TolerationSeconds) * time.Second; shortest < 0 || d < shortest {
				shortest, forever = d, false
			}
		}
	}
	if forever || shortest < 0 {
		return 0, forever
	}
	since := time.Now()
	if t.TimeAdded != nil {
		since = t.TimeAdded.Time
	}
	return time.Until(since.Add(shortest)), false
}

// orphans removes pods whose node has been gone for a while.
func (c *Controllers) orphans(there map[string]bool, pods podIndex) {
	for node := range c.absent {
		if there[node] || len(pods.onNode[node]) == 0 {
			delete(c.absent, node)
		}
	}
	for node, list := range pods.onNode {
		if there[node] {
			continue
		}
		if _, known := c.absent[node]; !known {
			c.absent[node] = time.Now()
		}
		if left := time.Until(c.absent[node].Add(orphanTime)); left > 0 {
			c.WakeAfter(left)
			continue
		}
		zero := int64(0)
		for _, p := range list {
			c.Delete(p, &zero)
		}
	}
}

// giveRanges gives a node the first part that no node has of each network of pods: a /24, of IPv6 a /64.
func (c *Controllers) giveRanges(n *corev1.Node, taken map[string]bool) {
	for _, all := range c.Pods {
		size := 24
		if all.Addr().Is6() {
			size = 64
		}
		at := netip.PrefixFrom(all.Masked().Addr(), size)
		for taken[at.String()] {
			b := at.Addr().AsSlice()
			for i := size/8 - 1; i > 0; i-- {
				if b[i]++; b[i] != 0 {
					break
				}
			}
			next, _ := netip.AddrFromSlice(b)
			at = netip.PrefixFrom(next, size)
		}
		if all.Bits() > size || !all.Contains(at.Addr()) {
			return
		}
		taken[at.String()] = true
		n.Spec.PodCIDRs = append(n.Spec.PodCIDRs, at.String())
		n.Spec.PodCIDR = n.Spec.PodCIDRs[0]
	}
}
