// Package schedule is kube-scheduler: which node a pod goes to, and the words for why there is none.
package schedule

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

// Scheduler is that of one cluster.
type Scheduler struct{ control.Store }

// Run finds for each pod without a node the one with the most free memory of those that it fits.
// The pod of a claim that waits for its first consumer has its node chosen, and is bound when the
// volume is there.
func (s Scheduler) Run() {
	used := map[string]map[corev1.ResourceName]int64{}
	var waiting []*corev1.Pod
	for _, p := range control.All[corev1.Pod](s, "pods") {
		switch {
		case p.Spec.NodeName != "":
			if used[p.Spec.NodeName] == nil {
				used[p.Spec.NodeName] = map[corev1.ResourceName]int64{}
			}
			Take(used[p.Spec.NodeName], p)
		case p.DeletionTimestamp == nil && !control.Ended(p) && p.Spec.SchedulerName == corev1.DefaultSchedulerName && len(p.Spec.SchedulingGates) == 0:
			waiting = append(waiting, p)
		}
	}
	slices.SortStableFunc(waiting, func(a, b *corev1.Pod) int { return int(priority(b)) - int(priority(a)) })
	d := s.countDevices()
	for _, p := range waiting {
		s.place(p, used, d)
	}
}

func priority(p *corev1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

// place finds a node for a pod.
func (s Scheduler) place(p *corev1.Pod, used map[string]map[corev1.ResourceName]int64, d devices) {
	nodes := control.All[corev1.Node](s, "nodes")
	late, why := s.claimsReady(p)
	if why != "" {
		s.reportUnschedulable(p, len(nodes), map[string]int{why: len(nodes)})
		return
	}
	reasons := map[string]int{}
	var best *corev1.Node
	most := int64(-1)
	for _, n := range nodes {
		why := misfit(p, n, used[n.Name], d)
		if why == "" {
			why = s.misplacement(p, n)
		}
		if why != "" {
			reasons[why]++
			continue
		}
		if free := Free(n, used[n.Name]); free > most {
			best, most = n, free
		}
	}
	if best == nil {
		s.reportUnschedulable(p, len(nodes), reasons)
		return
	}
	if len(late) > 0 {
		s.chooseFor(late, best.Name)
		return
	}
	if used[best.Name] == nil {
		used[best.Name] = map[corev1.ResourceName]int64{}
	}
	Take(used[best.Name], p)
	s.Bind(s.take(p, best, d), best.Name)
	s.Event(p, corev1.EventTypeNormal, "Scheduled", fmt.Sprintf("Successfully assigned %s/%s to %s", p.Namespace, p.Name, best.Name))
}

// claimsReady returns the claims of a pod that wait for its node, or why it cannot have one.
func (s Scheduler) claimsReady(p *corev1.Pod) (late []*corev1.PersistentVolumeClaim, why string) {
	for _, name := range control.ClaimsOf(p) {
		claim := control.Get[corev1.PersistentVolumeClaim](s, "persistentvolumeclaims", p.Namespace, name)
		if claim == nil {
			return nil, fmt.Sprintf("persistentvolumeclaim %q not found", name)
		}
		switch {
		case claim.DeletionTimestamp != nil:
			return nil, fmt.Sprintf("persistentvolumeclaim %q is being deleted", name)
		case claim.Status.Phase == corev1.ClaimBound:
			continue
		}
		class := s.classNamed(claim.Spec.StorageClassName)
		if class == nil || class.VolumeBindingMode == nil || *class.VolumeBindingMode == storagev1.VolumeBindingImmediate {
			return nil, "pod has unbound immediate PersistentVolumeClaims"
		}
		late = append(late, claim)
	}
	return late, ""
}

func (s Scheduler) classNamed(name *string) *storagev1.StorageClass {
	if name == nil {
		return nil
	}
	return control.Get[storagev1.StorageClass](s, "storageclasses.storage.k8s.io", "", *name)
}

// chooseFor tells a provisioner where a claim's first consumer goes.
func (s Scheduler) chooseFor(claims []*corev1.PersistentVolumeClaim, node string) {
	for _, claim := range claims {
		if claim.Annotations[control.SelectedNode] != "" {
			continue
		}
		out := claim.DeepCopy()
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[control.SelectedNode] = node
		s.Update(out)
	}
}

// misplacement says why a pod may not be where a node is: its volumes are elsewhere, or pods that it
// keeps away from, or that it wants to be with.
func (s Scheduler) misplacement(p *corev1.Pod, n *corev1.Node) string {
	for _, name := range control.ClaimsOf(p) {
		claim := control.Get[corev1.PersistentVolumeClaim](s, "persistentvolumeclaims", p.Namespace, name)
		if claim == nil {
			continue
		}
		if at := claim.Annotations[control.SelectedNode]; at != "" && claim.Status.Phase != corev1.ClaimBound && at != n.Name && control.Get[corev1.Node](s, "nodes", "", at) != nil {
			return "node(s) didn't find available persistent volumes to bind"
		}
		if claim.Status.Phase != corev1.ClaimBound {
			continue
		}
		if pv := control.Get[corev1.PersistentVolume](s, "persistentvolumes", "", claim.Spec.VolumeName); pv != nil && pv.Spec.NodeAffinity != nil {
			if at, err := scheduling.MatchNodeSelectorTerms(n, pv.Spec.NodeAffinity.Required); err != nil || !at {
				return "node(s) had volume node affinity conflict"
			}
		}
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		for _, term := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			if s.near(p, n, term) {
				return "node(s) didn't match pod anti-affinity rules"
			}
		}
	}
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		for _, term := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			if !s.near(p, n, term) && !control.Selects(term.LabelSelector, p.Labels) {
				return "node(s) didn't match pod affinity rules"
			}
		}
	}
	return ""
}

// near reports whether a pod of a term runs in a node's part of the topology.
func (s Scheduler) near(p *corev1.Pod, n *corev1.Node, term corev1.PodAffinityTerm) bool {
	at, has := n.Labels[term.TopologyKey]
	if !has {
		return false
	}
	for _, o := range control.All[corev1.Pod](s, "pods") {
		if o.Spec.NodeName == "" || control.Ended(o) || o.UID == p.UID || !control.Selects(term.LabelSelector, o.Labels) {
			continue
		}
		if o.Namespace != p.Namespace && !slices.Contains(term.Namespaces, o.Namespace) && term.NamespaceSelector == nil {
			continue
		}
		if other := control.Get[corev1.Node](s, "nodes", "", o.Spec.NodeName); other != nil && other.Labels[term.TopologyKey] == at {
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

// reportUnschedulable says of a pod why no node will have it.
func (s Scheduler) reportUnschedulable(p *corev1.Pod, nodes int, reasons map[string]int) {
	counts := map[string]int{}
	full := 0
	for why, n := range reasons {
		if strings.HasPrefix(why, "node(s) had untolerated taint") {
			why = "node(s) had untolerated taint(s)" // v1.36 no longer says which
		}
		if strings.HasPrefix(why, "Insufficient ") || why == noDevices || strings.HasSuffix(why, "affinity rules") {
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
	s.Event(p, corev1.EventTypeWarning, "FailedScheduling", message)
	out := p.DeepCopy()
	status := &out.Status
	cond := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message, ObservedGeneration: p.Generation,
		LastTransitionTime: metav1.NewTime(time.Now().UTC().Truncate(time.Second))}
	for i, was := range status.Conditions {
		if was.Type == cond.Type {
			cond.LastTransitionTime = was.LastTransitionTime
			status.Conditions[i] = cond
			s.Status(out)
			return
		}
	}
	status.Conditions = append(status.Conditions, cond)
	s.Status(out)
}

// Bind puts a pod on a node.
func (s Scheduler) Bind(p *corev1.Pod, node string) {
	out := p.DeepCopy()
	out.Spec.NodeName = node
	s.Update(out)
	out.Status.Phase = corev1.PodPending
	out.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, ObservedGeneration: p.Generation,
		LastTransitionTime: metav1.NewTime(time.Now().UTC().Truncate(time.Second))}}
	s.Status(out)
}
