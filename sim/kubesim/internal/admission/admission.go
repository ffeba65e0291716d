// Package admission checks new objects and fills in what the API server's own admission plugins
// do, as far as a client can tell: pkg/kubeapiserver, plugin/pkg/admission and the strategies of
// pkg/registry of Kubernetes v1.36.
package admission

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/cps-gpu/homelab/sim/kubesim/internal/control"
)

const (
	// RootConfigMap has the authority's certificate in each namespace.
	RootConfigMap = "kube-root-ca.crt"

	claimProtection  = "kubernetes.io/pvc-protection"
	volumeProtection = "kubernetes.io/pv-protection"
	defaultClass     = "storageclass.kubernetes.io/is-default-class"
)

// Admission is that of one cluster.
type Admission struct {
	control.Store
	Services []netip.Prefix // of which Services get their addresses, one or one of each family
}

// New is the admission of a new object: kube-apiserver's own plugins, as far as a client
// can tell.
func (c Admission) New(obj any) error {
	switch o := obj.(type) {
	case *corev1.Pod:
		return c.pod(o)
	case *corev1.Service:
		return c.Allocate(o, nil)
	case *corev1.PersistentVolumeClaim:
		addFinalizer(&o.ObjectMeta, claimProtection)
		if o.Spec.StorageClassName == nil && o.Annotations[corev1.BetaStorageClassAnnotation] == "" {
			if class := c.defaultClass(); class != nil {
				o.Spec.StorageClassName = &class.Name
			}
		}
	case *corev1.PersistentVolume:
		addFinalizer(&o.ObjectMeta, volumeProtection)
		now := metav1.NewTime(time.Now().UTC().Truncate(time.Second))
		o.Status.LastPhaseTransitionTime = &now
	case *appsv1.DaemonSet:
		if o.Annotations == nil {
			o.Annotations = map[string]string{}
		}
		o.Annotations[appsv1.DeprecatedTemplateGeneration] = "1"
	case *corev1.Node: // TaintNodesByCondition
		notReady := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
		if !slices.ContainsFunc(o.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&notReady) }) {
			o.Spec.Taints = append(o.Spec.Taints, notReady)
		}
	case *batchv1.Job:
		selectJob(o)
	}
	return nil
}

// Grow refuses that a claim grows whose class does not say that it can: the plugin PersistentVolumeClaimResize
// (plugin/pkg/admission/storage/persistentvolume/resize).
func (c Admission) Grow(claim, was *corev1.PersistentVolumeClaim) error {
	size := sizeOf(claim)
	if size.Cmp(sizeOf(was)) <= 0 {
		return nil
	}
	for _, class := range control.All[storagev1.StorageClass](c, "storageclasses.storage.k8s.io") {
		if claim.Spec.StorageClassName != nil && class.Name == *claim.Spec.StorageClassName && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion {
			return nil
		}
	}
	return apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), claim.Name,
		errors.New("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"))
}

// defaultClass is the class that a claim without one gets: of several, the newest.
func (c Admission) defaultClass() *storagev1.StorageClass {
	var best *storagev1.StorageClass
	for _, class := range control.All[storagev1.StorageClass](c, "storageclasses.storage.k8s.io") {
		if class.Annotations[defaultClass] == "true" && (best == nil || best.CreationTimestamp.Before(&class.CreationTimestamp)) {
			best = class
		}
	}
	return best
}

// selectJob gives a Job its selector: PrepareForCreate of pkg/registry/batch/job/strategy.go.
func selectJob(j *batchv1.Job) {
	if j.Spec.ManualSelector != nil && *j.Spec.ManualSelector {
		return
	}
	if j.UID == "" { // the labels name it, so it is given here
		j.UID = uuid.NewUUID()
	}
	t := &j.Spec.Template
	t.Labels = maps.Clone(t.Labels)
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	t.Labels["job-name"], t.Labels[batchv1.JobNameLabel] = j.Name, j.Name
	t.Labels["controller-uid"], t.Labels[batchv1.ControllerUidLabel] = string(j.UID), string(j.UID)
	if len(j.Labels) == 0 {
		j.Labels = maps.Clone(t.Labels)
	}
	if j.Spec.Selector == nil {
		j.Spec.Selector = &metav1.LabelSelector{}
	}
	if j.Spec.Selector.MatchLabels == nil {
		j.Spec.Selector.MatchLabels = map[string]string{}
	}
	j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] = string(j.UID)
}

// pod is what the plugins ServiceAccount, RuntimeClass, Priority and
// DefaultTolerationSeconds do.
func (c Admission) pod(p *corev1.Pod) error {
	forbid := func(format string, args ...any) error {
		return apierrors.NewForbidden(corev1.Resource("pods"), p.Name, fmt.Errorf(format, args...))
	}
	if p.Spec.ServiceAccountName == "" {
		p.Spec.ServiceAccountName = "default"
	}
	p.Spec.DeprecatedServiceAccount = p.Spec.ServiceAccountName
	account := control.Get[corev1.ServiceAccount](c, "serviceaccounts", p.Namespace, p.Spec.ServiceAccountName)
	if account == nil && p.Spec.ServiceAccountName == "default" { // the plugin waits for it, up to two seconds
		account = &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: p.Namespace}}
		if err := c.Create(account); err != nil {
			return err
		}
	}
	if account == nil {
		return forbid("error looking up service account %s/%s: serviceaccount %q not found", p.Namespace, p.Spec.ServiceAccountName, p.Spec.ServiceAccountName)
	}
	c.mountToken(p, account)
	if class := p.Spec.RuntimeClassName; class != nil {
		of := control.Get[nodev1.RuntimeClass](c, "runtimeclasses.node.k8s.io", "", *class)
		if of == nil {
			return forbid("pod rejected: RuntimeClass %q not found", *class)
		}
		if of.Overhead != nil && p.Spec.Overhead == nil {
			p.Spec.Overhead = of.Overhead.PodFixed
		}
		if of.Scheduling != nil {
			if p.Spec.NodeSelector == nil {
				p.Spec.NodeSelector = map[string]string{}
			}
			maps.Copy(p.Spec.NodeSelector, of.Scheduling.NodeSelector)
			p.Spec.Tolerations = append(p.Spec.Tolerations, of.Scheduling.Tolerations...)
		}
	}
	if err := c.prioritize(p); err != nil {
		return forbid("%w", err)
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		tolerated := slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		})
		if !tolerated {
			seconds := int64(300)
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists,
				Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
		}
	}
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qosOf(p)}
	if len(p.Spec.SchedulingGates) > 0 {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates", LastTransitionTime: metav1.NewTime(time.Now().UTC().Truncate(time.Second))}}
	}
	return nil
}

// mountToken gives a pod's containers the token of its account.
func (c Admission) mountToken(p *corev1.Pod, account *corev1.ServiceAccount) {
	if len(p.Spec.ImagePullSecrets) == 0 {
		p.Spec.ImagePullSecrets = account.ImagePullSecrets
	}
	automount := account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken
	if p.Spec.AutomountServiceAccountToken != nil {
		automount = *p.Spec.AutomountServiceAccountToken
	}
	const prefix, at = "kube-api-access-", "/var/run/secrets/kubernetes.io/serviceaccount"
	if !automount || slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return strings.HasPrefix(v.Name, prefix) }) {
		return
	}
	name := prefix + c.Suffix()
	used := false
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if slices.ContainsFunc(list[i].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == at }) {
				continue
			}
			used = true
			list[i].VolumeMounts = append(list[i].VolumeMounts, corev1.VolumeMount{Name: name, ReadOnly: true, MountPath: at})
		}
	}
	if !used {
		return
	}
	seconds, mode := int64(3607), int32(0o644)
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: &mode, Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &seconds, Path: "token"}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: RootConfigMap},
				Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace",
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
		}}}})
}

// prioritize gives a pod the priority of its class, or of the default one.
func (c Admission) prioritize(p *corev1.Pod) error {
	value, never := int32(0), corev1.PreemptLowerPriority
	for _, class := range control.All[schedulingv1.PriorityClass](c, "priorityclasses.scheduling.k8s.io") {
		if class.Name != p.Spec.PriorityClassName && (p.Spec.PriorityClassName != "" || !class.GlobalDefault) {
			continue
		}
		p.Spec.PriorityClassName, value = class.Name, class.Value
		if class.PreemptionPolicy != nil {
			never = *class.PreemptionPolicy
		}
		p.Spec.Priority, p.Spec.PreemptionPolicy = &value, &never
		return nil
	}
	if p.Spec.PriorityClassName != "" {
		return fmt.Errorf("no PriorityClass with name %s was found", p.Spec.PriorityClassName)
	}
	p.Spec.Priority, p.Spec.PreemptionPolicy = &value, &never
	return nil
}

// qosOf is a pod's class: GetPodQOS of pkg/apis/core/v1/helper/qos.
func qosOf(p *corev1.Pod) corev1.PodQOSClass {
	all, guaranteed := 0, true
	for _, ct := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := ct.Resources.Requests[name], ct.Resources.Limits[name]
			if !request.IsZero() || !limit.IsZero() {
				all++
			}
			if limit.IsZero() || request.Cmp(limit) != 0 {
				guaranteed = false
			}
		}
	}
	switch {
	case all == 0:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}
