// Package dra is NVIDIA's driver for Dynamic Resource Allocation: what it publishes of a node's GPUs, and which of them a
// pod's claim has (kubernetes-sigs/dra-driver-nvidia-gpu, v0.4.0).
package dra

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/cps-gpu/homelab/sim/guest"
)

// Driver is the name of the driver, and of the class of its whole GPUs.
const Driver = "gpu.nvidia.com"

// IsDriver reports whether a pod is the driver's. It needs the machine's driver, and no runtime of NVIDIA's.
func IsDriver(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return strings.Contains(c.Image, "dra-driver-nvidia-gpu") })
}

// SliceName is the name of a node's ResourceSlice.
func SliceName(node string) string { return node + "-" + Driver }

// Slice is what the driver publishes: divided GPUs are of another type.
func Slice(node string, gpus []guest.GPU) resourcev1.ResourceSliceSpec {
	s := resourcev1.ResourceSliceSpec{Driver: Driver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}
	kind := "gpu"
	for _, gpu := range gpus {
		if gpu.MIG {
			continue
		}
		s.Devices = append(s.Devices, resourcev1.Device{Name: device(gpu), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"type": {StringValue: &kind}, "uuid": {StringValue: &gpu.UUID}, "productName": {StringValue: &gpu.Model},
		}})
	}
	return s
}

func device(gpu guest.GPU) string { return fmt.Sprintf("gpu-%d", gpu.Index) }

// GPUsOf are the UUIDs of the GPUs of a pod's claim, in the order of its containers.
func GPUsOf(p *corev1.Pod, claim *resourcev1.ResourceClaim, gpus []guest.GPU) []string {
	if claim == nil || claim.Status.Allocation == nil || p.Status.ExtendedResourceClaimStatus == nil {
		return nil
	}
	named := map[string]string{}
	for _, gpu := range gpus {
		named[device(gpu)] = gpu.UUID
	}
	var out []string
	for _, c := range p.Spec.Containers {
		for _, r := range p.Status.ExtendedResourceClaimStatus.RequestMappings {
			for _, has := range claim.Status.Allocation.Devices.Results {
				if r.ContainerName == c.Name && has.Request == r.RequestName && has.Driver == Driver {
					out = append(out, named[has.Device])
				}
			}
		}
	}
	return out
}
