package control

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	hashLabel   = appsv1.DefaultDeploymentUniqueLabelKey
	revision    = "deployment.kubernetes.io/revision"
	desired     = "deployment.kubernetes.io/desired-replicas"
	atMost      = "deployment.kubernetes.io/max-replicas"
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

// rollout is one look at a Deployment: pkg/controller/deployment.
type rollout struct {
	c   *Controllers
	d   *appsv1.Deployment
	new *appsv1.ReplicaSet // nil: none has the template of now
	old []*appsv1.ReplicaSet
}

func (c *Controllers) deployments() {
	sets := All[appsv1.ReplicaSet](c, "replicasets.apps")
	for _, d := range All[appsv1.Deployment](c, "deployments.apps") {
		r := &rollout{c: c, d: d}
		for _, rs := range sets {
			if o := metav1.GetControllerOfNoCopy(rs); o == nil || o.UID != d.UID {
				continue
			}
			if r.new == nil && sameTemplate(&rs.Spec.Template, &d.Spec.Template) {
				r.new = rs
			} else {
				r.old = append(r.old, rs)
			}
		}
		if d.DeletionTimestamp == nil {
			r.step()
		}
		r.status()
	}
}

func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	delete(a.Labels, hashLabel)
	delete(b.Labels, hashLabel)
	return equality.Semantic.DeepEqual(a, b)
}

func (r *rollout) step() {
	want := or(r.d.Spec.Replicas, 1)
	switch {
	case r.d.Spec.Paused:
		if r.new != nil && len(r.active()) == 0 {
			r.new = r.scale(r.new, want)
		}
	case r.d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		left := int32(0)
		for i, rs := range r.old {
			r.old[i] = r.scale(rs, 0)
			left += rs.Status.Replicas
		}
		if left == 0 {
			r.renew(want)
		}
	default:
		r.roll(want)
	}
	r.prune()
}

// active are the older sets that still have pods.
func (r *rollout) active() []*appsv1.ReplicaSet {
	return slices.DeleteFunc(slices.Clone(r.old), func(rs *appsv1.ReplicaSet) bool { return or(rs.Spec.Replicas, 1) == 0 })
}

func (r *rollout) limits(want int32) (surge, unavailable int32) {
	u := r.d.Spec.Strategy.RollingUpdate
	if u == nil {
		return 1, 0
	}
	s, _ := intstr.GetScaledValueFromIntOrPercent(u.MaxSurge, int(want), true)
	n, _ := intstr.GetScaledValueFromIntOrPercent(u.MaxUnavailable, int(want), false)
	if s == 0 && n == 0 {
		n = 1
	}
	return int32(s), int32(min(n, int(want))) //nolint:gosec // counts of pods
}

// roll replaces pods a few at a time.
func (r *rollout) roll(want int32) {
	surge, down := r.limits(want)
	total := int32(0)
	for _, rs := range r.old {
		total += or(rs.Spec.Replicas, 1)
	}
	have := int32(0)
	if r.new != nil {
		have = or(r.new.Spec.Replicas, 1)
	}
	next := min(want, have+max(0, want+surge-total-have))
	if have > want {
		next = want
	}
	r.renew(next)
	// What may go: whatever is over the pods that must be available.
	available := int32(0)
	if r.new != nil {
		available = r.new.Status.AvailableReplicas
	}
	for _, rs := range r.old {
		available += min(rs.Status.AvailableReplicas, or(rs.Spec.Replicas, 1))
	}
	least := want - down
	slices.SortFunc(r.old, func(a, b *appsv1.ReplicaSet) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for i, rs := range r.old { // those that are not available cost nothing
		if broken := or(rs.Spec.Replicas, 1) - rs.Status.AvailableReplicas; broken > 0 {
			budget := total + next - least - max(0, next-newAvailable(r.new))
			r.old[i] = r.scale(rs, or(rs.Spec.Replicas, 1)-max(0, min(broken, budget)))
			total -= max(0, min(broken, budget))
		}
	}
	for i, rs := range r.old {
		if spare := min(available-least, or(r.old[i].Spec.Replicas, 1)); spare > 0 && rs != nil {
			r.old[i] = r.scale(r.old[i], or(r.old[i].Spec.Replicas, 1)-spare)
			available -= spare
		}
	}
}

func newAvailable(rs *appsv1.ReplicaSet) int32 {
	if rs == nil {
		return 0
	}
	return rs.Status.AvailableReplicas
}

// renew makes the set of the template of now, or scales it.
func (r *rollout) renew(replicas int32) {
	highest := 0
	for _, rs := range r.old {
		n, _ := strconv.Atoi(rs.Annotations[revision])
		highest = max(highest, n)
	}
	if r.new == nil {
		hash := hashOf(&r.d.Spec.Template)
		rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: r.d.Name + "-" + hash, Namespace: r.d.Namespace,
			OwnerReferences: controlledBy(r.d, "apps/v1", "Deployment")}}
		zero := int32(0)
		rs.Spec = appsv1.ReplicaSetSpec{Replicas: &zero, MinReadySeconds: r.d.Spec.MinReadySeconds,
			Selector: r.d.Spec.Selector.DeepCopy(), Template: *r.d.Spec.Template.DeepCopy()}
		if rs.Spec.Template.Labels == nil {
			rs.Spec.Template.Labels = map[string]string{}
		}
		rs.Spec.Template.Labels[hashLabel] = hash
		if rs.Spec.Selector.MatchLabels == nil {
			rs.Spec.Selector.MatchLabels = map[string]string{}
		}
		rs.Spec.Selector.MatchLabels[hashLabel] = hash
		rs.Labels = maps.Clone(rs.Spec.Template.Labels)
		rs.Annotations = r.annotations(highest + 1)
		rs.Spec.Replicas = &replicas
		if err := r.c.Create(rs); err != nil {
			r.c.Event(r.d, corev1.EventTypeWarning, "FailedCreate", fmt.Sprintf("Failed to create new replica set %q: %v", rs.Name, err))
			return
		}
		r.c.Event(r.d, corev1.EventTypeNormal, "ScalingReplicaSet", fmt.Sprintf("Scaled up replica set %s from 0 to %d", rs.Name, replicas))
		r.new = rs
	} else {
		if n, _ := strconv.Atoi(r.new.Annotations[revision]); n <= highest { // back to an earlier one
			rs := r.new.DeepCopy()
			rs.Annotations[revision] = strconv.Itoa(highest + 1)
			r.c.Update(rs)
			r.new = rs
		}
		r.new = r.scale(r.new, replicas)
	}
	if at := r.new.Annotations[revision]; r.d.Annotations[revision] != at {
		d := r.d.DeepCopy()
		if d.Annotations == nil {
			d.Annotations = map[string]string{}
		}
		d.Annotations[revision] = at
		r.c.Update(d)
		r.d = d
	}
}

// annotations are those of a set: the Deployment's, and what scaling needs.
func (r *rollout) annotations(number int) map[string]string {
	out := maps.Clone(r.d.Annotations)
	if out == nil {
		out = map[string]string{}
	}
	delete(out, lastApplied)
	want := or(r.d.Spec.Replicas, 1)
	surge, _ := r.limits(want)
	out[revision], out[desired], out[atMost] = strconv.Itoa(number), fmt.Sprint(want), fmt.Sprint(want+surge)
	return out
}

func (r *rollout) scale(rs *appsv1.ReplicaSet, to int32) *appsv1.ReplicaSet {
	from := or(rs.Spec.Replicas, 1)
	number, _ := strconv.Atoi(rs.Annotations[revision])
	if from == to {
		return rs
	}
	out := rs.DeepCopy()
	out.Spec.Replicas = &to
	out.Annotations = r.annotations(number)
	r.c.Update(out)
	verb := "up"
	if to < from {
		verb = "down"
	}
	r.c.Event(r.d, corev1.EventTypeNormal, "ScalingReplicaSet", fmt.Sprintf("Scaled %s replica set %s from %d to %d", verb, rs.Name, from, to))
	return out
}

// prune deletes the oldest sets without pods.
func (r *rollout) prune() {
	var empty []*appsv1.ReplicaSet
	for _, rs := range r.old {
		if or(rs.Spec.Replicas, 1) == 0 && rs.Status.Replicas == 0 && rs.DeletionTimestamp == nil {
			empty = append(empty, rs)
		}
	}
	number := func(rs *appsv1.ReplicaSet) int { n, _ := strconv.Atoi(rs.Annotations[revision]); return n }
	slices.SortFunc(empty, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(number(a), number(b)) })
	for range len(empty) - int(or(r.d.Spec.RevisionHistoryLimit, 10)) {
		r.c.Delete(empty[0], nil)
		empty = empty[1:]
	}
}
