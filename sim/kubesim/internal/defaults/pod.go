package defaults

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

func pod(p *corev1.Pod) {
	spec(&p.Spec)
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			requestLimits(&list[i].Resources)
			for j := range list[i].Ports {
				if p.Spec.HostNetwork {
					set(&list[i].Ports[j].HostPort, list[i].Ports[j].ContainerPort)
				}
			}
		}
	}
	point(&p.Spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
}

// requestLimits has a container request what it is limited to, where it says nothing else.
func requestLimits(r *corev1.ResourceRequirements) {
	if r.Limits != nil && r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	for name, q := range r.Limits {
		if _, there := r.Requests[name]; !there {
			r.Requests[name] = q.DeepCopy()
		}
	}
}

func template(t *corev1.PodTemplateSpec) { spec(&t.Spec) }

func spec(s *corev1.PodSpec) {
	set(&s.DNSPolicy, corev1.DNSClusterFirst)
	set(&s.RestartPolicy, corev1.RestartPolicyAlways)
	point(&s.SecurityContext, corev1.PodSecurityContext{})
	point(&s.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	set(&s.SchedulerName, corev1.DefaultSchedulerName)
	set(&s.DeprecatedServiceAccount, s.ServiceAccountName) // the old name of the field is kept alike, pkg/apis/core/v1/conversion.go
	set(&s.ServiceAccountName, s.DeprecatedServiceAccount)
	for i := range s.InitContainers {
		container(&s.InitContainers[i])
	}
	for i := range s.Containers {
		container(&s.Containers[i])
	}
	for i := range s.Volumes {
		volume(&s.Volumes[i])
	}
}

func container(c *corev1.Container) {
	if tagOf(c.Image) == "latest" {
		set(&c.ImagePullPolicy, corev1.PullAlways)
	}
	set(&c.ImagePullPolicy, corev1.PullIfNotPresent)
	set(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	set(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		set(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			field(from.FieldRef)
		}
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p == nil {
			continue
		}
		set(&p.TimeoutSeconds, 1)
		set(&p.PeriodSeconds, 10)
		set(&p.SuccessThreshold, 1)
		set(&p.FailureThreshold, 3)
		httpGet(p.HTTPGet)
		if p.GRPC != nil {
			point(&p.GRPC.Service, "")
		}
	}
	if l := c.Lifecycle; l != nil {
		for _, h := range []*corev1.LifecycleHandler{l.PostStart, l.PreStop} {
			if h != nil {
				httpGet(h.HTTPGet)
			}
		}
	}
}

func httpGet(a *corev1.HTTPGetAction) {
	if a != nil {
		set(&a.Path, "/")
		set(&a.Scheme, corev1.URISchemeHTTP)
	}
}

func field(f *corev1.ObjectFieldSelector) {
	if f != nil {
		set(&f.APIVersion, "v1")
	}
}

func volume(v *corev1.Volume) {
	const mode = int32(0o644)
	if v.VolumeSource == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	hostPath(v.HostPath)
	switch {
	case v.Secret != nil:
		point(&v.Secret.DefaultMode, mode)
	case v.ConfigMap != nil:
		point(&v.ConfigMap.DefaultMode, mode)
	case v.DownwardAPI != nil:
		point(&v.DownwardAPI.DefaultMode, mode)
		for i := range v.DownwardAPI.Items {
			field(v.DownwardAPI.Items[i].FieldRef)
		}
	case v.Projected != nil:
		point(&v.Projected.DefaultMode, mode)
		for _, s := range v.Projected.Sources {
			if s.ServiceAccountToken != nil {
				point(&s.ServiceAccountToken.ExpirationSeconds, int64(time.Hour/time.Second))
			}
			if s.DownwardAPI != nil {
				for i := range s.DownwardAPI.Items {
					field(s.DownwardAPI.Items[i].FieldRef)
				}
			}
		}
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		point(&v.Ephemeral.VolumeClaimTemplate.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	case v.Image != nil:
		if tagOf(v.Image.Reference) == "latest" {
			set(&v.Image.PullPolicy, corev1.PullAlways)
		}
		set(&v.Image.PullPolicy, corev1.PullIfNotPresent)
	}
}

func hostPath(h *corev1.HostPathVolumeSource) {
	if h != nil {
		point(&h.Type, corev1.HostPathUnset)
	}
}
