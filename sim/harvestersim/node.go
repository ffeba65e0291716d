package harvestersim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/guest"
)

// Node is a host of the cluster.
type Node struct {
	Name   string
	CPUs   int
	Memory int64 // bytes that pods get
	PCI    []PCI
}

// PCI is a function of a node's PCI bus.
type PCI struct {
	guest.PCI // Host is its address on the node: 0000:41:00.0

	Resource    string // e.g. nvidia.com/GA100_A100_PCIE_80GB, as the node's controller makes it of the names in pci.ids
	Description string
	IOMMUGroup  string // empty: the IOMMU is off

	node string
}

// deviceName is the name of a PCIDevice (PCIDeviceNameForHostname of harvester/pcidevices).
func deviceName(node, address string) string {
	return node + "-" + strings.NewReplacer(":", "", ".", "").Replace(address)
}

// AddNode adds a host that is ready, with its devices.
func (s *Sim) AddNode(ctx context.Context, n Node) error {
	resources := object{"cpu": fmt.Sprint(n.CPUs), "memory": fmt.Sprint(n.Memory), "pods": "110"}
	if err := s.create(ctx, nodes(), object{"apiVersion": "v1", "kind": "Node",
		"metadata": object{"name": n.Name, "labels": object{"kubernetes.io/hostname": n.Name}},
		"status": object{"capacity": resources, "allocatable": maps.Clone(resources),
			"conditions": []any{object{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}}}}); err != nil {
		return err
	}
	if s.cfg.NoAddon {
		return nil
	}
	for _, p := range n.PCI {
		p.node = n.Name
		name := deviceName(n.Name, p.Host)
		s.mu.Lock()
		s.hardware[name] = p
		s.mu.Unlock()
		if err := s.createWithStatus(ctx, devices(), object{"apiVersion": "devices.harvesterhci.io/v1beta1", "kind": "PCIDevice",
			"metadata": object{"name": name, "labels": object{"nodename": n.Name}}, "spec": object{},
			"status": object{"address": p.Host, "nodeName": n.Name, "vendorId": fmt.Sprintf("%04x", p.Vendor), "deviceId": fmt.Sprintf("%04x", p.Device),
				"classId": fmt.Sprintf("%04x", p.Class>>8), "resourceName": p.Resource, "description": p.Description, "iommuGroup": p.IOMMUGroup,
				"kernelDriverInUse": ""}}); err != nil {
			return err
		}
	}
	return nil
}

// AddNetwork makes a VM network, a bridge that all others reach.
func (s *Sim) AddNetwork(ctx context.Context, namespace, name string) error {
	if err := s.AddNamespace(ctx, namespace); err != nil {
		return err
	}
	return s.create(ctx, networks(), object{"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
		"metadata": object{"name": name, "namespace": namespace},
		"spec":     object{"config": `{"cniVersion":"0.3.1","name":"` + name + `","type":"bridge","bridge":"mgmt-br","promiscMode":true,"vlan":1,"ipam":{}}`}})
}

// AddNamespace makes a namespace, unless it is there.
func (s *Sim) AddNamespace(ctx context.Context, name string) error {
	if s.get(ctx, namespaces(), "", name) != nil {
		return nil
	}
	return s.create(ctx, namespaces(), object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": name}})
}

// claimDevices does what claims say (reconcilePCIDeviceClaims and OnRemove of the node's controller): a claimed device
// is bound to vfio-pci, and Kubernetes counts it.
func (s *Sim) claimDevices(ctx context.Context) {
	enabled := map[string]map[string]int64{} // by node and resource
	for _, c := range s.list(ctx, claims()) {
		d := s.claimedDevice(ctx, c)
		switch {
		case c.GetDeletionTimestamp() != nil:
			if d != nil && textAt(d.Object, "status", "kernelDriverInUse") != "" {
				setStatus(d, "", "kernelDriverInUse")
				s.updateStatus(ctx, devices(), d)
			}
			c.SetFinalizers(nil)
			s.update(ctx, claims(), c)
			continue
		case d == nil:
			continue // it fails, and is tried again
		case len(c.GetFinalizers()) == 0:
			c.SetFinalizers([]string{"wrangler.cattle.io/PCIDeviceClaimOnRemove"})
			s.update(ctx, claims(), c)
			continue
		case fieldAt(c.Object, "status", "passthroughEnabled") != true:
			setStatus(c, textAt(d.Object, "status", "kernelDriverInUse"), "kernelDriverToUnbind")
			setStatus(c, true, "passthroughEnabled")
			setStatus(d, "vfio-pci", "kernelDriverInUse")
			if s.updateStatus(ctx, devices(), d) {
				s.updateStatus(ctx, claims(), c)
			}
			continue
		}
		node, resource := textAt(d.Object, "status", "nodeName"), textAt(d.Object, "status", "resourceName")
		if enabled[node] == nil {
			enabled[node] = map[string]int64{}
		}
		enabled[node][resource]++
	}
	for _, n := range s.list(ctx, nodes()) {
		s.offer(ctx, n, enabled[n.GetName()])
	}
}

// claimedDevice is the device of a claim, which has to be its owner.
func (s *Sim) claimedDevice(ctx context.Context, c *unstructured.Unstructured) *unstructured.Unstructured {
	owners := c.GetOwnerReferences()
	if len(owners) == 0 {
		return nil
	}
	return s.get(ctx, devices(), "", owners[0].Name)
}

// offer has the node count its devices, as a device plugin does; of a resource that was there, none may be left.
func (s *Sim) offer(ctx context.Context, n *unstructured.Unstructured, counts map[string]int64) {
	changed := false
	for _, field := range []string{"capacity", "allocatable"} {
		have, _ := fieldAt(n.Object, "status", field).(object)
		for r := range have {
			if strings.Contains(r, "/") && counts[r] == 0 && have[r] != "0" {
				have[r], changed = "0", true
			}
		}
		for r, count := range counts {
			if have[r] != fmt.Sprint(count) {
				have[r], changed = fmt.Sprint(count), true
			}
		}
	}
	if changed {
		s.updateStatus(ctx, nodes(), n)
	}
}

// allocate gives devices of a node to a machine, as its kubelet does: by their resource, whichever the machine names.
func (s *Sim) allocate(ctx context.Context, node, machine string, resources map[string]int64) (map[string][]string, bool) {
	free := map[string][]string{}
	for _, c := range s.list(ctx, claims()) {
		d := s.claimedDevice(ctx, c)
		if d == nil || c.GetDeletionTimestamp() != nil || fieldAt(c.Object, "status", "passthroughEnabled") != true || textAt(d.Object, "status", "nodeName") != node {
			continue
		}
		s.mu.Lock()
		user := s.users[d.GetName()]
		s.mu.Unlock()
		if user == "" {
			r := textAt(d.Object, "status", "resourceName")
			free[r] = append(free[r], d.GetName())
		}
	}
	out := map[string][]string{}
	for r, n := range resources {
		slices.Sort(free[r])
		if int64(len(free[r])) < n {
			return nil, false
		}
		out[r] = free[r][:n]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, names := range out {
		for _, name := range names {
			s.users[name] = machine
		}
	}
	return out, true
}

// release takes a machine's devices from it.
func (s *Sim) release(machine string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.users, func(_, user string) bool { return user == machine })
}

// DeviceNames are the devices that machines have now, with the machines: NAMESPACE/NAME by PCIDevice.
func (s *Sim) DeviceNames() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.users)
}
