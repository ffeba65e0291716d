package control

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// replicaSets keeps the number of pods of each: pkg/controller/replicaset.
func (c *Controllers) replicaSets(pods podIndex) {
	for _, rs := range All[appsv1.ReplicaSet](c, "replicasets.apps") {
		c.replicaSet(rs, pods.byOwner[rs.UID])
	}
}

func (c *Controllers) replicaSet(rs *appsv1.ReplicaSet, pods []*corev1.Pod) {
	want, terminating := int(or(rs.Spec.Replicas, 1)), int32(0)
	var have []*corev1.Pod
	for _, p := range pods {
		switch {
		case active(p):
			have = append(have, p)
		case p.DeletionTimestamp != nil && !Ended(p):
			terminating++
		}
	}
	if rs.DeletionTimestamp == nil {
		for range want - len(have) {
			p := newPod(rs, "apps/v1", "ReplicaSet", rs.Name+"-"+c.Suffix(), &rs.Spec.Template)
			p.GenerateName = rs.Name + "-"
			if !c.create(rs, p) {
				break
			}
			have = append(have, p)
		}
		if extra := len(have) - want; extra > 0 {
			slices.SortFunc(have, firstToGo)
			for _, p := range have[:extra] {
				c.delete(rs, p)
			}
			have = have[extra:]
			terminating += int32(extra) //nolint:gosec // a count of pods
		}
	}
	out := rs.DeepCopy()
	s := appsv1.ReplicaSetStatus{Conditions: rs.Status.Conditions, ObservedGeneration: rs.Generation, TerminatingReplicas: &terminating}
	for _, p := range have {
		s.Replicas++
		s.FullyLabeledReplicas++
		if Ready(p) {
			s.ReadyReplicas++
		}
		if c.available(p, rs.Spec.MinReadySeconds) {
			s.AvailableReplicas++
		}
	}
	out.Status = s
	c.Status(out)
}
