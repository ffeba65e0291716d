package schedule

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/sim/kubesim/internal/control"
)

// noDevices is what the plugin dynamicresources says of a node that has too few.
const noDevices = "cannot allocate all claims"

// devices are those that nodes offer by Dynamic Resource Allocation, where pods request them by the name of an
// extended resource. Expressions are not evaluated: a class has all devices of type gpu of the driver of its name.
type devices struct {
	drivers map[corev1.ResourceName]string
	free    map[string]map[string][]string // by node and driver
}

// countDevices also deletes the claims that were made for pods that have ended, as their controller does.
func (s Scheduler) countDevices() devices {
	d := devices{drivers: map[corev1.ResourceName]string{}, free: map[string]map[string][]string{}}
	for _, class := range control.All[resourcev1.DeviceClass](s, "deviceclasses.resource.k8s.io") {
		if name := class.Spec.ExtendedResourceName; name != nil {
			d.drivers[corev1.ResourceName(*name)] = class.Name
		}
	}
	if len(d.drivers) == 0 {
		return d
	}
	taken := map[[3]string]bool{} // node, driver, device
	for _, claim := range control.All[resourcev1.ResourceClaim](s, "resourceclaims.resource.k8s.io") {
		owner := metav1.GetControllerOfNoCopy(claim)
		if owner == nil || claim.Status.Allocation == nil {
			continue
		}
		if p := control.Get[corev1.Pod](s, "pods", claim.Namespace, owner.Name); p != nil && p.UID == owner.UID && control.Ended(p) {
			s.Delete(claim, nil)
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			taken[[3]string{r.Pool, r.Driver, r.Device}] = true
		}
	}
	for _, slice := range control.All[resourcev1.ResourceSlice](s, "resourceslices.resource.k8s.io") {
		if slice.Spec.NodeName == nil {
			continue
		}
		node, driver := *slice.Spec.NodeName, slice.Spec.Driver
		if d.free[node] == nil {
			d.free[node] = map[string][]string{}
		}
		for _, dev := range slice.Spec.Devices {
			kind := dev.Attributes["type"].StringValue
			if kind != nil && *kind == "gpu" && !taken[[3]string{node, driver, dev.Name}] {
				d.free[node][driver] = append(d.free[node][driver], dev.Name)
			}
		}
	}
	return d
}

// claimed reports whether a resource is a driver's on a node: one of which the node's status has some is not.
func (d devices) claimed(name corev1.ResourceName, n *corev1.Node) bool {
	q := n.Status.Allocatable[name]
	return d.drivers[name] != "" && q.IsZero()
}

// take makes the claim for what a pod's containers request of drivers, and returns the pod with its status.
func (s Scheduler) take(p *corev1.Pod, n *corev1.Node, d devices) *corev1.Pod {
	if len(d.drivers) == 0 {
		return p
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, Name: p.Name + "-extended-resources-" + s.Suffix(),
		Annotations:     map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p, corev1.SchemeGroupVersion.WithKind("Pod"))},
	}}
	status := &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: claim.Name}
	given := &resourcev1.AllocationResult{}
	for i, c := range p.Spec.Containers {
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Requests)) {
			q := c.Resources.Requests[name]
			if !d.claimed(name, n) || q.IsZero() {
				continue
			}
			request, driver := fmt.Sprintf("container-%d-request-%d", i, len(status.RequestMappings)), d.drivers[name]
			claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourcev1.DeviceRequest{Name: request,
				Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: driver, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: q.Value()}})
			status.RequestMappings = append(status.RequestMappings, corev1.ContainerExtendedResourceRequest{ContainerName: c.Name, ResourceName: string(name), RequestName: request})
			free := d.free[n.Name][driver]
			for _, device := range free[:q.Value()] {
				given.Devices.Results = append(given.Devices.Results, resourcev1.DeviceRequestAllocationResult{Request: request, Driver: driver, Pool: n.Name, Device: device})
			}
			d.free[n.Name][driver] = slices.Clone(free[q.Value():])
		}
	}
	if len(status.RequestMappings) == 0 {
		return p
	}
	claim.Status = resourcev1.ResourceClaimStatus{Allocation: given, ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}}}
	if s.Create(claim) != nil {
		return p // its pod goes without, as one whose claim somebody deleted
	}
	out := p.DeepCopy()
	out.Status.ExtendedResourceClaimStatus = status
	return out
}
