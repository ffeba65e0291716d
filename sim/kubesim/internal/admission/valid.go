package admission

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// WellFormed is the little of the API server's validation that a manifest's author meets.
func WellFormed(obj any) field.ErrorList {
	var selector *metav1.LabelSelector
	var template *corev1.PodTemplateSpec
	switch o := obj.(type) {
	case *appsv1.Deployment:
		selector, template = o.Spec.Selector, &o.Spec.Template
	case *appsv1.ReplicaSet:
		selector, template = o.Spec.Selector, &o.Spec.Template
	case *appsv1.DaemonSet:
		selector, template = o.Spec.Selector, &o.Spec.Template
	case *appsv1.StatefulSet:
		selector, template = o.Spec.Selector, &o.Spec.Template
	case *corev1.Pod:
		return containers(field.NewPath("spec"), o.Spec.Containers)
	case *batchv1.Job:
		return containers(field.NewPath("spec", "template", "spec"), o.Spec.Template.Spec.Containers)
	default:
		return nil
	}
	var errs field.ErrorList
	if selector == nil {
		errs = append(errs, field.Required(field.NewPath("spec", "selector"), ""))
	} else if s, err := metav1.LabelSelectorAsSelector(selector); err != nil || !s.Matches(labels.Set(template.Labels)) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "template", "metadata", "labels"), template.Labels, "`selector` does not match template `labels`"))
	}
	return append(errs, containers(field.NewPath("spec", "template", "spec"), template.Spec.Containers)...)
}

// SizeErrors says why a claim cannot have another size: ValidatePersistentVolumeClaimUpdate of
// pkg/apis/core/validation, without the list of differences of the two specs.
func SizeErrors(claim, was *corev1.PersistentVolumeClaim) field.ErrorList {
	size, before, has := sizeOf(claim), sizeOf(was), was.Status.Capacity[corev1.ResourceStorage]
	switch {
	case size.Cmp(before) != 0 && was.Status.Phase != corev1.ClaimBound:
		return field.ErrorList{field.Forbidden(field.NewPath("spec"), "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims")}
	case size.Cmp(before) < 0 && size.Cmp(has) <= 0:
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "resources", "requests", "storage"), "field can not be less than status.capacity")}
	}
	return nil
}

func sizeOf(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

func containers(at *field.Path, list []corev1.Container) (errs field.ErrorList) {
	if len(list) == 0 {
		return field.ErrorList{field.Required(at.Child("containers"), "")}
	}
	for i, ct := range list {
		if ct.Name == "" {
			errs = append(errs, field.Required(at.Child("containers").Index(i).Child("name"), ""))
		}
		if ct.Image == "" {
			errs = append(errs, field.Required(at.Child("containers").Index(i).Child("image"), ""))
		}
	}
	return errs
}

// addFinalizer makes an object wait for somebody before it goes.
func addFinalizer(m *metav1.ObjectMeta, name string) {
	if !slices.Contains(m.Finalizers, name) {
		m.Finalizers = append(m.Finalizers, name)
	}
}
