package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Ready reports whether an object exists and works, and if not yet, why, in words that fit
// after "waiting: ". An object of an unknown kind is ready when it exists.
func (c *Client) Ready(ctx context.Context, obj runtime.Object) (reason string, ok bool, err error) {
	u, err := plain(obj)
	if err != nil {
		return "", false, err
	}
	ref := refOf(u)
	err = c.Get(ctx, u)
	var noKind *NoKindError
	switch {
	case errors.Is(err, ErrNotFound), errors.As(err, &noKind):
		return ref.String() + " is not there yet", false, nil
	case err != nil:
		return "", false, err
	}
	reason, err = unreadyReason(u)
	if err != nil {
		return "", false, fmt.Errorf("look at %s: %w", ref, err)
	}
	if reason != "" {
		return refOf(u).String() + ": " + reason, false, nil
	}
	return "", true, nil
}

// unreadyReason says what an object lacks to be ready; nothing if it is ready.
func unreadyReason(u *unstructured.Unstructured) (string, error) {
	if u.GetDeletionTimestamp() != nil {
		return "it is being deleted", nil
	}
	switch u.GroupVersionKind().GroupKind().String() {
	case "Deployment.apps":
		return withType(u, deploymentLacks)
	case "DaemonSet.apps":
		return withType(u, daemonSetLacks)
	case "StatefulSet.apps":
		return withType(u, statefulSetLacks)
	case "Job.batch":
		return withType(u, jobLacks)
	case "Pod":
		return withType(u, podLacks)
	case "Node":
		return withType(u, func(n *corev1.Node) string { _, reason := readiness(n); return reason })
	case "PersistentVolumeClaim":
		return withType(u, func(p *corev1.PersistentVolumeClaim) string {
			if p.Status.Phase == corev1.ClaimBound {
				return ""
			}
			return "no volume is bound to it yet"
		})
	case "CustomResourceDefinition.apiextensions.k8s.io":
		return establishedReason(u), nil
	case "ClusterIssuer.cert-manager.io", "Issuer.cert-manager.io", "Certificate.cert-manager.io":
		return certManagerReason(u), nil
	case "ClusterQueue.kueue.x-k8s.io", "LocalQueue.kueue.x-k8s.io":
		return admits(u), nil
	case "Cluster.postgresql.cnpg.io":
		return postgresReason(u)
	case "ScheduledBackup.postgresql.cnpg.io":
		why, _, err := unstructured.NestedString(u.Object, "status", "error")
		return why, err
	case "APIService.apiregistration.k8s.io":
		return available(u), nil
	}
	return "", nil
}

// withType looks at u as the type that look wants.
func withType[T any](u *unstructured.Unstructured, look func(*T) string) (string, error) {
	v := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, v); err != nil {
		return "", err
	}
	return look(v), nil
}

const notSeen = "its controller has not seen it yet"

func deploymentLacks(d *appsv1.Deployment) string {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	for _, cond := range d.Status.Conditions {
		if cond.Type == appsv1.DeploymentProgressing && cond.Reason == "ProgressDeadlineExceeded" {
			return joinReason(cond.Reason, cond.Message)
		}
	}
	unseen := d.Status.ObservedGeneration < d.Generation
	for _, cond := range d.Status.Conditions {
		if cond.Type == appsv1.DeploymentReplicaFailure && cond.Status == corev1.ConditionTrue && !unseen {
			return joinReason(cond.Reason, cond.Message) // such as a quota
		}
	}
	if why := replicasLack(unseen, d.Status.UpdatedReplicas, d.Status.AvailableReplicas, want); why != "" {
		return why
	}
	if old := d.Status.Replicas - d.Status.UpdatedReplicas; old > 0 {
		// The available pods may be the old ones while a new one does not start.
		return fmt.Sprintf("%d pods of the previous version are still needed", old)
	}
	return ""
}

func statefulSetLacks(s *appsv1.StatefulSet) string {
	want := int32(1)
	if s.Spec.Replicas != nil {
		want = *s.Spec.Replicas
	}
	updated := s.Status.UpdatedReplicas
	switch how := s.Spec.UpdateStrategy; {
	case how.Type == appsv1.OnDeleteStatefulSetStrategyType:
		updated = want // updated when somebody deletes its pods
	case how.RollingUpdate != nil && how.RollingUpdate.Partition != nil:
		updated += *how.RollingUpdate.Partition // these stay as they are
	}
	return replicasLack(s.Status.ObservedGeneration < s.Generation, updated, s.Status.ReadyReplicas, want)
}

func daemonSetLacks(d *appsv1.DaemonSet) string {
	s, updated := d.Status, d.Status.UpdatedNumberScheduled
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		updated = s.DesiredNumberScheduled // updated when somebody deletes its pods
	}
	return replicasLack(s.ObservedGeneration < d.Generation, updated, s.NumberReady, s.DesiredNumberScheduled)
}

func replicasLack(unseen bool, updated, ready, want int32) string {
	switch {
	case unseen:
		return notSeen
	case updated < want:
		return fmt.Sprintf("%d of %d pods are of this version", updated, want)
	case ready < want:
		return fmt.Sprintf("%d of %d pods are ready", ready, want)
	}
	return ""
}

func jobLacks(j *batchv1.Job) string {
	switch s := jobOf(j, nil); s.Phase {
	case JobSucceeded:
		return ""
	case JobFailed:
		return "it has failed: " + s.Reason
	default:
		return "it has not ended yet"
	}
}

func podLacks(p *corev1.Pod) string {
	for _, cond := range p.Status.Conditions {
		if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue {
			return ""
		}
	}
	if p.Status.Phase == corev1.PodSucceeded {
		return ""
	}
	if why := stuckReason(p); why != "" {
		return why
	}
	return "it is not ready yet"
}

func establishedReason(u *unstructured.Unstructured) string {
	if is, _ := condition(u, "Established"); is {
		return ""
	}
	if accepted, why := condition(u, "NamesAccepted"); !accepted && why != "" {
		return "it is not established: " + why
	}
	return "it is not established yet"
}

func available(u *unstructured.Unstructured) string {
	is, why := condition(u, "Available")
	if is {
		return ""
	}
	return strings.TrimSuffix("it is not available yet: "+why, ": ")
}

// condition reports whether a condition of an object is true, and its words.
func condition(u *unstructured.Unstructured, kind string) (is bool, why string) {
	status, _ := u.Object["status"].(map[string]any)
	conds, _ := status["conditions"].([]any)
	for _, c := range conds {
		if m, ok := c.(map[string]any); ok && m["type"] == kind {
			reason, _ := m["reason"].(string)
			message, _ := m["message"].(string)
			return m["status"] == "True", joinReason(reason, message)
		}
	}
	return false, ""
}

// certManagerReason says what blocks an issuer or certificate of cert-manager, by its condition Ready. What the authority
// said of a certificate that it refused is in Issuing (pkg/controller/certificates/issuing, failIssueCertificate).
func certManagerReason(u *unstructured.Unstructured) string {
	is, why := condition(u, "Ready")
	if is {
		return ""
	}
	if issuing, refused := condition(u, "Issuing"); !issuing {
		why = cmp.Or(refused, why)
	}
	return cmp.Or(why, "cert-manager has not processed it yet")
}

// admits says why a queue of Kueue's lets no pod start, by its condition Active.
func admits(u *unstructured.Unstructured) string {
	is, why := condition(u, "Active")
	if is {
		return ""
	}
	return cmp.Or(why, notSeen)
}

// postgresCluster is what is read of a database of CloudNativePG's.
type postgresCluster struct {
	Spec struct {
		Instances int              `json:"instances"`
		Plugins   []map[string]any `json:"plugins"`
	} `json:"spec"`
	Status struct {
		ReadyInstances int    `json:"readyInstances"`
		Phase          string `json:"phase"`
	} `json:"status"`
}

// postgresReason says what a database lacks. Its condition Ready follows the phase, which the operator has not
// changed yet when another number of servers was just asked for. That of the archive stays, as it was last, when
// nothing is archived any more.
func postgresReason(u *unstructured.Unstructured) (string, error) {
	healthy, _ := condition(u, "Ready")
	archives, why := condition(u, "ContinuousArchiving")
	return withType(u, func(c *postgresCluster) string {
		switch {
		case why != "" && !archives && len(c.Spec.Plugins) > 0:
			return "its changes do not get into the bucket: the store does not answer, or the folder has those of another database: " + why
		case healthy && c.Status.ReadyInstances == c.Spec.Instances:
			return ""
		case c.Status.Phase == "":
			return notSeen
		}
		return fmt.Sprintf("%d of %d servers are ready: %s", c.Status.ReadyInstances, c.Spec.Instances, c.Status.Phase)
	})
}
