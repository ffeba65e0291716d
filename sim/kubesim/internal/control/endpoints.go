package control

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// endpoints keeps one EndpointSlice for each Service with a selector: pkg/controller/endpointslice.
func (c *Controllers) endpoints(pods podIndex) {
	have := map[types.UID]*discoveryv1.EndpointSlice{}
	for _, s := range All[discoveryv1.EndpointSlice](c, "endpointslices.discovery.k8s.io") {
		if o := metav1.GetControllerOfNoCopy(s); o != nil {
			have[o.UID] = s
		}
	}
	for _, s := range All[corev1.Service](c, "services") {
		if len(s.Spec.Selector) == 0 || s.Spec.Type == corev1.ServiceTypeExternalName || s.DeletionTimestamp != nil {
			continue
		}
		want := sliceOf(s, pods.all)
		is := have[s.UID]
		switch {
		case is == nil:
			want.Name, want.GenerateName = s.Name+"-"+c.Suffix(), s.Name+"-"
			_ = c.Create(want) // of the namespace of a Service that is there
		case !equality.Semantic.DeepEqual(is.Endpoints, want.Endpoints) || !equality.Semantic.DeepEqual(is.Ports, want.Ports) ||
			!equality.Semantic.DeepEqual(is.Labels, want.Labels):
			out := is.DeepCopy()
			out.Labels, out.Endpoints, out.Ports = want.Labels, want.Endpoints, want.Ports
			c.Update(out)
		}
	}
}

// PortOf is the port on which a pod serves a Service's port; 0: none.
func PortOf(p *corev1.Pod, port corev1.ServicePort) int32 {
	if port.TargetPort.StrVal == "" {
		return port.TargetPort.IntVal
	}
	for _, ct := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		for _, cp := range ct.Ports {
			if cp.Name == port.TargetPort.StrVal && cp.Protocol == port.Protocol {
				return cp.ContainerPort
			}
		}
	}
	return 0
}

func sliceOf(s *corev1.Service, pods []*corev1.Pod) *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Namespace, OwnerReferences: controlledBy(s, "v1", "Service"), Labels: map[string]string{}}}
	if len(s.Spec.IPFamilies) > 0 && s.Spec.IPFamilies[0] == corev1.IPv6Protocol {
		out.AddressType = discoveryv1.AddressTypeIPv6
	}
	for k, v := range s.Labels {
		out.Labels[k] = v
	}
	out.Labels[discoveryv1.LabelServiceName], out.Labels[discoveryv1.LabelManagedBy] = s.Name, "endpointslice-controller.k8s.io"
	if s.Spec.ClusterIP == corev1.ClusterIPNone {
		out.Labels[corev1.IsHeadlessService] = ""
	}
	selector := labels.SelectorFromSet(s.Spec.Selector)
	for _, p := range pods {
		if p.Namespace != s.Namespace || p.Status.PodIP == "" || Ended(p) || !selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		serving, terminating := Ready(p), p.DeletionTimestamp != nil
		open := serving && !terminating || s.Spec.PublishNotReadyAddresses
		e := discoveryv1.Endpoint{Addresses: []string{p.Status.PodIP},
			Conditions: discoveryv1.EndpointConditions{Ready: &open, Serving: &serving, Terminating: &terminating},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}}
		if p.Spec.NodeName != "" {
			node := p.Spec.NodeName
			e.NodeName = &node
		}
		if p.Spec.Hostname != "" && p.Spec.Subdomain == s.Name {
			name := p.Spec.Hostname
			e.Hostname = &name
		}
		out.Endpoints = append(out.Endpoints, e)
		if len(out.Ports) == 0 {
			out.Ports = portsOf(s, p)
		}
	}
	return out
}

func portsOf(s *corev1.Service, p *corev1.Pod) []discoveryv1.EndpointPort {
	var out []discoveryv1.EndpointPort
	for _, port := range s.Spec.Ports {
		if n := PortOf(p, port); n > 0 {
			name, protocol := port.Name, port.Protocol
			out = append(out, discoveryv1.EndpointPort{Name: &name, Protocol: &protocol, Port: &n, AppProtocol: port.AppProtocol})
		}
	}
	return out
}
