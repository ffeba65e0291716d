package admission

import (
	"net/netip"
	"slices"

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
	if err := c.families(s, was); err != nil {
		return err
	}
	c.allocatePorts(s, was)
	if s.Spec.ClusterIP == corev1.ClusterIPNone {
		s.Spec.ClusterIPs = []string{corev1.ClusterIPNone}
		return nil
	}
	taken := map[string]bool{}
	for _, o := range control.All[corev1.Service](c, "services") {
		for _, ip := range o.Spec.ClusterIPs {
			taken[ip] = taken[ip] || o.Namespace != s.Namespace || o.Name != s.Name
		}
	}
	ips := slices.Clone(s.Spec.ClusterIPs)
	if len(ips) == 0 && s.Spec.ClusterIP != "" {
		ips = []string{s.Spec.ClusterIP}
	}
	for i, family := range s.Spec.IPFamilies {
		if i >= len(ips) {
			at := slices.IndexFunc(c.Services, func(p netip.Prefix) bool { return familyOf(p) == family })
			ips = append(ips, freeAddress(c.Services[at], taken))
		} else if taken[ips[i]] {
			return invalid(s, field.Invalid(field.NewPath("spec", "clusterIPs"), []string{ips[i]}, "failed to allocate IP "+ips[i]+": provided IP is already allocated"))
		}
	}
	s.Spec.ClusterIPs = ips[:len(s.Spec.IPFamilies)]
	s.Spec.ClusterIP = ips[0]
	return nil
}

func invalid(s *corev1.Service, why *field.Error) error {
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), s.Name, field.ErrorList{why})
}

func familyOf(p netip.Prefix) corev1.IPFamily {
	if p.Addr().Is6() {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// families completes a Service's families: that which the cluster prefers, or both if it asks for them
// (initIPFamilyFields). One that is headless and selects nothing has both, whatever the cluster has.
func (c Admission) families(s, was *corev1.Service) error {
	spec := &s.Spec
	alone := spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0
	if spec.IPFamilyPolicy == nil && was != nil {
		spec.IPFamilyPolicy = was.Spec.IPFamilyPolicy
	}
	if spec.IPFamilyPolicy == nil {
		policy := corev1.IPFamilyPolicySingleStack
		if alone {
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
		spec.IPFamilyPolicy = &policy
	}
	if len(spec.IPFamilies) == 0 && was != nil {
		spec.IPFamilies = was.Spec.IPFamilies
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{familyOf(c.Services[0])}
	}
	single := *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
	switch {
	case single:
		spec.IPFamilies = spec.IPFamilies[:1]
	case len(c.Services) == 1 && !alone && *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack:
		return invalid(s, field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), *spec.IPFamilyPolicy, "this cluster is not configured for dual-stack services"))
	case len(spec.IPFamilies) == 1 && (alone || len(c.Services) == 2):
		other := map[corev1.IPFamily]corev1.IPFamily{corev1.IPv4Protocol: corev1.IPv6Protocol, corev1.IPv6Protocol: corev1.IPv4Protocol}
		spec.IPFamilies = []corev1.IPFamily{spec.IPFamilies[0], other[spec.IPFamilies[0]]}
	}
	for i, family := range spec.IPFamilies {
		if !alone && !slices.ContainsFunc(c.Services, func(p netip.Prefix) bool { return familyOf(p) == family }) {
			return invalid(s, field.Invalid(field.NewPath("spec", "ipFamilies").Index(i), family, "not configured on this cluster"))
		}
	}
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
