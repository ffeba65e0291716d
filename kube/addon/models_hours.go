package addon

import (
	"fmt"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/modelserver"
)

// kubectlImage scales models by the clock. The digest is the index's, as four public files name it.
const kubectlImage = "registry.k8s.io/kubectl:v1.36.4@sha256:b8d523e7b8cdc5e3caa0f8891ee9f504abf137dec786e6e0ddd33e4f272c2f13"

// modelClock is the account that starts and stops the models which have hours, and nothing else.
const modelClock = "model-clock"

// clock returns the objects that let models sleep out of their hours.
func (m Models) clock(s *Site) ([]runtime.Object, error) {
	var names []string
	var jobs []runtime.Object
	for _, one := range m.Models {
		if one.Awake == "" {
			continue
		}
		h, err := spec.ParseHours(one.Awake)
		if err != nil {
			return nil, fmt.Errorf("models.%s.awake: %w", one.Name, err)
		}
		names = append(names, one.Name)
		night := 24*time.Hour - h.Length
		jobs = append(jobs, m.scaling(s, one, "wake", h.From, h.Length, one.Replicas), m.scaling(s, one, "sleep", h.To, night, 0))
	}
	if len(names) == 0 {
		return nil, nil
	}
	about := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	who := meta(modelClock, modelserver.Namespace, modelClock)
	return append([]runtime.Object{
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: who},
		&rbacv1.Role{TypeMeta: about("Role"), ObjectMeta: who, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, ResourceNames: names, Verbs: []string{"get"}},
			{APIGroups: []string{"apps"}, Resources: []string{"deployments/scale"}, ResourceNames: names, Verbs: []string{"get", "patch", "update"}},
		}},
		&rbacv1.RoleBinding{TypeMeta: about("RoleBinding"), ObjectMeta: who,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: modelClock},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: modelserver.Namespace, Name: modelClock}}},
	}, jobs...), nil
}

// scaling scales a model at a time of each day. A start that was missed, since the cluster was off, is caught up as
// long as it still holds: so of the last wake and the last sleep only one is.
func (m Models) scaling(s *Site, one spec.Model, verb string, at, holds time.Duration, replicas int) *batchv1.CronJob {
	zone, deadline, kept, limit, tries := m.Zone, int64(holds/time.Second), int32(1), int64(600), int32(6)
	yes, user := true, int64(gatewayUser)
	return &batchv1.CronJob{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "CronJob"}, ObjectMeta: meta(modelClock, modelserver.Namespace, one.Name+"-"+verb),
		Spec: batchv1.CronJobSpec{
			Schedule: fmt.Sprintf("%d %d * * *", int(at.Minutes())%60, int(at.Hours())), TimeZone: &zone, StartingDeadlineSeconds: &deadline,
			ConcurrencyPolicy: batchv1.ReplaceConcurrent, SuccessfulJobsHistoryLimit: &kept, FailedJobsHistoryLimit: &kept,
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{BackoffLimit: &tries, ActiveDeadlineSeconds: &limit, Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{
					ServiceAccountName: modelClock, RestartPolicy: corev1.RestartPolicyOnFailure, Tolerations: Tolerations(s.Taints()),
					SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user},
					Containers: []corev1.Container{{
						Name: "kubectl", Image: kubectlImage, SecurityContext: noCapabilities(),
						Command: []string{"/bin/kubectl"}, // where the image has it
						Args:    []string{"scale", "--namespace=" + modelserver.Namespace, "--replicas=" + strconv.Itoa(replicas), "deployment/" + one.Name},
					}},
				},
			}}},
		},
	}
}
