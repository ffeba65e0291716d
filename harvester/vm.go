package harvester

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// VM is a machine as it was read.
type VM struct {
	Name        string
	Namespace   string
	UID         string
	Cluster     string // whose machine it is, by its mark; empty: not of this program
	Description string
	Tags        map[string]string
	Cores       int
	Memory      Size
	CPUModel    string
	Disks       []Disk
	NICs        []NIC
	Devices     []HostDevice // as the machine asks for them
	Allocated   []string     // names of the PCIDevices that it had when it was last started
	EFI         bool
	SecureBoot  bool
	TPM         bool

	Halted    bool   // it is not to run
	Running   bool   // its guest runs
	Exists    bool   // it has an instance, whatever that does
	Ended     bool   // it is to run, and does not: the guest has switched itself off
	Status    string // as Harvester shows it: Running, Starting, ErrorUnschedulable, …
	Reason    string // why it does not run, if it is to
	Restart   string // why changes are not in effect before a restart; empty if all are
	Removing  bool
	Node      string       // that it runs on
	Addresses []netip.Addr // as the guest agent says; none without one

	object *unstructured.Unstructured
	mark   string
	acted  string // the strategy that KubeVirt has acted on
	image  string // of the first disk
}

// String names the machine: "machine a100/wk1".
func (v *VM) String() string {
	if v == nil {
		return "no machine"
	}
	return "machine " + v.Namespace + "/" + v.Name
}

// Identity distinguishes a machine from another of the same name.
func (v *VM) Identity() string { return v.UID }

// vmObject has the fields of a VirtualMachine that matter.
type vmObject struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		RunStrategy string `json:"runStrategy"`
		Running     *bool  `json:"running"`
		Template    struct {
			Spec machineSpec `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	Status struct {
		PrintableStatus string      `json:"printableStatus"`
		RunStrategy     string      `json:"runStrategy"` // that KubeVirt has seen
		Conditions      []condition `json:"conditions"`
	} `json:"status"`
}

// machineSpec has the fields of a VirtualMachineInstance's spec that matter.
type machineSpec struct {
	Domain struct {
		CPU struct {
			Cores   int    `json:"cores"`
			Sockets int    `json:"sockets"`
			Threads int    `json:"threads"`
			Model   string `json:"model"`
		} `json:"cpu"`
		Resources struct {
			Limits map[string]string `json:"limits"`
		} `json:"resources"`
		Firmware struct {
			Bootloader struct {
				EFI *struct {
					SecureBoot *bool `json:"secureBoot"`
				} `json:"efi"`
			} `json:"bootloader"`
		} `json:"firmware"`
		Devices struct {
			Disks []struct {
				Name   string `json:"name"`
				Serial string `json:"serial"`
			} `json:"disks"`
			Interfaces []struct {
				Name string `json:"name"`
				MAC  string `json:"macAddress"`
			} `json:"interfaces"`
			HostDevices []struct {
				Name       string `json:"name"`
				DeviceName string `json:"deviceName"`
			} `json:"hostDevices"`
			TPM *struct{} `json:"tpm"`
		} `json:"devices"`
	} `json:"domain"`
	Networks []struct {
		Name   string `json:"name"`
		Multus *struct {
			NetworkName string `json:"networkName"`
		} `json:"multus"`
	} `json:"networks"`
	Volumes []struct {
		Name                  string `json:"name"`
		PersistentVolumeClaim *struct {
			ClaimName string `json:"claimName"`
		} `json:"persistentVolumeClaim"`
	} `json:"volumes"`
}

// claimTemplate is a volume that Harvester makes for a machine.
type claimTemplate struct {
	Metadata struct {
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Spec struct {
		AccessModes []string `json:"accessModes"`
		Resources   struct {
			Requests map[string]string `json:"requests"`
		} `json:"resources"`
		VolumeMode       string `json:"volumeMode"`
		StorageClassName string `json:"storageClassName,omitempty"`
	} `json:"spec"`
	TargetVolume string `json:"targetVolume,omitempty"`
}

// instanceObject has the fields of a VirtualMachineInstance that matter.
type instanceObject struct {
	metav1.ObjectMeta `json:"metadata"`

	Status struct {
		Phase      string      `json:"phase"`
		NodeName   string      `json:"nodeName"`
		Conditions []condition `json:"conditions"`
		Interfaces []struct {
			IPs []string `json:"ipAddresses"`
		} `json:"interfaces"`
	} `json:"status"`
}

// readVM reads a VirtualMachine.
func readVM(u *unstructured.Unstructured) (*VM, error) {
	o, err := decode[vmObject](u)
	if err != nil {
		return nil, err
	}
	v := &VM{Name: o.Name, Namespace: o.Namespace, UID: string(o.UID), Description: o.Annotations[descriptionAnnotation], Tags: map[string]string{},
		object: u, mark: o.Annotations[markAnnotation], Removing: o.DeletionTimestamp != nil, Status: o.Status.PrintableStatus, acted: o.Status.RunStrategy,
		Halted: o.Spec.RunStrategy == "Halted" || o.Spec.RunStrategy == "" && (o.Spec.Running == nil || !*o.Spec.Running)}
	v.Cluster, _ = markOf(u)
	for k, value := range o.Labels {
		if tag, ok := strings.CutPrefix(k, tagPrefix); ok {
			v.Tags[tag] = value
		}
	}
	if c := find(o.Status.Conditions, "RestartRequired"); c.Status == metav1.ConditionTrue {
		v.Restart = c.Message
		if v.Restart == "" {
			v.Restart = "a change waits for a restart"
		}
	}
	if c := find(o.Status.Conditions, "Ready"); c.Status == metav1.ConditionFalse {
		v.Reason = strings.TrimPrefix(c.Reason+": "+c.Message, ": ")
	}
	if c := find(o.Status.Conditions, "Failure"); c.Status == metav1.ConditionTrue {
		v.Reason = strings.TrimPrefix(c.Reason+": "+c.Message, ": ")
	}
	v.Allocated = readAllocation(o.Annotations[allocationAnnotation])
	return v, v.readHardware(o)
}

// readHardware fills in what the machine is made of.
func (v *VM) readHardware(o vmObject) error {
	d := o.Spec.Template.Spec.Domain
	v.Cores = max(1, d.CPU.Cores) * max(1, d.CPU.Sockets) * max(1, d.CPU.Threads)
	v.CPUModel, v.TPM = d.CPU.Model, d.Devices.TPM != nil
	v.Memory = quantity(d.Resources.Limits["memory"])
	if efi := d.Firmware.Bootloader.EFI; efi != nil {
		v.EFI, v.SecureBoot = true, efi.SecureBoot == nil || *efi.SecureBoot
	}
	for _, h := range d.Devices.HostDevices {
		v.Devices = append(v.Devices, HostDevice{Name: h.Name, Resource: h.DeviceName})
	}
	networks := map[string]string{}
	for _, n := range o.Spec.Template.Spec.Networks {
		if n.Multus != nil {
			networks[n.Name] = n.Multus.NetworkName
		}
	}
	for _, i := range d.Devices.Interfaces {
		v.NICs = append(v.NICs, NIC{Network: networks[i.Name], MAC: strings.ToLower(i.MAC)})
	}
	templates, err := claimTemplates(o.Annotations[templatesAnnotation])
	if err != nil {
		return fmt.Errorf("%s: %w", v, err)
	}
	serials := map[string]string{}
	for _, d := range d.Devices.Disks {
		serials[d.Name] = d.Serial
	}
	for _, volume := range o.Spec.Template.Spec.Volumes {
		if volume.PersistentVolumeClaim == nil {
			continue
		}
		disk := Disk{Name: volume.Name, Serial: serials[volume.Name]}
		if i := slices.IndexFunc(templates, func(t claimTemplate) bool { return t.Metadata.Name == volume.PersistentVolumeClaim.ClaimName }); i >= 0 {
			t := templates[i]
			disk.Size, disk.StorageClass = quantity(t.Spec.Resources.Requests["storage"]), t.Spec.StorageClassName
			if len(v.Disks) == 0 {
				v.image = t.Metadata.Annotations[imageAnnotation]
			}
		}
		v.Disks = append(v.Disks, disk)
	}
	return nil
}

// claimTemplates reads the volumes that Harvester makes.
func claimTemplates(annotation string) ([]claimTemplate, error) {
	if annotation == "" {
		return nil, nil
	}
	var all []claimTemplate
	if err := json.Unmarshal([]byte(annotation), &all); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", templatesAnnotation, err)
	}
	return all, nil
}

// quantity reads an amount as Kubernetes writes it; 0 if it is none.
func quantity(s string) Size {
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return 0
	}
	return Size(q.Value())
}

// readInstance fills in what the machine does now.
func (v *VM) readInstance(u *unstructured.Unstructured) error {
	if u == nil {
		v.Ended = !v.Halted && v.Status == "Stopped" && v.acted == runs
		return nil
	}
	o, err := decode[instanceObject](u)
	if err != nil {
		return err
	}
	v.Exists, v.Running, v.Node = true, o.Status.Phase == "Running", o.Status.NodeName
	v.Ended = o.Status.Phase == "Succeeded" && !v.Halted
	for _, i := range o.Status.Interfaces {
		for _, ip := range i.IPs {
			if a, err := netip.ParseAddr(ip); err == nil {
				v.Addresses = append(v.Addresses, a)
			}
		}
	}
	if c := find(o.Status.Conditions, "PodScheduled"); c.Status == metav1.ConditionFalse {
		v.Reason = strings.TrimPrefix(c.Reason+": "+c.Message, ": ")
	}
	return nil
}

// Get returns a machine of the namespace, of any owner, or nil if there is none.
func (c *Client) Get(ctx context.Context, name string) (*VM, error) {
	u, err := c.read(ctx, vmKind(), c.namespace, name)
	if u == nil || err != nil {
		return nil, err
	}
	v, err := readVM(u)
	if err != nil {
		return nil, err
	}
	instance, err := c.read(ctx, instanceKind(), c.namespace, name)
	if err != nil {
		return nil, err
	}
	return v, v.readInstance(instance)
}

// List returns the machines that are certainly ours, by name.
func (c *Client) List(ctx context.Context) ([]*VM, error) {
	all, err := c.list(ctx, vmKind(), c.namespace)
	if err != nil {
		return nil, err
	}
	instances, err := c.list(ctx, instanceKind(), c.namespace)
	if err != nil {
		return nil, err
	}
	running := map[string]*unstructured.Unstructured{}
	for i := range instances {
		running[instances[i].GetName()] = &instances[i]
	}
	var out []*VM
	for i := range all {
		if !c.owns(&all[i], all[i].GetName()) {
			continue
		}
		v, err := readVM(&all[i])
		if err == nil {
			err = v.readInstance(running[v.Name])
		}
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b *VM) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Owns reports whether a machine is certainly ours.
func (c *Client) Owns(v *VM) bool { return v != nil && v.mark == c.mark(v.Name) }
