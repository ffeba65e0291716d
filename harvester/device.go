package harvester

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

// Device is a PCI device of a node.
type Device struct {
	Name        string // of the PCIDevice: node1-000041000
	Node        string
	Address     string // 0000:41:00.0
	ID          string // vendor and device: 10de:20b5
	Class       string // 0302: a 3D controller
	Description string
	Resource    string // under which Kubernetes counts its model
	IOMMUGroup  string // empty: it cannot be passed through
	Driver      string // that has it on the node

	Claimed bool   // is bound for machines, by anyone
	Enabled bool   // and the node has done so
	Claim   string // the user that its claim names; ours have the cluster's name
	Cluster string // whose claim it is, if a program like this one made it
	Machine string // NAMESPACE/NAME that this claim is for
	UsedBy  string // the machine that has it, or will at its start: NAMESPACE/NAME
}

// IsGPU reports whether the device is a graphics card of NVIDIA's: a VGA or 3D controller.
func (d Device) IsGPU() bool {
	return strings.HasPrefix(d.ID, "10de:") && strings.HasPrefix(d.Class, "03")
}

// Free reports whether a machine may get the device: nobody has it, and it can be passed through.
func (d Device) Free() bool { return d.UsedBy == "" && d.Machine == "" && d.IOMMUGroup != "" }

// String describes the device: "node1 0000:41:00.0 (NVIDIA A100)".
func (d Device) String() string {
	return fmt.Sprintf("%s %s (%s)", d.Node, d.Address, d.Description)
}

// deviceObject has the fields of a PCIDevice that matter; one of a PCIDeviceClaim has a spec.
type deviceObject struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		UserName string `json:"userName"`
	} `json:"spec"`
	Status struct {
		Address            string `json:"address"`
		VendorID           string `json:"vendorId"`
		DeviceID           string `json:"deviceId"`
		ClassID            string `json:"classId"`
		IOMMUGroup         string `json:"iommuGroup"`
		NodeName           string `json:"nodeName"`
		ResourceName       string `json:"resourceName"`
		Description        string `json:"description"`
		KernelDriverInUse  string `json:"kernelDriverInUse"`
		PassthroughEnabled bool   `json:"passthroughEnabled"`
	} `json:"status"`
}

// Devices is the ledger: every PCI device of every node, with who has it, by name. It is empty without the addon that
// offers them.
func (c *Client) Devices(ctx context.Context) ([]Device, error) {
	all, err := c.list(ctx, deviceKind(), "")
	if err != nil {
		return nil, err
	}
	claims, err := c.list(ctx, claimKind(), "")
	if err != nil {
		return nil, err
	}
	users, err := c.deviceUsers(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]Device, 0, len(all))
	for i := range all {
		o, err := decode[deviceObject](&all[i])
		if err != nil {
			return nil, err
		}
		d := Device{Name: o.Name, Node: o.Status.NodeName, Address: o.Status.Address, ID: o.Status.VendorID + ":" + o.Status.DeviceID,
			Class: o.Status.ClassID, Description: o.Status.Description, Resource: o.Status.ResourceName, IOMMUGroup: o.Status.IOMMUGroup,
			Driver: o.Status.KernelDriverInUse, UsedBy: users[o.Name]}
		if at := slices.IndexFunc(claims, func(u unstructured.Unstructured) bool { return u.GetName() == o.Name }); at >= 0 {
			claim, err := decode[deviceObject](&claims[at])
			if err != nil {
				return nil, err
			}
			d.Claimed, d.Enabled, d.Claim = true, claim.Status.PassthroughEnabled, claim.Spec.UserName
			d.Cluster, d.Machine = markOf(&claims[at])
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b Device) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// deviceUsers says which machine of any namespace has or will have a device: what a running one was given, and what
// any other asks for by name.
func (c *Client) deviceUsers(ctx context.Context) (map[string]string, error) {
	all, err := c.list(ctx, vmKind(), "")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	var waiting []*VM
	for i := range all {
		vm, err := readVM(&all[i])
		if err != nil {
			return nil, err
		}
		if vm.Status != "Running" || len(vm.Allocated) == 0 {
			waiting = append(waiting, vm)
			continue
		}
		for _, name := range vm.Allocated {
			out[name] = vm.Namespace + "/" + vm.Name
		}
	}
	for _, vm := range waiting {
		for _, d := range vm.Devices {
			if out[d.Name] == "" {
				out[d.Name] = vm.Namespace + "/" + vm.Name
			}
		}
	}
	return out, nil
}

// grant finds the devices that a machine gets, with those of the same IOMMU groups, which a node can only give away
// together.
func (c *Client) grant(ctx context.Context, s VMSpec) ([]grantedDevice, string, error) {
	if len(s.Devices) == 0 {
		return nil, "", nil
	}
	all, err := c.Devices(ctx)
	if err != nil {
		return nil, "", err
	}
	if errs := c.judgeDevices(s, all); len(errs) > 0 {
		return nil, "", errors.Join(errs...)
	}
	var out []grantedDevice
	node := ""
	for _, want := range s.Devices {
		d := all[slices.IndexFunc(all, func(d Device) bool { return d.Name == want.Name })]
		node = d.Node
		out = append(out, grantedDevice{Name: d.Name, Resource: d.Resource})
	}
	for _, g := range out {
		for _, d := range companions(all, g.Name) {
			if !slices.ContainsFunc(out, func(o grantedDevice) bool { return o.Name == d.Name }) {
				out = append(out, grantedDevice{Name: d.Name, Resource: d.Resource, Companion: true})
			}
		}
	}
	return out, node, nil
}

// companions are the other devices of a device's IOMMU group.
func companions(all []Device, name string) []Device {
	i := slices.IndexFunc(all, func(d Device) bool { return d.Name == name })
	if i < 0 || all[i].IOMMUGroup == "" {
		return nil
	}
	var out []Device
	for _, d := range all {
		if d.Name != name && d.Node == all[i].Node && d.IOMMUGroup == all[i].IOMMUGroup {
			out = append(out, d)
		}
	}
	return out
}

// judgeDevices says which of a machine's devices it cannot have, and why.
func (c *Client) judgeDevices(s VMSpec, all []Device) []error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, converge.Permanent(fmt.Errorf("machine %s/%s: %w", c.namespace, s.Name, fmt.Errorf(format, args...))))
	}
	me, node := c.namespace+"/"+s.Name, ""
	for _, want := range s.Devices {
		i := slices.IndexFunc(all, func(d Device) bool { return d.Name == want.Name })
		if i < 0 {
			bad("there is no PCI device %s: its node may be away", want.Name)
			continue
		}
		d := all[i]
		if node == "" {
			node = d.Node
		}
		switch {
		case d.Node != node:
			bad("device %s is on another node than %s: all devices of a machine are on one", d, node)
		case d.Resource != want.Resource:
			bad("device %s is a %s now, not a %s", d, d.Resource, want.Resource)
		case d.IOMMUGroup == "":
			bad("device %s has no IOMMU group: switch the IOMMU on in the firmware of %s", d, d.Node)
		}
		for _, x := range append([]Device{d}, companions(all, d.Name)...) {
			switch {
			case x.UsedBy != "" && x.UsedBy != me && !c.ours(all, x.UsedBy):
				bad("device %s is machine %s's", x, x.UsedBy)
			case x.Machine != "" && (x.Cluster != c.owner || x.Machine != me):
				bad("device %s is claimed by cluster %s for machine %s", x, x.Cluster, x.Machine)
			}
		}
	}
	return errs
}

// ours reports whether a machine has a claim of this cluster: one that may have swapped devices with another.
func (c *Client) ours(all []Device, machine string) bool {
	return slices.ContainsFunc(all, func(d Device) bool { return d.Cluster == c.owner && d.Machine == machine })
}

// claim claims a device for a machine of ours, unless somebody has: bound for machines, any machine may ask for it. A
// claim that is not ours is used as it is, and stays.
func (c *Client) claim(ctx context.Context, device, machine string) error {
	there, err := c.read(ctx, claimKind(), "", device)
	if err != nil {
		return err
	}
	if there != nil {
		owner, _ := markOf(there)
		switch {
		case there.GetDeletionTimestamp() != nil:
			return converge.Transient(fmt.Errorf("%s is being removed", kube.RefOf(there)))
		case owner != "" && !c.owns(there, machine):
			return foreignError(there, "it is of another machine of a cluster")
		}
		return nil
	}
	d, err := c.read(ctx, deviceKind(), "", device)
	if err != nil {
		return err
	}
	if d == nil {
		return converge.Permanent(fmt.Errorf("there is no PCI device %s", device))
	}
	o, err := decode[deviceObject](d)
	if err != nil {
		return err
	}
	u := claimKind().object("", device)
	c.tag(u, machine)
	// The controller finds the device by this reference (getPCIDeviceForClaim of harvester/pcidevices).
	u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: devicesGroup, Kind: deviceKind().name, Name: d.GetName(), UID: d.GetUID()}})
	if err := set(u, map[string]any{"address": o.Status.Address, "nodeName": o.Status.NodeName, "userName": c.owner}, "spec"); err != nil {
		return err
	}
	return c.kube.Create(ctx, u)
}

// release removes the claims for a machine of ours that no machine uses: all, or those of devices that are not kept.
// One whose device another machine has by now stays until that one is gone: [Client.Leftovers].
func (c *Client) release(ctx context.Context, machine string, kept ...string) error {
	claims, err := c.list(ctx, claimKind(), "")
	if err != nil {
		return err
	}
	var users map[string]string
	for i := range claims {
		if !c.owns(&claims[i], machine) || slices.Contains(kept, claims[i].GetName()) {
			continue
		}
		if users == nil {
			if users, err = c.deviceUsers(ctx); err != nil {
				return err
			}
		}
		if users[claims[i].GetName()] != "" {
			continue
		}
		if err := c.kube.DeleteExact(ctx, &claims[i], true); err != nil {
			return err
		}
	}
	return nil
}

// releaseUnwanted removes claims of devices that the machine no longer asks for.
func (c *Client) releaseUnwanted(ctx context.Context, vm *VM, w world) error {
	var kept []string
	for _, d := range w.devices {
		kept = append(kept, d.Name)
	}
	return c.release(ctx, vm.Name, kept...)
}
