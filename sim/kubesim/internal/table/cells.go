package table

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
)

func or(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

// share is how many of those that are wanted are there.
func share(have int32, want *int32) string { return fmt.Sprintf("%d/%d", have, or(want)) }

func labelsOf(m map[string]string) string { return labels.FormatLabels(m) }

// imagesOf are the names and images of containers, and the selector of a workload.
func imagesOf(containers []corev1.Container, selector *metav1.LabelSelector) []any {
	var names, images []string
	for _, c := range containers {
		names, images = append(names, c.Name), append(images, c.Image)
	}
	return []any{strings.Join(names, ","), strings.Join(images, ","), metav1.FormatLabelSelector(selector)}
}

// some are the first three of a list.
func some(list []string, without string) string {
	const most = 3
	switch {
	case len(list) == 0:
		return without
	case len(list) > most:
		return fmt.Sprintf("%s + %d more...", strings.Join(list[:most], ","), len(list)-most)
	}
	return strings.Join(list, ",")
}

func portNumber(p discoveryv1.EndpointPort) string {
	switch {
	case p.Port != nil:
		return strconv.Itoa(int(*p.Port))
	case p.Name != nil:
		return *p.Name
	}
	return "*"
}

func node(o *corev1.Node) []any {
	status := "Unknown"
	for _, c := range o.Status.Conditions {
		if c.Type == corev1.NodeReady {
			status = map[bool]string{true: "Ready", false: "NotReady"}[c.Status == corev1.ConditionTrue]
		}
	}
	if o.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	roles := map[string]bool{}
	for k, v := range o.Labels {
		if role, ok := strings.CutPrefix(k, "node-role.kubernetes.io/"); ok && role != "" {
			roles[role] = true
		}
		if k == "kubernetes.io/role" && v != "" {
			roles[v] = true
		}
	}
	address := func(kind corev1.NodeAddressType) string {
		for _, a := range o.Status.Addresses {
			if a.Type == kind {
				return a.Address
			}
		}
		return none
	}
	info := o.Status.NodeInfo
	kernel := text(info.KernelVersion, "<unknown>")
	if info.Architecture != "" {
		kernel += " (" + info.Architecture + ")"
	}
	return []any{status, text(strings.Join(slices.Sorted(maps.Keys(roles)), ","), none), age(o.CreationTimestamp), info.KubeletVersion,
		address(corev1.NodeInternalIP), address(corev1.NodeExternalIP), text(info.OSImage, "<unknown>"), kernel, text(info.ContainerRuntimeVersion, "<unknown>")}
}

func text(s, without string) string {
	if s == "" {
		return without
	}
	return s
}

func job(o *batchv1.Job) []any {
	completions := fmt.Sprintf("%d/1", o.Status.Succeeded)
	if o.Spec.Completions != nil {
		completions = share(o.Status.Succeeded, o.Spec.Completions)
	} else if or(o.Spec.Parallelism) > 1 {
		completions += fmt.Sprintf(" of %d", or(o.Spec.Parallelism))
	}
	took := ""
	if s := o.Status; s.StartTime != nil && s.CompletionTime != nil {
		took = duration.HumanDuration(s.CompletionTime.Sub(s.StartTime.Time))
	} else if s.StartTime != nil {
		took = duration.HumanDuration(time.Since(s.StartTime.Time))
	}
	has := func(kind batchv1.JobConditionType) bool {
		return slices.ContainsFunc(o.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
	}
	status := "Running"
	switch {
	case has(batchv1.JobComplete):
		status = "Complete"
	case has(batchv1.JobFailed):
		status = "Failed"
	case o.DeletionTimestamp != nil:
		status = "Terminating"
	case has(batchv1.JobSuspended):
		status = "Suspended"
	case has(batchv1.JobFailureTarget):
		status = "FailureTarget"
	case has(batchv1.JobSuccessCriteriaMet):
		status = "SuccessCriteriaMet"
	}
	return append([]any{status, completions, took, age(o.CreationTimestamp)}, imagesOf(o.Spec.Template.Spec.Containers, o.Spec.Selector)...)
}

func service(o *corev1.Service) []any {
	inside, outside := none, none
	if len(o.Spec.ClusterIPs) > 0 {
		inside = o.Spec.ClusterIPs[0]
	}
	all := o.Spec.ExternalIPs
	if o.Spec.Type == corev1.ServiceTypeLoadBalancer {
		var given []string
		for _, in := range o.Status.LoadBalancer.Ingress {
			given = append(given, text(in.IP, in.Hostname))
		}
		slices.Sort(given)
		all, outside = append(slices.Compact(given), all...), "<pending>"
	}
	switch {
	case o.Spec.Type == corev1.ServiceTypeExternalName:
		outside = o.Spec.ExternalName
	case len(all) > 0:
		outside = strings.Join(all, ",")
	}
	var ports []string
	for _, p := range o.Spec.Ports {
		at := strconv.Itoa(int(p.Port))
		if p.NodePort > 0 {
			at += ":" + strconv.Itoa(int(p.NodePort))
		}
		ports = append(ports, at+"/"+string(p.Protocol))
	}
	return []any{string(o.Spec.Type), inside, outside, text(strings.Join(ports, ","), none), age(o.CreationTimestamp), labelsOf(o.Spec.Selector)}
}

func ingress(o *networkingv1.Ingress) []any {
	class := none
	if o.Spec.IngressClassName != nil {
		class = *o.Spec.IngressClassName
	}
	var hosts, at []string
	for _, r := range o.Spec.Rules {
		if r.Host != "" {
			hosts = append(hosts, r.Host)
		}
	}
	for _, in := range o.Status.LoadBalancer.Ingress {
		at = append(at, text(in.IP, in.Hostname))
	}
	slices.Sort(at)
	ports := "80"
	if len(o.Spec.TLS) > 0 {
		ports = "80, 443"
	}
	return []any{class, some(hosts, "*"), strings.Join(slices.Compact(at), ","), ports, age(o.CreationTimestamp)}
}

func modes(list []corev1.PersistentVolumeAccessMode) string {
	var out []string
	for _, m := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteMany, "RWX"}, {corev1.ReadWriteOncePod, "RWOP"}} {
		if slices.Contains(list, m.mode) {
			out = append(out, m.short)
		}
	}
	return strings.Join(out, ",")
}

func point[T ~string](p *T, without string) string {
	if p == nil {
		return without
	}
	return string(*p)
}

func volume(o *corev1.PersistentVolume) []any {
	claim, phase := "", string(o.Status.Phase)
	if r := o.Spec.ClaimRef; r != nil {
		claim = r.Namespace + "/" + r.Name
	}
	if o.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	size := o.Spec.Capacity[corev1.ResourceStorage]
	return []any{size.String(), modes(o.Spec.AccessModes), string(o.Spec.PersistentVolumeReclaimPolicy), phase, claim, o.Spec.StorageClassName,
		point(o.Spec.VolumeAttributesClassName, "<unset>"), o.Status.Reason, age(o.CreationTimestamp), point(o.Spec.VolumeMode, "<unset>")}
}

func claim(o *corev1.PersistentVolumeClaim) []any {
	phase, size, access := string(o.Status.Phase), "", ""
	if o.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	if o.Spec.VolumeName != "" {
		q := o.Status.Capacity[corev1.ResourceStorage]
		size, access = q.String(), modes(o.Status.AccessModes)
	}
	class := o.Annotations[corev1.BetaStorageClassAnnotation]
	if class == "" {
		class = point(o.Spec.StorageClassName, "")
	}
	return []any{phase, o.Spec.VolumeName, size, access, class, point(o.Spec.VolumeAttributesClassName, "<unset>"), age(o.CreationTimestamp), point(o.Spec.VolumeMode, "<unset>")}
}

func eventColumns() []Column {
	out := columns("Type", "Reason", "Object", "Subobject!", "Source!", "Message", "First Seen!", "Count!", "Name!")
	out[0] = Column{Name: "Last Seen", Type: "string"}
	out[len(out)-1].Format = "name"
	return out
}

func event(obj runtime.Object) []any {
	o, _ := obj.(*corev1.Event)
	first, last, count := age(o.FirstTimestamp), age(o.LastTimestamp), o.Count
	if o.FirstTimestamp.IsZero() {
		first = age(metav1.Time(o.EventTime))
	}
	if o.LastTimestamp.IsZero() {
		last = first
	}
	if o.Series != nil {
		last, count = age(metav1.Time(o.Series.LastObservedTime)), o.Series.Count
	} else if count == 0 {
		count = 1
	}
	about := strings.ToLower(o.InvolvedObject.Kind)
	if o.InvolvedObject.Name != "" {
		about += "/" + o.InvolvedObject.Name
	}
	source := text(o.Source.Component, o.ReportingController)
	if host := text(o.Source.Host, o.ReportingInstance); host != "" {
		source += ", " + host
	}
	return []any{last, o.Type, o.Reason, about, o.InvolvedObject.FieldPath, source, strings.TrimSpace(o.Message), first, count, o.Name}
}
