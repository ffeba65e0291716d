package kueue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

// podsOf is what an object runs, and how often.
func podsOf(o metav1.Object) (*corev1.PodSpec, int64) {
	switch o := o.(type) {
	case *corev1.Pod:
		return &o.Spec, 1
	case *batchv1.Job:
		if o.Spec.Parallelism != nil {
			return &o.Spec.Template.Spec, int64(*o.Spec.Parallelism)
		}
		return &o.Spec.Template.Spec, 1
	}
	return &corev1.PodSpec{}, 0
}

// sayQueues writes what the queues can do, and lets go those that nobody uses.
func (m *Manager) sayQueues(ctx context.Context, w *world) error {
	w.waiting() // counts them
	for _, q := range w.queues {
		held := false
		for _, l := range w.loads {
			held = held || l.queue == q.object.GetName() && !l.done
		}
		finalizers := slices.DeleteFunc(q.object.GetFinalizers(), func(f string) bool { return f == inUse })
		if q.object.GetDeletionTimestamp() == nil || held {
			finalizers = append(finalizers, inUse)
		}
		if !slices.Equal(finalizers, q.object.GetFinalizers()) {
			if err := m.patch(ctx, "clusterqueues", q.object, "", map[string]any{"metadata": map[string]any{"finalizers": finalizers, "resourceVersion": q.object.GetResourceVersion()}}); err != nil {
				return err
			}
		}
		if err := m.say(ctx, "clusterqueues", q.object, q.why, map[string]any{"pendingWorkloads": q.pending}); err != nil {
			return err
		}
		q.pending = 0
	}
	for _, d := range w.doors {
		why := ""
		if q := w.queues[d.queue]; q == nil {
			why = "Can't submit new workloads to clusterQueue"
		} else if q.why != "" {
			why = "Can't submit new workloads to clusterQueue"
		}
		if err := m.say(ctx, "localqueues", d.object, why, nil); err != nil {
			return err
		}
	}
	return nil
}

// say sets the condition Active.
func (m *Manager) say(ctx context.Context, plural string, u *unstructured.Unstructured, why string, more map[string]any) error {
	status, reason, message := "True", "Ready", "Can admit new workloads"
	if why != "" {
		status, reason, message = "False", "FlavorNotFound", why
	}
	if plural == "localqueues" && why == "" {
		message = "Can submit new workloads to localQueue"
	} else if plural == "localqueues" {
		reason = "ClusterQueueIsInactive"
	}
	want := map[string]any{"conditions": object.Conditions(u, true, "Active", status, reason, message)}
	for k, v := range more {
		want[k] = v
	}
	return m.status(ctx, plural, u, want)
}

func (m *Manager) status(ctx context.Context, plural string, u *unstructured.Unstructured, want map[string]any) error {
	have, _, _ := unstructured.NestedMap(u.Object, "status")
	if object.Within(have, want) {
		return nil
	}
	return m.patch(ctx, plural, u, "status", map[string]any{"status": want})
}

func (m *Manager) patch(ctx context.Context, plural string, u *unstructured.Unstructured, sub string, change map[string]any) error {
	b, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("%s %s: %w", plural, key(u), err)
	}
	var subs []string
	if sub != "" {
		subs = []string{sub}
	}
	_, err = m.Dynamic.Resource(kindOf(plural)).Namespace(u.GetNamespace()).Patch(ctx, u.GetName(), types.MergePatchType, b, metav1.PatchOptions{FieldManager: name}, subs...)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s %s: %w", plural, key(u), err)
	}
	return nil
}

// enqueue makes a Workload for each pod and Job that waits, and ends those that are done.
func (m *Manager) enqueue(ctx context.Context, w *world) error {
	for i := range w.pods {
		p := &w.pods[i]
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil
		if ended && slices.Contains(p.Finalizers, podFinalizer) {
			rest := slices.DeleteFunc(slices.Clone(p.Finalizers), func(f string) bool { return f == podFinalizer })
			if err := m.patchPod(ctx, p, map[string]any{"metadata": map[string]any{"finalizers": rest}}); err != nil {
				return err
			}
		}
		if err := m.follow(ctx, w, p, "Pod", "v1", ended); err != nil {
			return err
		}
	}
	for i := range w.jobs {
		j := &w.jobs[i]
		ended := j.DeletionTimestamp != nil || slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
			return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
		})
		if err := m.follow(ctx, w, j, "Job", "batch/v1", ended); err != nil {
			return err
		}
	}
	for _, l := range w.loads { // whose object is gone
		owners := l.object.GetOwnerReferences()
		if l.object.GetDeletionTimestamp() != nil || len(owners) > 0 && w.objects[string(owners[0].UID)] == nil {
			if err := m.release(ctx, l); err != nil {
				return err
			}
		}
	}
	return nil
}

func loadName(kind string, o metav1.Object) string {
	if kind == "Pod" {
		return "pod-" + o.GetName() + "-" + string(o.GetUID())[:5]
	}
	return "job-" + o.GetName() + "-" + string(o.GetUID())[:5]
}

// follow gives an object its Workload, and finishes that when the object has ended.
func (m *Manager) follow(ctx context.Context, w *world, o metav1.Object, kind, version string, ended bool) error {
	l := w.loads[o.GetNamespace()+"/"+loadName(kind, o)]
	switch {
	case ended && l != nil && !l.done:
		l.done = true
		if err := m.status(ctx, "workloads", l.object, map[string]any{"conditions": object.Conditions(l.object, true, "Finished", "True", "Succeeded", "It has ended")}); err != nil {
			return err
		}
		return m.release(ctx, l)
	case ended || l != nil:
		return nil
	}
	spec, count := podsOf(o)
	plain, err := object.Normalized(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	u := object.New(apiVersion, "Workload", o.GetNamespace(), loadName(kind, o), map[string]any{"spec": map[string]any{
		"queueName": o.GetLabels()[queueLabel], "active": true,
		"podSets": []any{map[string]any{"name": "main", "count": count, "template": plain}},
	}})
	u.SetFinalizers([]string{inUse})
	u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: o.GetName(), UID: o.GetUID()}})
	if _, err := m.Dynamic.Resource(kindOf("workloads")).Namespace(o.GetNamespace()).Create(ctx, u, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("workload %s: %w", key(u), err)
	}
	return m.event(ctx, o, kind, version, "CreatedWorkload", "Created Workload: "+key(u))
}

func (m *Manager) release(ctx context.Context, l *load) error {
	if !slices.Contains(l.object.GetFinalizers(), inUse) {
		return nil
	}
	rest := slices.DeleteFunc(l.object.GetFinalizers(), func(f string) bool { return f == inUse })
	return m.patch(ctx, "workloads", l.object, "", map[string]any{"metadata": map[string]any{"finalizers": rest}})
}

// schedule admits who fits, in turn. What does not fit does not hold up the rest (BestEffortFIFO).
func (m *Manager) schedule(ctx context.Context, w *world) error {
	for _, l := range w.waiting() {
		d := w.doors[l.door]
		q := w.queues[d.queue]
		why, short := q.why, map[string]int64(nil)
		if why == "" {
			var err error
			if why, err = m.refusal(ctx, l); err != nil {
				return err
			}
		}
		if why == "" {
			why, short = w.fits(q, l)
			if why != "" {
				why = "couldn't assign flavors to pod set main: " + why
			}
		}
		if why == "" {
			if err := m.admit(ctx, w, q, d, l); err != nil {
				return err
			}
			continue
		}
		if q.reclaim && len(short) > 0 {
			if err := m.reclaim(ctx, w, q, short); err != nil {
				return err
			}
		}
		if err := m.status(ctx, "workloads", l.object, map[string]any{"conditions": object.Conditions(l.object, true, "QuotaReserved", "False", "Pending", why)}); err != nil {
			return err
		}
	}
	for _, l := range w.loads { // what was admitted before and has not started
		if l.queue != "" && !l.done {
			if err := m.start(ctx, w, l); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *Manager) admit(ctx context.Context, w *world, q *queue, d *door, l *load) error {
	flavors, usage := map[string]any{}, map[string]any{}
	for name, n := range l.requests {
		q.used[name] += n
		d.used += n
		flavors[name], usage[name] = q.flavor, fmt.Sprint(n)
	}
	l.queue = q.object.GetName()
	reserved := object.Conditions(l.object, true, "QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue "+l.queue)
	u := l.object.DeepCopy()
	_ = unstructured.SetNestedSlice(u.Object, reserved, "status", "conditions") // both are of JSON's types
	err := m.status(ctx, "workloads", l.object, map[string]any{
		"admission":  map[string]any{"clusterQueue": l.queue, "podSetAssignments": []any{map[string]any{"name": "main", "flavors": flavors, "resourceUsage": usage}}},
		"conditions": object.Conditions(u, true, "Admitted", "True", "Admitted", "The workload is admitted"),
	})
	if err != nil {
		return err
	}
	return m.start(ctx, w, l)
}

// start opens the gate of an admitted pod, or resumes a Job.
func (m *Manager) start(ctx context.Context, w *world, l *load) error {
	for _, owner := range l.object.GetOwnerReferences() {
		switch o := w.objects[string(owner.UID)].(type) {
		case *corev1.Pod:
			rest := []any{}
			for _, g := range o.Spec.SchedulingGates {
				if g.Name != gate {
					rest = append(rest, map[string]any{"name": g.Name})
				}
			}
			if len(rest) == len(o.Spec.SchedulingGates) {
				return nil
			}
			if err := m.patchPod(ctx, o, map[string]any{"spec": map[string]any{"schedulingGates": rest}}); err != nil {
				return err
			}
			return m.event(ctx, o, "Pod", "v1", "Started", "Admitted by clusterQueue "+l.queue)
		case *batchv1.Job:
			if o.Spec.Suspend == nil || !*o.Spec.Suspend {
				return nil
			}
			if _, err := m.Client.BatchV1().Jobs(o.Namespace).Patch(ctx, o.Name, types.MergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{}); err != nil {
				return fmt.Errorf("job %s: %w", key(o), err)
			}
			return m.event(ctx, o, "Job", "batch/v1", "Started", "Admitted by clusterQueue "+l.queue)
		}
	}
	return nil
}

// reclaim ends what others have borrowed.
func (m *Manager) reclaim(ctx context.Context, w *world, q *queue, short map[string]int64) error {
	for _, l := range w.victims(q, short) {
		for _, owner := range l.object.GetOwnerReferences() {
			switch o := w.objects[string(owner.UID)].(type) {
			case *corev1.Pod:
				words := "Preempted to accommodate a workload of ClusterQueue " + q.object.GetName() + " due to reclamation within the cohort"
				if err := m.event(ctx, o, "Pod", "v1", "Stopped", words); err != nil {
					return err
				}
				if err := m.Client.CoreV1().Pods(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
					return fmt.Errorf("pod %s: %w", key(o), err)
				}
			case *batchv1.Job:
				if _, err := m.Client.BatchV1().Jobs(o.Namespace).Patch(ctx, o.Name, types.MergePatchType, []byte(`{"spec":{"suspend":true}}`), metav1.PatchOptions{}); err != nil {
					return fmt.Errorf("job %s: %w", key(o), err)
				}
				if err := m.patch(ctx, "workloads", l.object, "status", map[string]any{"status": map[string]any{"admission": nil, "conditions": object.Conditions(l.object, true, "QuotaReserved", "False", "Pending", "Preempted")}}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (m *Manager) patchPod(ctx context.Context, p *corev1.Pod, change map[string]any) error {
	b, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("pod %s: %w", key(p), err)
	}
	if _, err := m.Client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, b, metav1.PatchOptions{FieldManager: name}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("pod %s: %w", key(p), err)
	}
	return nil
}

func (m *Manager) event(ctx context.Context, o metav1.Object, kind, version, reason, message string) error {
	now := metav1.NewTime(time.Now())
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: o.GetName() + ".", Namespace: o.GetNamespace()},
		InvolvedObject: corev1.ObjectReference{APIVersion: version, Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()},
		Reason:         reason, Message: message, Type: corev1.EventTypeNormal, FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: corev1.EventSource{Component: "kueue-admission"},
	}
	if _, err := m.Client.CoreV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("event of %s: %w", key(o), err)
	}
	return nil
}
