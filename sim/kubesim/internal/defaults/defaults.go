// Package defaults fills in what an API server fills in of its own: the defaults of each kind's
// fields. Each rule is one of Kubernetes' pkg/apis/*/v1/defaults.go, v1.36.
package defaults

import (
	"math"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Set fills in the defaults of an object, a pointer to one of the API's types.
func Set(obj any) {
	switch o := obj.(type) {
	case *corev1.Pod:
		pod(o)
	case *corev1.Service:
		service(o)
	case *corev1.Namespace, *corev1.Secret, *corev1.Node, *corev1.Endpoints: //nolint:staticcheck // Endpoints are still served
		core(o)
	case *corev1.PersistentVolume:
		set(&o.Status.Phase, corev1.VolumePending)
		set(&o.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
		point(&o.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
		hostPath(o.Spec.HostPath)
	case *corev1.PersistentVolumeClaim:
		set(&o.Status.Phase, corev1.ClaimPending)
		point(&o.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	case *appsv1.Deployment, *appsv1.DaemonSet, *appsv1.StatefulSet, *appsv1.ReplicaSet:
		workload(o)
	case *batchv1.Job:
		job(&o.Spec)
		template(&o.Spec.Template)
		if len(o.Labels) == 0 {
			o.Labels = o.Spec.Template.Labels
		}
	case *batchv1.CronJob:
		set(&o.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
		point(&o.Spec.Suspend, false)
		point(&o.Spec.SuccessfulJobsHistoryLimit, 3)
		point(&o.Spec.FailedJobsHistoryLimit, 1)
		template(&o.Spec.JobTemplate.Spec.Template)
	case *rbacv1.ClusterRoleBinding:
		set(&o.RoleRef.APIGroup, rbacv1.GroupName)
		subjects(o.Subjects)
	case *rbacv1.RoleBinding:
		set(&o.RoleRef.APIGroup, rbacv1.GroupName)
		subjects(o.Subjects)
	case *schedulingv1.PriorityClass:
		point(&o.PreemptionPolicy, corev1.PreemptLowerPriority)
	default:
		other(obj)
	}
}

func other(obj any) {
	switch o := obj.(type) {
	case *networkingv1.NetworkPolicy:
		networkPolicy(o)
	case *networkingv1.IngressClass:
		if o.Spec.Parameters != nil {
			point(&o.Spec.Parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
		}
	case *storagev1.StorageClass:
		point(&o.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		point(&o.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	case *storagev1.CSIDriver:
		csiDriver(&o.Spec)
	case *discoveryv1.EndpointSlice:
		for i := range o.Ports {
			point(&o.Ports[i].Name, "")
			point(&o.Ports[i].Protocol, corev1.ProtocolTCP)
		}
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			w := &o.Webhooks[i]
			point(&w.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
			webhook(&w.FailurePolicy, &w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector, &w.TimeoutSeconds, w.Rules, w.ClientConfig.Service)
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			w := &o.Webhooks[i]
			webhook(&w.FailurePolicy, &w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector, &w.TimeoutSeconds, w.Rules, w.ClientConfig.Service)
		}
	}
}

// set gives a field a value that has none.
func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// point is set for an optional field.
func point[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func core(obj any) {
	switch o := obj.(type) {
	case *corev1.Namespace:
		set(&o.Status.Phase, corev1.NamespaceActive)
		if o.Labels == nil {
			o.Labels = map[string]string{}
		}
		o.Labels[corev1.LabelMetadataName] = o.Name
		if len(o.Spec.Finalizers) == 0 && o.DeletionTimestamp == nil { // PrepareForCreate of the strategy
			o.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
		}
	case *corev1.Secret:
		set(&o.Type, corev1.SecretTypeOpaque)
		for k, v := range o.StringData { // pkg/apis/core/v1/conversion.go
			if o.Data == nil {
				o.Data = map[string][]byte{}
			}
			o.Data[k] = []byte(v)
		}
		o.StringData = nil
	case *corev1.Node:
		if o.Status.Allocatable == nil && o.Status.Capacity != nil {
			o.Status.Allocatable = o.Status.Capacity.DeepCopy()
		}
	case *corev1.Endpoints: //nolint:staticcheck // still served
		for _, s := range o.Subsets {
			for i := range s.Ports {
				set(&s.Ports[i].Protocol, corev1.ProtocolTCP)
			}
		}
	}
}

func service(s *corev1.Service) {
	spec := &s.Spec
	set(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	if spec.SessionAffinity == corev1.ServiceAffinityNone {
		spec.SessionAffinityConfig = nil
	} else if c := spec.SessionAffinityConfig; c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
		seconds := corev1.DefaultClientIPServiceAffinitySeconds
		spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	}
	set(&spec.Type, corev1.ServiceTypeClusterIP)
	for i := range spec.Ports {
		p := &spec.Ports[i]
		set(&p.Protocol, corev1.ProtocolTCP)
		if p.TargetPort == (intstr.IntOrString{}) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	outside := spec.Type == corev1.ServiceTypeLoadBalancer || spec.Type == corev1.ServiceTypeNodePort ||
		spec.Type == corev1.ServiceTypeClusterIP && len(spec.ExternalIPs) > 0
	if outside {
		set(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if spec.Type != corev1.ServiceTypeExternalName {
		point(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		point(&spec.AllocateLoadBalancerNodePorts, true)
		for i := range s.Status.LoadBalancer.Ingress {
			if in := &s.Status.LoadBalancer.Ingress[i]; in.IP != "" {
				point(&in.IPMode, corev1.LoadBalancerIPModeVIP)
			}
		}
	}
}

func workload(obj any) {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		s := &o.Spec
		point(&s.Replicas, 1)
		set(&s.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
		if s.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
			point(&s.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
			point(&s.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
			point(&s.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
		}
		point(&s.RevisionHistoryLimit, 10)
		point(&s.ProgressDeadlineSeconds, 600)
		template(&s.Template)
	case *appsv1.DaemonSet:
		s := &o.Spec
		set(&s.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
		if s.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
			point(&s.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
			point(&s.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
			point(&s.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
		}
		point(&s.RevisionHistoryLimit, 10)
		template(&s.Template)
	case *appsv1.StatefulSet:
		statefulSet(&o.Spec)
	case *appsv1.ReplicaSet:
		point(&o.Spec.Replicas, 1)
		template(&o.Spec.Template)
	}
}

func statefulSet(s *appsv1.StatefulSetSpec) {
	set(&s.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	if s.UpdateStrategy.Type == "" {
		s.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		point(&s.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if r := s.UpdateStrategy.RollingUpdate; r != nil && s.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		point(&r.Partition, 0)
	}
	point(&s.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	set(&s.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	set(&s.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	point(&s.Replicas, 1)
	point(&s.RevisionHistoryLimit, 10)
	template(&s.Template)
	for i := range s.VolumeClaimTemplates {
		c := &s.VolumeClaimTemplates[i]
		c.APIVersion, c.Kind = "v1", "PersistentVolumeClaim"
		Set(c)
	}
}

func job(s *batchv1.JobSpec) {
	if s.Completions == nil && s.Parallelism == nil {
		point(&s.Completions, 1)
	}
	point(&s.Parallelism, 1)
	if s.BackoffLimitPerIndex != nil {
		point(&s.BackoffLimit, math.MaxInt32)
	}
	point(&s.BackoffLimit, 6)
	point(&s.CompletionMode, batchv1.NonIndexedCompletion)
	point(&s.Suspend, false)
	if s.PodFailurePolicy != nil {
		point(&s.PodReplacementPolicy, batchv1.Failed)
	}
	point(&s.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	point(&s.ManualSelector, false)
}

func subjects(list []rbacv1.Subject) {
	for i := range list {
		if list[i].Kind != rbacv1.ServiceAccountKind {
			set(&list[i].APIGroup, rbacv1.GroupName)
		}
	}
}

func networkPolicy(o *networkingv1.NetworkPolicy) {
	if len(o.Spec.PolicyTypes) == 0 {
		o.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(o.Spec.Egress) > 0 {
			o.Spec.PolicyTypes = append(o.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	ports := func(list []networkingv1.NetworkPolicyPort) {
		for i := range list {
			point(&list[i].Protocol, corev1.ProtocolTCP)
		}
	}
	for _, r := range o.Spec.Ingress {
		ports(r.Ports)
	}
	for _, r := range o.Spec.Egress {
		ports(r.Ports)
	}
}

func csiDriver(s *storagev1.CSIDriverSpec) {
	point(&s.AttachRequired, true)
	point(&s.PodInfoOnMount, false)
	point(&s.StorageCapacity, false)
	point(&s.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	if len(s.VolumeLifecycleModes) == 0 {
		s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
	point(&s.RequiresRepublish, false)
	point(&s.SELinuxMount, false)
}

func webhook(failure **admissionv1.FailurePolicyType, match **admissionv1.MatchPolicyType, namespaces, objects **metav1.LabelSelector,
	timeout **int32, rules []admissionv1.RuleWithOperations, at *admissionv1.ServiceReference) {
	point(failure, admissionv1.Fail)
	point(match, admissionv1.Equivalent)
	point(namespaces, metav1.LabelSelector{})
	point(objects, metav1.LabelSelector{})
	point(timeout, 10)
	for i := range rules {
		point(&rules[i].Scope, admissionv1.AllScopes)
	}
	if at != nil {
		point(&at.Port, 443)
	}
}

// tagOf is the tag of an image's name, "latest" without one, and empty with a digest.
func tagOf(image string) string {
	name, _, digest := strings.Cut(image, "@")
	if at := strings.LastIndex(name, ":"); at > strings.LastIndex(name, "/") {
		return name[at+1:]
	}
	if digest {
		return ""
	}
	return "latest"
}
