package kubesim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"

	"github.com/cps-gpu/homelab/sim/kubesim/internal/control"
	"github.com/cps-gpu/homelab/sim/kubesim/internal/schedule"
)

// schedule assigns nodes to pods, or says why there is none.
func (c *Cluster) schedule(pods podIndex) {
	nodes := c.all("nodes")
	used := map[string]map[corev1.ResourceName]int64{}
	for name, list := range pods.onNode {
		used[name] = map[corev1.ResourceName]int64{}
		for _, e := range list {
			schedule.Take(used[name], typed[corev1.Pod](e))
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
			if why := schedule.Misfit(p, n, used[n.Name]); why != "" {
				reasons[why]++
				continue
			}
			if home != nil {
				if at, err := scheduling.MatchNodeSelectorTerms(n, home.Required); err != nil || !at {
					reasons["node(s) had volume node affinity conflict"]++
					continue
				}
			}
			if free := schedule.Free(n, used[n.Name]); free > most {
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
		schedule.Take(used[best], p)
		c.bind(e, p, best)
		if len(control.ClaimsOf(p)) > 0 { // the next pod may have to run where its volume is
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
