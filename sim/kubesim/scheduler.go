package kubesim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"

	"github.com/cps-gpu/homelab/sim/kubesim/internal/control"
)

const selectedNode = "volume.kubernetes.io/selected-node"

// scheduleBare is kube-scheduler: for each pod without a node, the one with the most free memory
// of those that it fits. The pod of a claim that waits for its first consumer has its node chosen,
// and is bound when the volume is there.
func (c *Cluster) scheduleBare() {
	pods := c.index()
	used := map[string]map[corev1.ResourceName]int64{}
	for name, list := range pods.onNode {
		used[name] = map[corev1.ResourceName]int64{}
		for _, e := range list {
			take(used[name], typed[corev1.Pod](e))
		}
	}
	var waiting []*entry
	for _, e := range c.all("pods") {
		p := typed[corev1.Pod](e)
		if p.Spec.NodeName == "" && p.DeletionTimestamp == nil && !ended(p) && p.Spec.SchedulerName == corev1.DefaultSchedulerName && len(p.Spec.SchedulingGates) == 0 {
			waiting = append(waiting, e)
		}
	}
	slices.SortStableFunc(waiting, func(a, b *entry) int {
		return int(priority(typed[corev1.Pod](b))) - int(priority(typed[corev1.Pod](a)))
	})
	for _, e := range waiting {
		c.place(e, typed[corev1.Pod](e), used)
	}
}

func priority(p *corev1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

// place finds a node for a pod.
func (c *Cluster) place(e *entry, p *corev1.Pod, used map[string]map[corev1.ResourceName]int64) {
	nodes := c.all("nodes")
	late, why := c.claimsReady(p)
	if why != "" {
		c.unplaced(e, p, len(nodes), map[string]int{why: len(nodes)})
		return
	}
	reasons := map[string]int{}
	best, most := "", int64(-1)
	for _, ne := range nodes {
		n := typed[corev1.Node](ne)
		why := misfit(p, n, used[n.Name])
		if why == "" {
			why = c.misplaced(p, n)
		}
		if why != "" {
			reasons[why]++
			continue
		}
		if free := free(n, used[n.Name]); free > most {
			best, most = n.Name, free
		}
	}
	if best == "" {
		c.unplaced(e, p, len(nodes), reasons)
		return
	}
	if len(late) > 0 {
		c.chooseFor(late, best)
		return
	}
	if used[best] == nil {
		used[best] = map[corev1.ResourceName]int64{}
	}
	take(used[best], p)
	c.bind(e, p, best)
	c.note(e, corev1.DefaultSchedulerName, corev1.EventTypeNormal, "Scheduled", fmt.Sprintf("Successfully assigned %s/%s to %s", p.Namespace, p.Name, best))
}

// claimsReady returns the claims of a pod that wait for its node, or why it cannot have one.
func (c *Cluster) claimsReady(p *corev1.Pod) (late []*entry, why string) {
	for _, name := range control.ClaimsOf(p) {
		e := c.get(mustKind("persistentvolumeclaims"), p.Namespace, name)
		if e == nil {
			return nil, fmt.Sprintf("persistentvolumeclaim %q not found", name)
		}
		claim := typed[corev1.PersistentVolumeClaim](e)
		switch {
		case claim.DeletionTimestamp != nil:
			return nil, fmt.Sprintf("persistentvolumeclaim %q is being deleted", name)
		case claim.Status.Phase == corev1.ClaimBound:
			continue
		}
		class := c.classNamed(claim.Spec.StorageClassName)
		if class == nil || class.VolumeBindingMode == nil || *class.VolumeBindingMode == storagev1.VolumeBindingImmediate {
			return nil, "pod has unbound immediate PersistentVolumeClaims"
		}
		late = append(late, e)
	}
	return late, ""
}

func (c *Cluster) classNamed(name *string) *storagev1.StorageClass {
	if name == nil {
		return nil
	}
	if e := c.get(mustKind("storageclasses"), "", *name); e != nil {
		return typed[storagev1.StorageClass](e)
	}
	return nil
}

// chooseFor tells a provisioner where a claim's first consumer goes.
func (c *Cluster) chooseFor(claims []*entry, node string) {
	for _, e := range claims {
		claim := typed[corev1.PersistentVolumeClaim](e)
		if claim.Annotations[selectedNode] != "" {
			continue
		}
		out := claim.DeepCopy()
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[selectedNode] = node
		controllerStore{c}.Update(out)
	}
}

// misplaced says why a pod may not be where a node is: its volumes are elsewhere, or pods that it
// keeps away from, or that it wants to be with.
func (c *Cluster) misplaced(p *corev1.Pod, n *corev1.Node) string {
	for _, name := range control.ClaimsOf(p) {
		e := c.get(mustKind("persistentvolumeclaims"), p.Namespace, name)
		if e == nil {
			continue
		}
		claim := typed[corev1.PersistentVolumeClaim](e)
		if at := claim.Annotations[selectedNode]; at != "" && claim.Status.Phase != corev1.ClaimBound && at != n.Name && c.get(mustKind("nodes"), "", at) != nil {
			return "node(s) didn't find available persistent volumes to bind"
		}
		if pv := c.volumeOf(p.Namespace, name); pv != nil && pv.Spec.NodeAffinity != nil {
			if at, err := scheduling.MatchNodeSelectorTerms(n, pv.Spec.NodeAffinity.Required); err != nil || !at {
				return "node(s) had volume node affinity conflict"
			}
		}
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		for _, term := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			if c.near(p, n, term) {
				return "node(s) didn't match pod anti-affinity rules"
			}
		}
	}
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		for _, term := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			if !c.near(p, n, term) && !matchesSelector(term.LabelSelector, p.Labels) {
				return "node(s) didn't match pod affinity rules"
			}
		}
	}
	return ""
}

// near reports whether a pod of a term runs in a node's part of the topology.
func (c *Cluster) near(p *corev1.Pod, n *corev1.Node, term corev1.PodAffinityTerm) bool {
	at, has := n.Labels[term.TopologyKey]
	if !has {
		return false
	}
	for _, e := range c.all("pods") {
		o := typed[corev1.Pod](e)
		if o.Spec.NodeName == "" || ended(o) || o.UID == p.UID || !matchesSelector(term.LabelSelector, o.Labels) {
			continue
		}
		if o.Namespace != p.Namespace && !slices.Contains(term.Namespaces, o.Namespace) && term.NamespaceSelector == nil {
			continue
		}
		if ne := c.get(mustKind("nodes"), "", o.Spec.NodeName); ne != nil && typed[corev1.Node](ne).Labels[term.TopologyKey] == at {
			return true
		}
	}
	return false
}

// helpless says why it would not help to end other pods.
func helpless(full, other int) string {
	var parts []string
	if full > 0 {
		parts = append(parts, fmt.Sprintf("%d No preemption victims found for incoming pod", full))
	}
	if other > 0 {
		parts = append(parts, fmt.Sprintf("%d Preemption is not helpful for scheduling", other))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// unplaced says of a pod why no node will have it.
func (c *Cluster) unplaced(e *entry, p *corev1.Pod, nodes int, reasons map[string]int) {
	counts := map[string]int{}
	full := 0
	for why, n := range reasons {
		if strings.HasPrefix(why, "node(s) had untolerated taint") {
			why = "node(s) had untolerated taint(s)" // v1.36 no longer says which
		}
		if strings.HasPrefix(why, "Insufficient ") || strings.HasSuffix(why, "affinity rules") {
			full += n
		}
		counts[why] += n
	}
	parts := make([]string, 0, len(counts))
	for why, n := range counts {
		if n == nodes && (strings.HasPrefix(why, "persistentvolumeclaim ") || strings.HasPrefix(why, "pod has unbound")) {
			parts = append(parts, why)
		} else {
			parts = append(parts, fmt.Sprintf("%d %s", n, why))
		}
	}
	slices.Sort(parts)
	message := fmt.Sprintf("0/%d nodes are available: %s. no new claims to deallocate, preemption: 0/%d nodes are available: %s.",
		nodes, strings.Join(parts, ", "), nodes, helpless(full, nodes-full))
	if nodes == 0 {
		message = "no nodes available to schedule pods"
	}
	c.note(e, corev1.DefaultSchedulerName, corev1.EventTypeWarning, "FailedScheduling", message)
	status := p.Status.DeepCopy()
	cond := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message, ObservedGeneration: p.Generation,
		LastTransitionTime: metav1.NewTime(time.Now().UTC().Truncate(time.Second))}
	for i, was := range status.Conditions {
		if was.Type == cond.Type {
			cond.LastTransitionTime = was.LastTransitionTime
			status.Conditions[i] = cond
			c.putStatus(e, status)
			return
		}
	}
	status.Conditions = append(status.Conditions, cond)
	c.putStatus(e, status)
}
