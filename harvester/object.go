package harvester

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/proxmox/unit"
)

// Harvester's own labels and annotations (pkg/util/constants.go and pkg/builder/vm.go of harvester/harvester).
const (
	tagPrefix             = "tag.harvesterhci.io/"
	creatorLabel          = "harvesterhci.io/creator"
	nameLabel             = "harvesterhci.io/vmName"
	osLabel               = "harvesterhci.io/os"
	sshNamesAnnotation    = "harvesterhci.io/sshNames"
	descriptionAnnotation = "field.cattle.io/description"
	templatesAnnotation   = "harvesterhci.io/volumeClaimTemplates"
	imageAnnotation       = "harvesterhci.io/imageId"
	strategyAnnotation    = "harvesterhci.io/vmRunStrategy"
	allocationAnnotation  = "harvesterhci.io/deviceAllocationDetails"

	cloudInitDisk = "cloudinitdisk"
	hostLabel     = "kubernetes.io/hostname"

	// runs is the strategy of a machine that is to run: it starts again when it fails, and its guest may switch it off.
	// Harvester's webhook sets this one whenever a halted machine is started, unless its annotation says another.
	runs   = "RerunOnFailure"
	halted = "Halted"

	// graceTime is how long a guest has to shut down, in seconds.
	graceTime = 180
)

// world is what a machine's object needs to be known from the cluster.
type world struct {
	image   *Image
	classes map[string]class // by name; the default one also by ""
	devices []grantedDevice
	node    string // of the devices
}

// class is what matters of a StorageClass.
type class struct {
	name      string
	migrating bool // volumes may be attached to two nodes, for live migration
}

// grantedDevice is a device of a machine: one that was asked for, or one of the same IOMMU group.
type grantedDevice struct {
	Name      string `json:"name"`
	Resource  string `json:"resource"`
	Companion bool   `json:"companion,omitempty"`
}

// builder makes and changes the objects of machines.
type builder struct{ *Client }

// newVM is the object of a new machine.
func (c builder) newVM(s VMSpec, w world) (*unstructured.Unstructured, error) {
	u := vmKind().object(c.namespace, s.Name)
	c.tag(u, s.Name)
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	labels[creatorLabel], labels[osLabel] = "homelab", "linux"
	annotations[strategyAnnotation] = runs
	u.SetLabels(labels)
	u.SetAnnotations(annotations)
	strategy := halted
	if s.Running {
		strategy = runs
	}
	machine := map[string]any{
		"domain": map[string]any{
			"machine":   map[string]any{"type": "q35"},
			"cpu":       map[string]any{"cores": int64(s.Cores), "sockets": int64(1), "threads": int64(1)},
			"resources": map[string]any{"limits": map[string]any{"cpu": strconv.Itoa(s.Cores), "memory": quantityText(s.Memory)}},
			"features":  map[string]any{"acpi": map[string]any{"enabled": true}},
			"devices": map[string]any{
				"logSerialConsole": true, // where the host keys come from
				"inputs":           []any{map[string]any{"bus": "usb", "name": "tablet", "type": "tablet"}},
			},
		},
		"evictionStrategy":              "LiveMigrateIfPossible",
		"hostname":                      s.Name,
		"terminationGracePeriodSeconds": int64(graceTime),
	}
	if err := set(u, map[string]any{"runStrategy": strategy, "template": map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{sshNamesAnnotation: "[]"},
			"labels": map[string]any{creatorLabel: "homelab", nameLabel: s.Name, clusterLabel: c.owner}},
		"spec": machine,
	}}, "spec"); err != nil {
		return nil, err
	}
	if s.EFI {
		if err := set(u, map[string]any{"bootloader": map[string]any{"efi": map[string]any{"secureBoot": s.SecureBoot}}}, inDomain("firmware")...); err != nil {
			return nil, err
		}
	}
	if s.SecureBoot { // which needs the mode that keeps the variables from the guest's kernel
		if err := set(u, true, inDomain("features", "smm", "enabled")...); err != nil {
			return nil, err
		}
	}
	return u, c.change(u, s, nil, w)
}

// inDomain is the path of a field of the machine's domain.
func inDomain(path ...string) []string {
	return append([]string{"spec", "template", "spec", "domain"}, path...)
}

func quantityText(s Size) string { return fmt.Sprintf("%dMi", (s+unit.MiB-1)/unit.MiB) }

// change brings an object, of a machine that was read or of a new one, to what s says.
func (c builder) change(u *unstructured.Unstructured, s VMSpec, vm *VM, w world) error {
	c.changeLabels(u, s)
	for _, f := range []struct {
		value any
		path  []string
	}{
		{int64(s.Cores), inDomain("cpu", "cores")}, {int64(1), inDomain("cpu", "sockets")}, {int64(1), inDomain("cpu", "threads")},
		{strconv.Itoa(s.Cores), inDomain("resources", "limits", "cpu")}, {quantityText(s.Memory), inDomain("resources", "limits", "memory")},
	} {
		if err := set(u, f.value, f.path...); err != nil {
			return err
		}
	}
	if s.CPUModel != "" {
		if err := set(u, s.CPUModel, inDomain("cpu", "model")...); err != nil {
			return err
		}
	}
	if s.TPM && (vm == nil || !vm.TPM) {
		if err := set(u, map[string]any{}, inDomain("devices", "tpm")...); err != nil {
			return err
		}
	}
	for _, do := range []func(*unstructured.Unstructured, VMSpec, *VM, world) error{c.changeDisks, c.changeNICs, c.changeDevices} {
		if err := do(u, s, vm, w); err != nil {
			return err
		}
	}
	return nil
}

func (c builder) changeLabels(u *unstructured.Unstructured, s VMSpec) {
	labels := u.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	for k, v := range s.Tags {
		labels[tagPrefix+k] = v
	}
	labels[clusterLabel] = c.owner
	u.SetLabels(labels)
	if s.Description == "" {
		return
	}
	annotations := u.GetAnnotations()
	annotations[descriptionAnnotation] = s.Description
	u.SetAnnotations(annotations)
}

// changeNICs sets all interfaces.
func (c builder) changeNICs(u *unstructured.Unstructured, s VMSpec, vm *VM, _ world) error {
	if vm != nil && slices.EqualFunc(vm.NICs, s.NICs, func(a, b NIC) bool {
		return nicText([]NIC{a}, 0, c.namespace) == nicText([]NIC{b}, 0, c.namespace)
	}) {
		return nil
	}
	interfaces, networks := []any{}, []any{}
	for i, n := range s.NICs {
		name := fmt.Sprintf("nic-%d", i)
		interfaces = append(interfaces, map[string]any{"name": name, "bridge": map[string]any{}, "model": "virtio", "macAddress": n.MAC})
		networks = append(networks, map[string]any{"name": name, "multus": map[string]any{"networkName": c.qualify(n.Network)}})
	}
	if err := set(u, interfaces, inDomain("devices", "interfaces")...); err != nil {
		return err
	}
	return set(u, networks, "spec", "template", "spec", "networks")
}

// changeDevices sets the devices that were granted, and keeps those that somebody else has added.
func (c builder) changeDevices(u *unstructured.Unstructured, _ VMSpec, vm *VM, w world) error {
	var before []grantedDevice
	if vm != nil {
		before = vm.grants()
	}
	if slices.Equal(before, w.devices) {
		return nil
	}
	ours := map[string]bool{}
	for _, d := range slices.Concat(before, w.devices) {
		ours[d.Resource] = true
	}
	all := []any{}
	for _, d := range w.devices {
		all = append(all, map[string]any{"name": d.Name, "deviceName": d.Resource})
	}
	have, _, err := unstructured.NestedSlice(u.Object, inDomain("devices", "hostDevices")...)
	if err != nil {
		return err
	}
	for _, h := range have {
		if m, ok := h.(map[string]any); ok && !ours[fmt.Sprint(m["deviceName"])] {
			all = append(all, h)
		}
	}
	if err := set(u, all, inDomain("devices", "hostDevices")...); err != nil {
		return err
	}
	text, err := json.Marshal(w.devices)
	if err != nil {
		return err
	}
	annotations := u.GetAnnotations()
	annotations[devicesAnnotation] = string(text)
	u.SetAnnotations(annotations)
	if w.node == "" { // there are none any more
		unstructured.RemoveNestedField(u.Object, "spec", "template", "spec", "nodeSelector", hostLabel)
		return nil
	}
	return set(u, w.node, "spec", "template", "spec", "nodeSelector", hostLabel)
}

// grants are the devices that Shape has given to the machine.
func (v *VM) grants() []grantedDevice {
	var out []grantedDevice
	_ = json.Unmarshal([]byte(v.object.GetAnnotations()[devicesAnnotation]), &out) // somebody else's text names none
	return out
}

// wishes are the names of the devices that were asked for.
func (v *VM) wishes() []string {
	var out []string
	for _, d := range v.grants() {
		if !d.Companion {
			out = append(out, d.Name)
		}
	}
	return out
}

// readAllocation reads the names of devices in an annotation of Harvester's.
func readAllocation(annotation string) []string {
	var details struct {
		GPUs        map[string][]string `json:"gpus"`
		HostDevices map[string][]string `json:"hostdevices"`
	}
	if json.Unmarshal([]byte(annotation), &details) != nil {
		return nil
	}
	var out []string
	for _, m := range []map[string][]string{details.HostDevices, details.GPUs} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			out = append(out, m[k]...)
		}
	}
	return out
}
