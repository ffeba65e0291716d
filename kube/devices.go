package kube

import (
	"context"
	"errors"
	"slices"
)

// Devices are those that a driver of Dynamic Resource Allocation publishes in ResourceSlices, where pods
// request them by the name of an extended resource (spec.extendedResourceName of a DeviceClass). A node's
// status says nothing of them.
type Devices struct {
	Driver   string // e.g. gpu.nvidia.com; empty: none
	Type     string // of a device, its attribute "type"
	Resource string // by which pods request one, e.g. nvidia.com/gpu
}

// resourceSlice is what is read of a ResourceSlice (resource.k8s.io/v1). Kubernetes' own type would bring its
// whole package into every program that uses this one.
type resourceSlice struct {
	Spec struct {
		NodeName string
		Pool     struct {
			Name       string
			Generation int64
		}
		Devices []device
	}
}

type device struct {
	Attributes map[string]struct{ String string }
	Taints     []struct{}
}

// countDevices adds to nodes what they offer by a driver.
func (c *Client) countDevices(ctx context.Context, nodes []Node) error {
	if c.devices.Driver == "" {
		return nil
	}
	selector := "spec.driver=" + c.devices.Driver
	if len(nodes) == 1 {
		selector += ",spec.nodeName=" + nodes[0].Name
	}
	var list struct{ Items []resourceSlice }
	err := c.do(ctx, request{doing: "list the devices of " + c.devices.Driver, path: "/apis/resource.k8s.io/v1/resourceslices",
		query: map[string][]string{"fieldSelector": {selector}}}, &list)
	if err != nil && !errors.Is(err, ErrNotFound) { // Kubernetes before 1.34 does not serve them
		return err
	}
	newest := map[string]int64{} // generation, by pool: slices of an older one are out of date
	for _, s := range list.Items {
		newest[s.Spec.Pool.Name] = max(newest[s.Spec.Pool.Name], s.Spec.Pool.Generation)
	}
	for _, s := range list.Items {
		at := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == s.Spec.NodeName })
		if at < 0 || s.Spec.Pool.Generation < newest[s.Spec.Pool.Name] {
			continue
		}
		if nodes[at].devices == nil {
			nodes[at].devices = map[string]int64{}
		}
		nodes[at].devices[c.devices.Resource] += c.devices.usable(s.Spec.Devices)
	}
	return nil
}

// usable counts the devices that a new pod can get.
func (d Devices) usable(all []device) (n int64) {
	for _, dev := range all {
		if dev.Attributes["type"].String == d.Type && len(dev.Taints) == 0 {
			n++
		}
	}
	return n
}
