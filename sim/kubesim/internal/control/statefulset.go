package control

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (c *Controllers) statefulSets(pods podIndex) {
	for _, s := range All[appsv1.StatefulSet](c, "statefulsets.apps") {
		c.statefulSet(s, pods.byOwner[s.UID])
	}
}

// statefulSet keeps pods with names, one after the other: pkg/controller/statefulset.
func (c *Controllers) statefulSet(s *appsv1.StatefulSet, pods []*corev1.Pod) {
	update := s.Name + "-" + hashOf(&s.Spec.Template)
	by := map[string]*corev1.Pod{}
	for _, p := range pods {
		by[p.Name] = p
	}
	if s.DeletionTimestamp == nil {
		c.stepStatefulSet(s, update, by)
	}
	out := s.DeepCopy()
	none := int32(0)
	st := appsv1.StatefulSetStatus{ObservedGeneration: s.Generation, UpdateRevision: update, CurrentRevision: s.Status.CurrentRevision, CollisionCount: &none}
	if st.CurrentRevision == "" {
		st.CurrentRevision = update
	}
	for _, p := range by {
		if !active(p) {
			continue
		}
		st.Replicas++
		if p.Labels[appsv1.ControllerRevisionHashLabelKey] == update {
			st.UpdatedReplicas++
		}
		if p.Labels[appsv1.ControllerRevisionHashLabelKey] == st.CurrentRevision {
			st.CurrentReplicas++
		}
		if Ready(p) {
			st.ReadyReplicas++
		}
		if c.available(p, s.Spec.MinReadySeconds) {
			st.AvailableReplicas++
		}
	}
	if st.UpdatedReplicas == or(s.Spec.Replicas, 1) && st.UpdatedReplicas == st.Replicas && st.ReadyReplicas == st.Replicas {
		st.CurrentRevision, st.CurrentReplicas = update, st.UpdatedReplicas
	}
	out.Status = st
	c.Status(out)
}

func (c *Controllers) stepStatefulSet(s *appsv1.StatefulSet, update string, by map[string]*corev1.Pod) {
	first := int32(0)
	if s.Spec.Ordinals != nil {
		first = s.Spec.Ordinals.Start
	}
	want := or(s.Spec.Replicas, 1)
	ordered := s.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
	name := func(i int32) string { return fmt.Sprintf("%s-%d", s.Name, i) }
	wanted := map[string]bool{}
	for i := first; i < first+want; i++ {
		p := by[name(i)]
		wanted[name(i)] = true
		switch {
		case p == nil:
			p = c.ordinal(s, i, update)
			if err := c.Create(p); err != nil {
				c.Event(s, corev1.EventTypeWarning, "FailedCreate", fmt.Sprintf("Create Pod %s in StatefulSet %s failed error: %v", p.Name, s.Name, err))
				return
			}
			c.Event(s, corev1.EventTypeNormal, "SuccessfulCreate", fmt.Sprintf("Create Pod %s in StatefulSet %s successful", p.Name, s.Name))
			by[p.Name] = p
		case Ended(p) && p.DeletionTimestamp == nil:
			c.endOrdinal(s, p)
		}
		if ordered && (!active(p) || !c.available(p, s.Spec.MinReadySeconds)) {
			return
		}
	}
	var extra []*corev1.Pod
	for n, p := range by {
		if !wanted[n] {
			extra = append(extra, p)
		}
	}
	slices.SortFunc(extra, func(a, b *corev1.Pod) int { return number(b) - number(a) })
	for _, p := range extra {
		if p.DeletionTimestamp == nil {
			c.endOrdinal(s, p)
		}
		if ordered {
			return
		}
	}
	if s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return
	}
	from := int32(0)
	if u := s.Spec.UpdateStrategy.RollingUpdate; u != nil {
		from = or(u.Partition, 0)
	}
	for i := first + want - 1; i >= max(first, from); i-- {
		p := by[name(i)]
		if p.Labels[appsv1.ControllerRevisionHashLabelKey] != update && p.DeletionTimestamp == nil {
			c.endOrdinal(s, p)
			return
		}
		if !active(p) || !c.available(p, s.Spec.MinReadySeconds) {
			return
		}
	}
}

func (c *Controllers) endOrdinal(s *appsv1.StatefulSet, p *corev1.Pod) {
	c.Delete(p, nil)
	c.Event(s, corev1.EventTypeNormal, "SuccessfulDelete", fmt.Sprintf("Delete Pod %s in StatefulSet %s successful", p.Name, s.Name))
}

func number(p *corev1.Pod) int {
	n, _ := strconv.Atoi(p.Labels[appsv1.PodIndexLabel])
	return n
}

// ordinal is the pod of a number, whose claims are made with it and outlive it.
func (c *Controllers) ordinal(s *appsv1.StatefulSet, i int32, update string) *corev1.Pod {
	p := newPod(s, "apps/v1", "StatefulSet", fmt.Sprintf("%s-%d", s.Name, i), &s.Spec.Template)
	p.GenerateName = s.Name + "-"
	p.Labels[appsv1.StatefulSetPodNameLabel], p.Labels[appsv1.PodIndexLabel] = p.Name, fmt.Sprint(i)
	p.Labels[appsv1.ControllerRevisionHashLabelKey] = update
	p.Spec.Hostname, p.Spec.Subdomain = p.Name, s.Spec.ServiceName
	for n := range s.Spec.VolumeClaimTemplates {
		t := s.Spec.VolumeClaimTemplates[n].DeepCopy()
		claim := t.Name + "-" + p.Name
		p.Spec.Volumes = slices.DeleteFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == t.Name })
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
		if Get[corev1.PersistentVolumeClaim](c, "persistentvolumeclaims", s.Namespace, claim) != nil {
			continue
		}
		labels := maps.Clone(t.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		if s.Spec.Selector != nil {
			maps.Copy(labels, s.Spec.Selector.MatchLabels)
		}
		made := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim, Namespace: s.Namespace, Labels: labels, Annotations: t.Annotations}, Spec: t.Spec}
		if err := c.Create(made); err != nil {
			c.Event(s, corev1.EventTypeWarning, "FailedCreate", fmt.Sprintf("Create Claim %s for Pod %s in StatefulSet %s failed error: %v", claim, p.Name, s.Name, err))
			continue
		}
		c.Event(s, corev1.EventTypeNormal, "SuccessfulCreate", fmt.Sprintf("Create Claim %s Pod %s in StatefulSet %s success", claim, p.Name, s.Name))
	}
	return p
}
