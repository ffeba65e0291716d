package table

import (
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// columns reads short descriptions: a name, an exclamation mark for -o wide, a type other than
// string.
func columns(described ...string) []Column {
	out := []Column{name()}
	for _, d := range described {
		label, kind, typed := strings.Cut(d, ":")
		if !typed {
			kind = "string"
		}
		c := Column{Name: strings.TrimSuffix(label, "!"), Type: kind}
		if c.Name != label {
			c.Priority = 1
		}
		out = append(out, c)
	}
	return out
}

type rowOf func(runtime.Object) []any

// row makes a row of an object's cells after its name.
func row[T any, P interface {
	*T
	metav1.Object
}](cells func(P) []any) rowOf {
	return func(obj runtime.Object) []any {
		o, _ := any(obj).(P)
		return append([]any{o.GetName()}, cells(o)...)
	}
}

// kindOf returns the columns of a built-in kind and what makes a row; nil for one of which only
// the name and the age are shown.
func kindOf(gvk schema.GroupVersionKind) ([]Column, rowOf) {
	images := []string{"Containers!", "Images!", "Selector!"}
	switch gvk.Kind {
	case "Pod":
		return columns("Ready", "Status", "Restarts", "Age", "IP!", "Node!", "Nominated Node!", "Readiness Gates!"), row(pod)
	case "Node":
		return columns("Status", "Roles", "Age", "Version", "Internal-IP!", "External-IP!", "OS-Image!", "Kernel-Version!", "Container-Runtime!"), row(node)
	case "Deployment":
		return columns(append([]string{"Ready", "Up-to-date", "Available", "Age"}, images...)...), row(deployment)
	case "ReplicaSet":
		return columns(append([]string{"Desired:integer", "Current:integer", "Ready:integer", "Age"}, images...)...), row(replicaSet)
	case "DaemonSet":
		return columns(append([]string{"Desired:integer", "Current:integer", "Ready:integer", "Up-to-date:integer", "Available:integer",
			"Node Selector", "Age"}, images...)...), row(daemonSet)
	case "StatefulSet":
		return columns("Ready", "Age", "Containers!", "Images!"), row(statefulSet)
	case "Job":
		return columns(append([]string{"Status", "Completions", "Duration", "Age"}, images...)...), row(job)
	case "CronJob":
		return columns(append([]string{"Schedule", "Timezone", "Suspend:boolean", "Active:integer", "Last Schedule", "Age"}, images...)...), row(cronJob)
	case "Service":
		return columns("Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector!"), row(service)
	case "Ingress":
		return columns("Class", "Hosts", "Address", "Ports", "Age"), row(ingress)
	case "PersistentVolume":
		return columns("Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass", "VolumeAttributesClass", "Reason", "Age", "VolumeMode!"), row(volume)
	case "PersistentVolumeClaim":
		return columns("Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass", "Age", "VolumeMode!"), row(claim)
	case "StorageClass":
		return columns("Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"), storageClass
	case "IngressClass":
		return columns("Controller", "Parameters", "Age"), ingressClass
	case "Event":
		return eventColumns(), event
	}
	return small(gvk)
}

// small are the kinds with a few cells.
func small(gvk schema.GroupVersionKind) ([]Column, rowOf) {
	switch gvk.Kind {
	case "Namespace":
		return columns("Status", "Age"), row(func(o *corev1.Namespace) []any { return []any{string(o.Status.Phase), age(o.CreationTimestamp)} })
	case "Secret":
		return columns("Type", "Data", "Age"), row(func(o *corev1.Secret) []any { return []any{string(o.Type), len(o.Data), age(o.CreationTimestamp)} })
	case "ConfigMap":
		return columns("Data", "Age"), row(func(o *corev1.ConfigMap) []any {
			return []any{len(o.Data) + len(o.BinaryData), age(o.CreationTimestamp)}
		})
	case "ServiceAccount":
		return columns("Age"), row(func(o *corev1.ServiceAccount) []any { return []any{age(o.CreationTimestamp)} })
	case "Lease":
		return columns("Holder", "Age"), row(func(o *coordinationv1.Lease) []any {
			holder := ""
			if o.Spec.HolderIdentity != nil {
				holder = *o.Spec.HolderIdentity
			}
			return []any{holder, age(o.CreationTimestamp)}
		})
	case "PriorityClass":
		return columns("Value:integer", "Global-Default:boolean", "Age", "PreemptionPolicy"), row(func(o *schedulingv1.PriorityClass) []any {
			policy := ""
			if o.PreemptionPolicy != nil {
				policy = string(*o.PreemptionPolicy)
			}
			return []any{o.Value, o.GlobalDefault, age(o.CreationTimestamp), policy}
		})
	case "RuntimeClass":
		return columns("Handler", "Age"), row(func(o *nodev1.RuntimeClass) []any { return []any{o.Handler, age(o.CreationTimestamp)} })
	case "PodDisruptionBudget":
		return columns("Min Available", "Max Unavailable", "Allowed Disruptions:integer", "Age"), row(budget)
	case "EndpointSlice":
		return columns("AddressType", "Ports", "Endpoints", "Age"), row(endpointSlice)
	case "RoleBinding":
		return columns("Role", "Age", "Users!", "Groups!", "ServiceAccounts!"), row(func(o *rbacv1.RoleBinding) []any { return binding(o.RoleRef, o.Subjects, o.CreationTimestamp) })
	case "ClusterRoleBinding":
		return columns("Role", "Age", "Users!", "Groups!", "ServiceAccounts!"), row(func(o *rbacv1.ClusterRoleBinding) []any { return binding(o.RoleRef, o.Subjects, o.CreationTimestamp) })
	case "NetworkPolicy":
		return columns("Pod-Selector", "Age"), row(func(o *networkingv1.NetworkPolicy) []any {
			return []any{metav1.FormatLabelSelector(&o.Spec.PodSelector), age(o.CreationTimestamp)}
		})
	case "ValidatingWebhookConfiguration":
		return columns("Webhooks:integer", "Age"), row(func(o *admissionv1.ValidatingWebhookConfiguration) []any {
			return []any{len(o.Webhooks), age(o.CreationTimestamp)}
		})
	case "MutatingWebhookConfiguration":
		return columns("Webhooks:integer", "Age"), row(func(o *admissionv1.MutatingWebhookConfiguration) []any {
			return []any{len(o.Webhooks), age(o.CreationTimestamp)}
		})
	case "CSIDriver":
		return columns("AttachRequired:boolean", "PodInfoOnMount:boolean", "StorageCapacity:boolean", "TokenRequests", "RequiresRepublish:boolean", "Modes", "Age"), row(csiDriver)
	}
	return nil, nil
}

func csiDriver(o *storagev1.CSIDriver) []any {
	is := func(p *bool) bool { return p != nil && *p }
	var tokens, modes []string
	for _, t := range o.Spec.TokenRequests {
		tokens = append(tokens, t.Audience)
	}
	for _, m := range o.Spec.VolumeLifecycleModes {
		modes = append(modes, string(m))
	}
	return []any{o.Spec.AttachRequired == nil || *o.Spec.AttachRequired, is(o.Spec.PodInfoOnMount), is(o.Spec.StorageCapacity),
		text(strings.Join(tokens, ","), "<unset>"), is(o.Spec.RequiresRepublish), text(strings.Join(modes, ","), none), age(o.CreationTimestamp)}
}

func deployment(o *appsv1.Deployment) []any {
	return append([]any{share(o.Status.ReadyReplicas, o.Spec.Replicas), o.Status.UpdatedReplicas, o.Status.AvailableReplicas, age(o.CreationTimestamp)},
		imagesOf(o.Spec.Template.Spec.Containers, o.Spec.Selector)...)
}

func replicaSet(o *appsv1.ReplicaSet) []any {
	return append([]any{or(o.Spec.Replicas), o.Status.Replicas, o.Status.ReadyReplicas, age(o.CreationTimestamp)},
		imagesOf(o.Spec.Template.Spec.Containers, o.Spec.Selector)...)
}

func daemonSet(o *appsv1.DaemonSet) []any {
	s := o.Status
	return append([]any{s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberReady, s.UpdatedNumberScheduled, s.NumberAvailable,
		labelsOf(o.Spec.Template.Spec.NodeSelector), age(o.CreationTimestamp)}, imagesOf(o.Spec.Template.Spec.Containers, o.Spec.Selector)...)
}

func statefulSet(o *appsv1.StatefulSet) []any {
	return append([]any{share(o.Status.ReadyReplicas, o.Spec.Replicas), age(o.CreationTimestamp)}, imagesOf(o.Spec.Template.Spec.Containers, nil)[:2]...)
}

func budget(o *policyv1.PodDisruptionBudget) []any {
	least, most := "N/A", "N/A"
	if o.Spec.MinAvailable != nil {
		least = o.Spec.MinAvailable.String()
	}
	if o.Spec.MaxUnavailable != nil {
		most = o.Spec.MaxUnavailable.String()
	}
	return []any{least, most, o.Status.DisruptionsAllowed, age(o.CreationTimestamp)}
}

func endpointSlice(o *discoveryv1.EndpointSlice) []any {
	var ports, addresses []string
	for _, p := range o.Ports {
		ports = append(ports, portNumber(p))
	}
	for _, e := range o.Endpoints {
		addresses = append(addresses, e.Addresses...)
	}
	return []any{string(o.AddressType), some(ports, "<unset>"), some(addresses, "<unset>"), age(o.CreationTimestamp)}
}

func ingressClass(obj runtime.Object) []any {
	o, _ := obj.(*networkingv1.IngressClass)
	label, parameters := o.Name, none
	if o.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
		label += " (default)"
	}
	if p := o.Spec.Parameters; p != nil {
		parameters = p.Kind
		if p.APIGroup != nil {
			parameters += "." + *p.APIGroup
		}
		parameters += "/" + p.Name
	}
	return []any{label, o.Spec.Controller, parameters, age(o.CreationTimestamp)}
}

func storageClass(obj runtime.Object) []any {
	o, _ := obj.(*storagev1.StorageClass)
	label := o.Name
	if o.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" || o.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true" {
		label += " (default)"
	}
	policy, mode := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate
	if o.ReclaimPolicy != nil {
		policy = *o.ReclaimPolicy
	}
	if o.VolumeBindingMode != nil {
		mode = *o.VolumeBindingMode
	}
	return []any{label, o.Provisioner, string(policy), string(mode), o.AllowVolumeExpansion != nil && *o.AllowVolumeExpansion, age(o.CreationTimestamp)}
}

func binding(role rbacv1.RoleRef, subjects []rbacv1.Subject, made metav1.Time) []any {
	by := map[string][]string{}
	for _, s := range subjects {
		label := s.Name
		if s.Kind == rbacv1.ServiceAccountKind {
			label = s.Namespace + "/" + s.Name
		}
		by[s.Kind] = append(by[s.Kind], label)
	}
	join := func(kind string) string { return strings.Join(by[kind], ", ") }
	return []any{role.Kind + "/" + role.Name, age(made), join(rbacv1.UserKind), join(rbacv1.GroupKind), join(rbacv1.ServiceAccountKind)}
}

func cronJob(o *batchv1.CronJob) []any {
	zone, last := none, none
	if o.Spec.TimeZone != nil {
		zone = *o.Spec.TimeZone
	}
	if o.Status.LastScheduleTime != nil {
		last = age(*o.Status.LastScheduleTime)
	}
	suspended := "<unset>"
	if o.Spec.Suspend != nil {
		suspended = map[bool]string{true: "True", false: "False"}[*o.Spec.Suspend]
	}
	t := o.Spec.JobTemplate.Spec
	return append([]any{o.Spec.Schedule, zone, suspended, len(o.Status.Active), last, age(o.CreationTimestamp)}, imagesOf(t.Template.Spec.Containers, t.Selector)...)
}
