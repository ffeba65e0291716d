package control

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// status says how far a rollout is: pkg/controller/deployment/progress.go.
func (r *rollout) status() {
	d := r.d.DeepCopy()
	was := r.d.Status
	s := appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Conditions: d.Status.Conditions, CollisionCount: was.CollisionCount}
	terminating := int32(0)
	for _, rs := range append(r.old, r.new) {
		if rs == nil {
			continue
		}
		s.Replicas += rs.Status.Replicas
		s.ReadyReplicas += rs.Status.ReadyReplicas
		s.AvailableReplicas += rs.Status.AvailableReplicas
		terminating += or(rs.Status.TerminatingReplicas, 0)
	}
	s.TerminatingReplicas = &terminating
	if r.new != nil {
		s.UpdatedReplicas = r.new.Status.Replicas
	}
	want := or(d.Spec.Replicas, 1)
	all := want
	for _, rs := range r.old {
		all += or(rs.Spec.Replicas, 1)
	}
	s.UnavailableReplicas = max(0, all-s.AvailableReplicas)
	_, down := r.limits(want)
	if s.AvailableReplicas >= want-down {
		set(&s, appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable", "Deployment has minimum availability.")
	} else {
		set(&s, appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
	}
	r.progress(&s, was, want)
	d.Status = s
	r.c.Status(d)
}

func (r *rollout) progress(s *appsv1.DeploymentStatus, was appsv1.DeploymentStatus, want int32) {
	if r.d.Spec.Paused || r.new == nil {
		return
	}
	name := fmt.Sprintf("ReplicaSet %q", r.new.Name)
	complete := s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want
	moved := s.UpdatedReplicas > was.UpdatedReplicas || s.ReadyReplicas > was.ReadyReplicas || s.AvailableReplicas > was.AvailableReplicas ||
		s.Replicas-s.UpdatedReplicas < was.Replicas-was.UpdatedReplicas
	cond := conditionOf(s, appsv1.DeploymentProgressing)
	switch {
	case complete:
		set(s, appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetAvailable", name+" has successfully progressed.")
	case moved:
		set(s, appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated", name+" is progressing.")
		if cond != nil {
			conditionOf(s, appsv1.DeploymentProgressing).LastUpdateTime = now()
		}
	case cond == nil || cond.Reason == "NewReplicaSetAvailable" && was.ObservedGeneration != r.d.Generation:
		set(s, appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetCreated", fmt.Sprintf("Created new replica set %q", r.new.Name))
	case cond.Reason != "NewReplicaSetAvailable" && cond.Reason != "ProgressDeadlineExceeded":
		left := time.Until(cond.LastUpdateTime.Add(time.Duration(or(r.d.Spec.ProgressDeadlineSeconds, 600)) * time.Second))
		if left <= 0 {
			set(s, appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded", name+" has timed out progressing.")
		} else {
			r.c.WakeAfter(left)
		}
	}
}

func conditionOf(s *appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == kind {
			return &s.Conditions[i]
		}
	}
	return nil
}

func set(s *appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string) {
	c := conditionOf(s, kind)
	switch {
	case c == nil:
		s.Conditions = append(s.Conditions, appsv1.DeploymentCondition{Type: kind, Status: status, Reason: reason, Message: message,
			LastUpdateTime: now(), LastTransitionTime: now()})
	case c.Status != status || c.Reason != reason:
		if c.Status != status {
			c.LastTransitionTime = now()
		}
		c.Status, c.Reason, c.Message, c.LastUpdateTime = status, reason, message, now()
	}
}
