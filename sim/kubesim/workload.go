package kubesim

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/cps-gpu/homelab/sim/kubesim/internal/control"
	"github.com/cps-gpu/homelab/sim/kubesim/internal/schedule"
)

const hashLabel = "pod-template-hash"

// newPod makes a pod of a template, owned by an object.
func (c *Cluster) newPod(owner *entry, name string, t *corev1.PodTemplateSpec, mend func(*corev1.Pod)) {
	u := owner.u()
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: u.GetNamespace(), Labels: maps.Clone(t.Labels), Annotations: maps.Clone(t.Annotations),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), UID: u.GetUID(),
				Controller: &yes, BlockOwnerDeletion: &yes}},
		},
		Spec: *t.Spec.DeepCopy(), Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[hashLabel] = hash(t)
	if p.Spec.RestartPolicy == "" {
		p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	mend(p)
	if class := p.Spec.RuntimeClassName; class != nil && c.get(mustKind("runtimeclasses"), "", *class) == nil {
		c.event(owner, "FailedCreate", fmt.Sprintf("Error creating: pods %q is forbidden: pod rejected: RuntimeClass %q not found", name, *class))
		return
	}
	c.putTyped(mustKind("pods"), p)
}

func hash(t *corev1.PodTemplateSpec) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(t.String()))
	return fmt.Sprintf("%08x", h.Sum32())
}

// event writes a warning about an object, once.
func (c *Cluster) event(about *entry, reason, message string) {
	u := about.u()
	namespace := u.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	h := fnv.New32a()
	_, _ = io.WriteString(h, reason+message)
	name := fmt.Sprintf("%s.%08x", u.GetName(), h.Sum32())
	if c.get(mustKind("events"), namespace, name) != nil {
		return
	}
	now := metav1.NewTime(time.Now().UTC().Truncate(time.Second))
	c.putTyped(mustKind("events"), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name, Namespace: namespace},
		InvolvedObject: corev1.ObjectReference{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID()},
		Reason:         reason, Message: message, Type: corev1.EventTypeWarning, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	})
}

// daemonTolerations are those that the controller gives every pod of a DaemonSet.
var daemonTolerations = []corev1.Toleration{
	{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists},
	{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists},
	{Key: "node.kubernetes.io/disk-pressure", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: "node.kubernetes.io/memory-pressure", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: "node.kubernetes.io/unschedulable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
}

func (c *Cluster) daemonSets(pods podIndex) {
	for _, e := range c.all("daemonsets.apps") {
		c.daemonSet(e, typed[appsv1.DaemonSet](e), pods.byOwner[string(e.u().GetUID())])
	}
}

func (c *Cluster) daemonSet(e *entry, d *appsv1.DaemonSet, pods []*entry) {
	on := map[string]*entry{}
	for _, pe := range pods {
		on[typed[corev1.Pod](pe).Spec.NodeName] = pe
	}
	want := hash(&d.Spec.Template)
	status := appsv1.DaemonSetStatus{ObservedGeneration: d.Generation}
	tolerations := slices.Concat(d.Spec.Template.Spec.Tolerations, daemonTolerations)
	for _, ne := range c.all("nodes") {
		n := typed[corev1.Node](ne)
		_, kept := schedule.Repels(n.Spec.Taints, tolerations)
		fits := schedule.Selects(&d.Spec.Template.Spec, n) && !kept
		pe := on[n.Name]
		switch {
		case !fits && pe != nil:
			c.doom(pe)
		case !fits:
		case pe == nil:
			status.DesiredNumberScheduled++
			c.newPod(e, d.Name+"-"+c.suffix(), &d.Spec.Template, func(p *corev1.Pod) {
				p.Spec.NodeName, p.Spec.Tolerations = n.Name, tolerations
			})
		default:
			status.DesiredNumberScheduled++
			status.CurrentNumberScheduled++
			p := typed[corev1.Pod](pe)
			if p.Labels[hashLabel] != want && p.DeletionTimestamp == nil {
				if d.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
					c.doom(pe)
				}
				continue
			}
			status.UpdatedNumberScheduled++
			if control.Ready(p) {
				status.NumberReady++
			}
		}
	}
	status.NumberAvailable = status.NumberReady
	status.NumberUnavailable = status.DesiredNumberScheduled - status.NumberReady
	c.putStatus(e, &status)
}

// replicas plays the controllers of Deployments and StatefulSets.
func (c *Cluster) replicas(pods podIndex) {
	for _, e := range c.all("deployments.apps") {
		d := typed[appsv1.Deployment](e)
		name := func(map[string]bool) string { return d.Name + "-" + c.suffix() }
		n, ready := c.replicate(e, d.Spec.Replicas, &d.Spec.Template, pods.byOwner[string(d.UID)], name, nil)
		c.putStatus(e, &appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: ready, AvailableReplicas: ready})
	}
	for _, e := range c.all("statefulsets.apps") {
		s := typed[appsv1.StatefulSet](e)
		n, ready := c.replicate(e, s.Spec.Replicas, &s.Spec.Template, pods.byOwner[string(s.UID)], ordinal(s.Name), s.Spec.VolumeClaimTemplates)
		c.putStatus(e, &appsv1.StatefulSetStatus{ObservedGeneration: s.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: ready, AvailableReplicas: ready})
	}
}

// ordinal names the pods of a StatefulSet: the first number that is free.
func ordinal(set string) func(map[string]bool) string {
	return func(taken map[string]bool) string {
		for i := 0; ; i++ {
			if name := fmt.Sprintf("%s-%d", set, i); !taken[name] {
				return name
			}
		}
	}
}

// replicate keeps a number of pods of a template, all at once. Pods of a StatefulSet
// wait until the one before them of the same name is gone.
func (c *Cluster) replicate(e *entry, replicas *int32, t *corev1.PodTemplateSpec, pods []*entry,
	name func(taken map[string]bool) string, claims []corev1.PersistentVolumeClaim) (updated, ready int32) {
	want := int32(1)
	if replicas != nil {
		want = *replicas
	}
	taken, leaving := map[string]bool{}, int32(0)
	for _, pe := range pods {
		p := typed[corev1.Pod](pe)
		taken[p.Name] = true
		if claims != nil && (p.DeletionTimestamp != nil || p.Labels[hashLabel] != hash(t)) {
			leaving++
		}
		switch {
		case p.DeletionTimestamp != nil:
		case p.Labels[hashLabel] != hash(t) || updated == want:
			c.doom(pe)
		default:
			updated++
			if control.Ready(p) {
				ready++
			}
		}
	}
	for range want - updated - leaving {
		pod := name(taken)
		taken[pod] = true
		c.newPod(e, pod, t, func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, c.claimTemplates(p.Namespace, pod, claims)...)
		})
	}
	return updated, ready
}

func (c *Cluster) jobs(pods podIndex) {
	for _, e := range c.all("jobs.batch") {
		c.job(e, typed[batchv1.Job](e), pods.byOwner[string(e.u().GetUID())])
	}
}

func (c *Cluster) job(e *entry, j *batchv1.Job, pods []*entry) {
	status := *j.Status.DeepCopy()
	if len(status.Conditions) > 0 {
		return // it has ended
	}
	now := metav1.NewTime(time.Now().UTC().Truncate(time.Second))
	if status.StartTime == nil {
		status.StartTime = &now
	}
	status.Active, status.Succeeded, status.Failed = 0, 0, 0
	for _, pe := range pods {
		switch p := typed[corev1.Pod](pe); {
		case p.Status.Phase == corev1.PodSucceeded:
			status.Succeeded++
		case p.Status.Phase == corev1.PodFailed:
			status.Failed++
		case p.DeletionTimestamp == nil:
			status.Active++
		}
	}
	completions, limit := or(j.Spec.Completions, 1), or(j.Spec.BackoffLimit, 6)
	switch {
	case status.Succeeded >= completions:
		status.CompletionTime = &now
		status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now}}
	case late(j.Spec.ActiveDeadlineSeconds, status.StartTime, c.scale(time.Second)):
		status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: now,
			Reason: batchv1.JobReasonDeadlineExceeded, Message: "Job was active longer than specified deadline"}}
		for _, pe := range pods {
			if typed[corev1.Pod](pe).DeletionTimestamp == nil {
				c.doom(pe)
			}
		}
	case status.Failed > limit:
		status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: now,
			Reason: batchv1.JobReasonBackoffLimitExceeded, Message: "Job has reached the specified backoff limit"}}
	default:
		for range min(or(j.Spec.Parallelism, 1), completions-status.Succeeded) - status.Active {
			c.newPod(e, j.Name+"-"+c.suffix(), &j.Spec.Template, func(p *corev1.Pod) {
				p.Labels[batchv1.JobNameLabel], p.Labels["job-name"] = j.Name, j.Name
				p.Labels[batchv1.ControllerUidLabel] = string(j.UID)
			})
		}
	}
	c.putStatus(e, &status)
}

// late reports whether a Job's time is over, be its pods scheduled or not.
func late(limit *int64, start *metav1.Time, second time.Duration) bool {
	return limit != nil && time.Since(start.Time) >= time.Duration(*limit)*second
}

func or(p *int32, otherwise int32) int32 {
	if p == nil {
		return otherwise
	}
	return *p
}

// documents reads a manifest of several YAML documents.
func documents(manifest []byte) ([]map[string]any, error) {
	var out []map[string]any
	d := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		var m map[string]any
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("manifest: %w", err)
		}
		if len(m) > 0 {
			out = append(out, m)
		}
	}
}
