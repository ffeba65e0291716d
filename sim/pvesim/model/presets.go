package model

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// presets are the models that have a name, smallest first.
func presets() []struct {
	name, about string
	make        func() Model
} {
	return []struct {
		name, about string
		make        func() Model
	}{
		{"one-gpu", "A workstation with one RTX 4090, whose audio function shares its IOMMU group.", OneGPU},
		{"two-hosts", "A cluster of two hosts with different cards that share no storage.", TwoHosts},
		{"eight-a100", "A server with eight A100, four on each of two sockets, and two machines of somebody else.", EightA100},
	}
}

// Presets are the names of the models that have one, smallest first.
func Presets() []string {
	var names []string
	for _, p := range presets() {
		names = append(names, p.name)
	}
	return names
}

// LoadModel returns the preset of a name, or reads the file where the name is none.
func LoadModel(name string) (Model, error) {
	for _, p := range presets() {
		if p.name == name {
			return p.make(), nil
		}
	}
	if !strings.ContainsAny(name, "./\\") {
		return Model{}, fmt.Errorf("no model %q: there are %s, or name a YAML file", name, strings.Join(Presets(), ", "))
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return Model{}, fmt.Errorf("model: %w", err)
	}
	return ParseModel(name, data)
}

// PresetYAML writes a preset with comments, as a file to begin with.
func PresetYAML(name string) ([]byte, error) {
	for _, p := range presets() {
		if p.name != name {
			continue
		}
		m := p.make()
		for i := range m.Tokens {
			m.Tokens[i].Secret = "" // everybody knows that of the preset
		}
		text, err := yaml.MarshalWithOptions(m, yaml.WithComment(modelComments()), yaml.IndentSequence(true))
		return append([]byte("# "+p.about+"\n"), text...), err
	}
	return nil, fmt.Errorf("no model %q: there are %s", name, strings.Join(Presets(), ", "))
}

// modelComments explain a model's keys where they come first.
func modelComments() yaml.CommentMap {
	out := yaml.CommentMap{}
	for path, text := range map[string]string{
		"$.version":                   "of pve-manager: 9.x, or 8.x with its privileges",
		"$.hosts":                     "the nodes of the cluster",
		"$.hosts[0].cpus":             "logical CPUs",
		"$.hosts[0].numaNodes":        "which is also the number of sockets",
		"$.hosts[0].pci":              "one entry a function of a device",
		"$.hosts[0].pci[0].id":        "vendor and device, as lspci -nn shows them",
		"$.hosts[0].pci[0].group":     "IOMMU group, -1 for none",
		"$.hosts[0].storages":         "with shared: true the storages of one name are one",
		"$.hosts[0].storages[0].used": "by what is not simulated",
		"$.roles":                     "beside Proxmox's own",
		"$.users":                     "with a password: where somebody is to log in with one",
		"$.tokens":                    "without a secret one is made up at the start",
		"$.acls":                      "who has which role on a path and all below",
		"$.vms":                       "machines that are there already; config is what stands in their files",
	} {
		out[path] = []*yaml.Comment{yaml.LineComment(" " + text)}
	}
	return out
}

// The operator is who the presets let in: a user with a token, and one role on /
// that has what building a cluster needs and nothing else.
const (
	OperatorUser   = "homelab@pve"
	OperatorToken  = "homelab@pve!operator"
	OperatorRole   = "HomelabOperator"
	OperatorSecret = "7f1c0ade-5eed-4000-8000-00000c0ffee0"
)

// OperatorPrivileges returns what the operator's role grants: what this library
// needs on a Proxmox VE 9 host.
func OperatorPrivileges() []string {
	return []string{
		"VM.Allocate", "VM.Audit", "VM.Clone", "VM.PowerMgmt",
		"VM.Config.CDROM", "VM.Config.CPU", "VM.Config.Cloudinit", "VM.Config.Disk", "VM.Config.HWType",
		"VM.Config.Memory", "VM.Config.Network", "VM.Config.Options",
		"VM.GuestAgent.Audit", "VM.GuestAgent.FileRead", "VM.GuestAgent.FileWrite", "VM.GuestAgent.Unrestricted",
		"Datastore.Allocate", "Datastore.AllocateSpace", "Datastore.AllocateTemplate", "Datastore.Audit",
		"Mapping.Audit", "Mapping.Modify", "Mapping.Use", "Pool.Allocate", "Pool.Audit", "SDN.Use", "Sys.Audit", "Sys.AccessNetwork",
	}
}

// New is a model of hosts that the operator of the presets is let into.
func New(hosts ...Host) Model { return Model{Version: "9.2.11", Hosts: hosts}.WithOperator() }

// WithOperator lets the operator of the presets into a model in which nobody has an API token, as in one that was recorded.
func (m Model) WithOperator() Model {
	if len(m.Tokens) == 0 {
		m.Roles = append(slices.Clone(m.Roles), Role{ID: OperatorRole, Privs: OperatorPrivileges()})
		m.Users = append(slices.Clone(m.Users), User{ID: OperatorUser})
		m.Tokens = []Token{{ID: OperatorToken, Secret: OperatorSecret}}
		m.ACLs = append(slices.Clone(m.ACLs), ACL{Path: "/", Who: OperatorUser, Role: OperatorRole})
	}
	return m
}

func storages(size Size) []Storage {
	return []Storage{
		{Name: "local", Type: "dir", Content: []string{"iso", "vztmpl", "import", "backup"}, Size: 400 * GiB, Used: 30 * GiB},
		{Name: "vmdata", Type: "zfspool", Content: []string{"images", "rootdir"}, Size: size},
	}
}

// EightA100 is a server with eight A100 PCIe 40 GB, four on each of two sockets,
// each in an IOMMU group of its own. Two machines of somebody else live on it:
// one that runs and one that does not.
func EightA100() Model {
	h := Host{Name: "pve1", CPUs: 128, NUMANodes: 2, CPUModel: "AMD EPYC 7543 32-Core Processor", Memory: TiB,
		Storages: storages(2 * TiB), Bridges: []string{"vmbr0"}, CIDRs: map[string]string{"vmbr0": "10.0.0.5/24"}, Gateway: "10.0.0.1"}
	for i, bus := range []string{"01", "25", "41", "61", "81", "a1", "c1", "e1"} {
		h.PCI = append(h.PCI,
			bridge("0000:"+decrement(bus)+":01.1", 20+2*i, i/4),
			PCIDevice{Address: "0000:" + bus + ":00.0", ID: "10de:20f1", Subsystem: "10de:145f", Class: "030200",
				Group: 21 + 2*i, NUMANode: i / 4, Vendor: "NVIDIA Corporation", Name: "GA100 [A100 PCIe 40GB]",
				Product: "NVIDIA A100-PCIE-40GB"})
	}
	h.PCI = append(h.PCI, nic("eno1", "0000:43:00.0", 60, 0), nic("eno2", "0000:43:00.1", 61, 0))
	m := New(h)
	m.VMs = []VM{
		{ID: 100, Node: "pve1", Name: "nas", Running: true, Config: map[string]string{
			"cores": "4", "memory": "16384", "net0": "virtio=BC:24:11:10:00:01,bridge=vmbr0", "ostype": "l26",
			"scsi0": "vmdata:vm-100-disk-0,size=64G", "scsihw": "virtio-scsi-single", "boot": "order=scsi0", "onboot": "1", "tags": "storage"}},
		{ID: 104, Node: "pve1", Name: "win11", Config: map[string]string{
			"cores": "8", "memory": "32768", "net0": "virtio=BC:24:11:10:00:02,bridge=vmbr0", "ostype": "win11",
			"bios": "ovmf", "machine": "q35", "efidisk0": "vmdata:vm-104-disk-0,efitype=4m,pre-enrolled-keys=1,size=1M",
			"scsi0": "vmdata:vm-104-disk-1,size=256G", "boot": "order=scsi0"}},
	}
	return m
}

// OneGPU is a workstation with one RTX 4090, whose audio function shares its
// IOMMU group, as is usual.
func OneGPU() Model {
	return New(Host{Name: "pve1", CPUs: 16, NUMANodes: 1, CPUModel: "AMD Ryzen 9 7950X 16-Core Processor", Memory: 128 * GiB,
		PCI:      append([]PCIDevice{bridge("0000:00:01.1", 12, 0)}, append(rtx4090("0000:01:00", 13), nic("eno1", "0000:05:00.0", 17, 0))...),
		Storages: storages(TiB), Bridges: []string{"vmbr0"}, CIDRs: map[string]string{"vmbr0": "192.168.1.10/24"}, Gateway: "192.168.1.1"})
}

// TwoHosts is a cluster of two hosts with different cards: pve1 has two RTX 4090,
// pve2 two A100 PCIe 80 GB. They share no storage.
func TwoHosts() Model {
	one := Host{Name: "pve1", CPUs: 32, NUMANodes: 1, CPUModel: "AMD Ryzen Threadripper 7960X 24-Cores", Memory: 256 * GiB,
		PCI:      append(rtx4090("0000:01:00", 13), rtx4090("0000:21:00", 27)...),
		Storages: storages(TiB), Bridges: []string{"vmbr0"}, CIDRs: map[string]string{"vmbr0": "172.16.4.2/24"}, Gateway: "172.16.4.1"}
	two := Host{Name: "pve2", CPUs: 64, NUMANodes: 2, CPUModel: "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", Memory: 512 * GiB,
		Storages: storages(2 * TiB), Bridges: []string{"vmbr0", "vmbr1"},
		CIDRs: map[string]string{"vmbr0": "172.16.4.3/24", "vmbr1": "10.99.0.3/24"}, Gateway: "172.16.4.1"}
	for i, bus := range []string{"17", "ca"} {
		two.PCI = append(two.PCI, PCIDevice{Address: "0000:" + bus + ":00.0", ID: "10de:20b5", Subsystem: "10de:1533", Class: "030200",
			Group: 33 + 8*i, NUMANode: i, Vendor: "NVIDIA Corporation", Name: "GA100 [A100 PCIe 80GB]", Product: "NVIDIA A100 80GB PCIe"})
	}
	return New(one, two)
}

// rtx4090 is the card's two functions.
func rtx4090(slot string, group int) []PCIDevice {
	return []PCIDevice{
		{Address: slot + ".0", ID: "10de:2684", Subsystem: "1043:88e2", Class: "030000", Group: group,
			Vendor: "NVIDIA Corporation", Name: "AD102 [GeForce RTX 4090]", Product: "NVIDIA GeForce RTX 4090"},
		{Address: slot + ".1", ID: "10de:22ba", Subsystem: "1043:88e2", Class: "040300", Group: group,
			Vendor: "NVIDIA Corporation", Name: "AD102 High Definition Audio Controller"},
	}
}

func bridge(address string, group, numa int) PCIDevice {
	return PCIDevice{Address: address, ID: "1022:1483", Subsystem: "1022:1453", Class: "060400", Group: group, NUMANode: numa,
		Vendor: "Advanced Micro Devices, Inc. [AMD]", Name: "Starship/Matisse GPP Bridge"}
}

func nic(name, address string, group, numa int) PCIDevice {
	return PCIDevice{Address: address, ID: "8086:1572", Subsystem: "8086:0000", Class: "020000", Group: group, NUMANode: numa,
		Vendor: "Intel Corporation", Name: "Ethernet Controller X710 for 10GbE SFP+", Interface: name}
}

// decrement returns the bus before a bus, where the bridge to it sits.
func decrement(bus string) string {
	var n int
	_, _ = fmt.Sscanf(bus, "%x", &n)
	return fmt.Sprintf("%02x", n-1)
}
