package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// JobPhase is the phase of a Job.
type JobPhase string

// The phases. A pending Job has no running pod yet; an active one has.
const (
	JobMissing   JobPhase = "missing"
	JobPending   JobPhase = "pending"
	JobActive    JobPhase = "active"
	JobSucceeded JobPhase = "succeeded"
	JobFailed    JobPhase = "failed"
)

// Job is the state of a Job, and the reason.
type Job struct {
	Phase  JobPhase
	Reason string   // why it is pending or has failed, in words; e.g. "Unschedulable: 0/7 nodes are available: 7 Insufficient nvidia.com/gpu"
	Nodes  []string // where its pods are or were
}

// Lacks reports whether too few of a resource are free for a pod, by what the scheduler said of it; resource may
// be the beginning of names, such as "nvidia.com/". Of a resource that a driver of Dynamic Resource
// Allocation offers the scheduler says only that it found no devices (dynamicresources.go of Kubernetes 1.36).
func Lacks(reason, resource string) bool {
	return strings.Contains(reason, "Insufficient "+resource) || strings.Contains(reason, "cannot allocate all claims")
}

// Ended reports whether nothing more will happen.
func (j Job) Ended() bool { return j.Phase == JobSucceeded || j.Phase == JobFailed }

// JobState returns the state of a Job. A missing one is [JobMissing].
func (c *Client) JobState(ctx context.Context, namespace, name string) (Job, error) {
	doing := fmt.Sprintf("look at job %s/%s", namespace, name)
	var j batchv1.Job
	err := c.do(ctx, request{doing: doing, path: path(batchv1.SchemeGroupVersion, namespace, "jobs", name)}, &j)
	if errors.Is(err, ErrNotFound) {
		return Job{Phase: JobMissing}, nil
	}
	if err != nil {
		return Job{}, err
	}
	pods, err := c.pods(ctx, doing, namespace, map[string][]string{"labelSelector": {batchv1.JobNameLabel + "=" + name}})
	if err != nil {
		return Job{}, err
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	out := jobOf(&j, pods)
	if out.Phase == JobPending && len(pods) == 0 {
		out.Reason, err = c.complaint(ctx, namespace, "Job", name)
	}
	return out, err
}

func jobOf(j *batchv1.Job, pods []corev1.Pod) Job {
	out := Job{Phase: JobPending}
	for i := range pods {
		if n := pods[i].Spec.NodeName; n != "" && !slices.Contains(out.Nodes, n) {
			out.Nodes = append(out.Nodes, n)
		}
	}
	for _, cond := range j.Status.Conditions {
		if cond.Status != corev1.ConditionTrue {
			continue
		}
		switch cond.Type {
		case batchv1.JobComplete:
			out.Phase = JobSucceeded
			return out
		case batchv1.JobFailed:
			out.Phase, out.Reason = JobFailed, joinReason(cond.Reason, cond.Message)
			if why := lastFailure(pods); why != "" {
				out.Reason = why
			}
			return out
		}
	}
	for i := range pods {
		if pods[i].Status.Phase == corev1.PodRunning {
			out.Phase = JobActive
			return out
		}
	}
	for i := range pods {
		if why := stuckReason(&pods[i]); why != "" {
			out.Reason = why
		}
	}
	return out
}

// lastFailure says how the last failed pod ended.
func lastFailure(pods []corev1.Pod) string {
	for i := len(pods) - 1; i >= 0; i-- {
		for _, t := range terminations(&pods[i]) {
			if t.ExitCode != 0 {
				return strings.TrimSuffix(fmt.Sprintf("pod %s on %s ended with exit status %d: %s", t.Pod, t.Node, t.ExitCode, strings.TrimSpace(t.Message)), ": ")
			}
		}
		if pods[i].Status.Phase == corev1.PodFailed {
			return "pod " + pods[i].Name + ": " + stuckReason(&pods[i])
		}
	}
	return ""
}

// complaint returns the last warning among an object's events: if a controller may not create
// a pod, only an event says so.
func (c *api) complaint(ctx context.Context, namespace, kind, name string) (string, error) {
	return c.lastOf(ctx, namespace, kind, name, ",type="+corev1.EventTypeWarning)
}

// lastOf returns the last of an object's events that match a further field selector.
func (c *api) lastOf(ctx context.Context, namespace, kind, name, further string) (string, error) {
	var list corev1.EventList
	err := c.do(ctx, request{doing: "read the events of " + strings.ToLower(kind) + " " + namespace + "/" + name,
		path:  path(corev1.SchemeGroupVersion, namespace, "events", ""),
		query: map[string][]string{"fieldSelector": {"involvedObject.kind=" + kind + ",involvedObject.name=" + name + further}}}, &list)
	if err != nil || len(list.Items) == 0 {
		return "", err
	}
	last := slices.MaxFunc(list.Items, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
	return joinReason(last.Reason, last.Message), nil
}
