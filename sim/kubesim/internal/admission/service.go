package admission

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/cps-gpu/homelab/sim/kubesim/internal/control"
)

// Allocate gives a Service its address and the ports on nodes; was is what it is written over,
// whose address and ports it keeps (pkg/registry/core/service/storage/alloc.go).
func (c Admission) Allocate(s, was *corev1.Service) error {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil
		return nil
	}
	if was != nil && s.Spec.ClusterIP == "" {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = was.Spec.ClusterIP, was.Spec.ClusterIPs
	}
	single := corev1.IPFamilyPolicySingleStack
	if s.Spec.IPFamilyPolicy == nil {
		s.Spec.IPFamilyPolicy = &single
	}
	if len(s.Spec.IPFamilies) == 0 {
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	c.allocatePorts(s, was)
	taken := map[string]bool{}
	for _, o := range control.All[corev1.Service](c, "services") {
		if o.Namespace != s.Namespace || o.Name != s.Name {
			taken[o.Spec.ClusterIP] = true
		}
	}
	if s.Spec.ClusterIP == "" {
		s.Spec.ClusterIP = freeAddress(c.Services, taken)
	} else if s.Spec.ClusterIP != corev1.ClusterIPNone && taken[s.Spec.ClusterIP] {
		return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), s.Name, field.ErrorList{field.Invalid(field.NewPath("spec", "clusterIPs"),
			[]string{s.Spec.ClusterIP}, "failed to allocate IP "+s.Spec.ClusterIP+": provided IP is already allocated")})
	}
	s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
	return nil
}

// freeAddress leaves the first addresses of a range to those who ask for one by name.
func freeAddress(in netip.Prefix, taken map[string]bool) string {
	const reserved = 256
	at := in.Masked().Addr()
	for range reserved {
		at = at.Next()
	}
	for in.Contains(at) {
		if !taken[at.String()] {
			return at.String()
		}
		at = at.Next()
	}
	return ""
}

func (c Admission) allocatePorts(s, was *corev1.Service) {
	wants := s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		(s.Spec.AllocateLoadBalancerNodePorts == nil || *s.Spec.AllocateLoadBalancerNodePorts)
	if !wants {
		return
	}
	taken := map[int32]bool{}
	for _, o := range control.All[corev1.Service](c, "services") {
		for _, p := range o.Spec.Ports {
			taken[p.NodePort] = true
		}
	}
	next := int32(30000)
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if was != nil && p.NodePort == 0 {
			for _, old := range was.Spec.Ports {
				if old.Port == p.Port && old.Protocol == p.Protocol {
					p.NodePort = old.NodePort
				}
			}
		}
		if p.NodePort != 0 {
			continue
		}
		for taken[next] {
			next++
		}
		p.NodePort, taken[next] = next, true
	}
}
