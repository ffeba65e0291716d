package harvester

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cps-gpu/homelab/proxmox/unit"
)

// Size is an amount of memory or disk in bytes.
type Size = unit.Size

// VMSpec is the wanted state of a machine.
type VMSpec struct {
	Name        string            // a DNS label, unique in the namespace
	Description string            // empty: any is accepted
	Tags        map[string]string // shown in Harvester's lists; empty: any are accepted
	Cores       int
	Memory      Size   // of the machine with what QEMU needs, which Harvester takes off: about 100MiB
	CPUModel    string // e.g. host-passthrough; empty: any is accepted, and the cluster's default used
	Image       string // the VirtualMachineImage that the first disk is made from: NAMESPACE/NAME, or NAME in the client's
	Disks       []Disk // the first is the image's, grown
	NICs        []NIC
	Devices     []HostDevice // PCI devices, all of one node
	UserData    []byte       // cloud-init's user-data; read at the first boot, and not changed after
	NetworkData []byte       // its network-config, likewise
	EFI         bool         // firmware; otherwise BIOS
	SecureBoot  bool         // with EFI
	TPM         bool         // version 2.0
	Running     bool         // false: either is accepted
}

// Disk is a disk of a machine.
type Disk struct {
	Name         string // a DNS label; the volume is called MACHINE-NAME
	Size         Size
	StorageClass string // empty: the cluster's default. The first disk has its image's
	Serial       string // identifies it in the guest
}

// NIC is a network interface (virtio), on a network by bridge.
type NIC struct {
	Network string // the NetworkAttachmentDefinition: NAMESPACE/NAME, or NAME in the client's namespace
	MAC     string
}

// HostDevice is a PCI device that a machine gets.
type HostDevice struct {
	Name     string // of the PCIDevice, e.g. node1-000041000
	Resource string // under which Kubernetes counts its model, e.g. nvidia.com/GA100_A100_PCIE_80GB
}

// Check finds settings that Harvester would refuse, or wrongly accept.
func (s VMSpec) Check() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("machine "+s.Name+": "+format, args...))
	}
	if why := validation.IsDNS1123Label(s.Name); len(why) > 0 {
		bad("the name: %s", strings.Join(why, "; "))
	}
	if s.Cores < 1 {
		bad("no cores")
	}
	if s.Memory < 512*unit.MiB {
		bad("%s of memory: write 512MiB or more", s.Memory)
	}
	if s.Image == "" {
		bad("no image")
	}
	if len(s.Disks) == 0 {
		bad("no disk")
	}
	names := map[string]bool{cloudInitDisk: true}
	for _, d := range s.Disks {
		if why := validation.IsDNS1123Label(d.Name); len(why) > 0 || names[d.Name] {
			bad("disk %q: write a DNS label of its own", d.Name)
		}
		if names[d.Name] = true; d.Size <= 0 {
			bad("disk %s has no size", d.Name)
		}
	}
	for i, n := range s.NICs {
		if _, err := net.ParseMAC(n.MAC); err != nil || n.Network == "" {
			bad("interface %d: write its network and its MAC address", i)
		}
	}
	for _, d := range s.Devices {
		if d.Name == "" || d.Resource == "" {
			bad("a device without a name or a resource")
		}
	}
	for k, v := range s.Tags {
		if why := slices.Concat(validation.IsQualifiedName(tagPrefix+k), validation.IsValidLabelValue(v)); len(why) > 0 {
			bad("tag %s=%s: %s", k, v, strings.Join(why, "; "))
		}
	}
	if s.SecureBoot && !s.EFI {
		bad("secure boot needs EFI")
	}
	return errors.Join(errs...)
}

// String describes the machine in a few words: "16 cores, 128GiB, disk 100GiB, 2 devices".
func (s VMSpec) String() string {
	parts := []string{plural(s.Cores, "core"), s.Memory.String()}
	sizes := make([]string, len(s.Disks))
	for i, d := range s.Disks {
		sizes[i] = d.Size.String()
	}
	parts = append(parts, "disk "+strings.Join(sizes, " + "))
	if n := len(s.Devices); n > 0 {
		parts = append(parts, plural(n, "device"))
	}
	return strings.Join(parts, ", ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// claimName is the name of a disk's volume.
func claimName(machine, disk string) string { return machine + "-" + disk }

// secretName is the name of the Secret with a machine's cloud-init documents.
func secretName(machine string) string { return machine + "-cloudinit" }

// qualify completes a name with the namespace that it is in.
func (c *Client) qualify(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return c.namespace + "/" + name
}

// countByResource is how many devices of each resource there are.
func countByResource(devices []HostDevice) map[string]int {
	n := map[string]int{}
	for _, d := range devices {
		n[d.Resource]++
	}
	return n
}
