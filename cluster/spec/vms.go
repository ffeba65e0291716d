package spec

import "slices"

// PlainVM is the role of a VM that is not a node. No node of Spec.Nodes has it.
const PlainVM Role = "vm"

// NoNode is the Proxmox tag of a VM that is not a node. It applies even if the file no longer names
// the VM: no server has to be asked before it goes.
const NoNode = "no-node"

// VM is a virtual machine beside the nodes: a cloud image with disks, networks, GPUs and devices,
// and without Kubernetes.
type VM struct {
	VMBoot `yaml:",inline"`
	Node   `yaml:",inline" without:"pool,adopt,privateKey,jump,sudoPassword,external,role,labels,taints"`
}

// VMBoot says what a VM boots, and when it is up.
type VMBoot struct {
	Cloud    CloudImage `yaml:"image" absent:"this, ‘template’ or ‘iso’" doc:"What its boot disk is made from, once."`
	Template string     `yaml:"template" absent:"this, ‘image’ or ‘iso’" doc:"A template of Proxmox's, by name or VMID, that the VM is cloned from, once: [vms.md](vms.md#a-template-of-your-own)."`
	ISO      WindowsISO `yaml:"iso" absent:"this, ‘image’ or ‘template’" doc:"Windows is installed, once: [vms.md](vms.md#windows-from-its-disc)."`
	System   string     `yaml:"system" default:"linux" enum:"linux,windows" doc:"What the first boot is written for: cloud-init on ‘linux’, cloudbase-init on ‘windows’, which needs ‘template’ or ‘iso’."`
	Agent    Switch     `yaml:"agent" default:"true" doc:"The first boot installs QEMU's guest agent, and ‘cluster:up’ waits until it answers. ‘false’: the VM is up when it runs."`
}

// Windows is the System of a VM whose first boot is cloudbase-init's.
const Windows = "windows"

// Source identifies what the boot disk is made from.
func (b VMBoot) Source() string {
	return b.Template + b.Cloud.Sum() + b.ISO.Windows
}

// CloudImage is the disk image of a VM.
type CloudImage struct {
	URL    string `yaml:"url" required:"true" doc:"A cloud image for amd64 that boots with UEFI: qcow2 (also called ‘.img’) or ‘.raw’, not compressed. The host downloads it."`
	SHA256 string `yaml:"sha256" absent:"this or ‘sha512’" doc:"Its checksum."`
	SHA512 string `yaml:"sha512" absent:"this or ‘sha256’" doc:"Instead of ‘sha256’."`
}

// Sum is the image's checksum, which identifies it.
func (i CloudImage) Sum() string { return i.SHA256 + i.SHA512 }

// IsNode reports whether machines of this role are nodes of Kubernetes.
func (r Role) IsNode() bool { return r != FileServer && r != PlainVM }

// FromTemplate reports whether the machine is cloned from the template of its host, unless it is adopted.
func (n Node) FromTemplate() bool { return n.OnProxmox() && n.Boot == nil }

// FromImage reports whether the machine's boot disk is made from an image of its own.
func (n Node) FromImage() bool { return n.Boot != nil && n.Boot.Template == "" && !n.FromDiscs() }

// Machine is the VM as one of the machines of the file.
func (vm VM) Machine() Node {
	n := vm.Node
	n.Role, n.Boot = PlainVM, &vm.VMBoot
	n.Tags = append(slices.Clip(n.Tags), NoNode)
	return n
}

// GPUMachines returns the machines that get GPUs of the hosts: nodes, and VMs that are not.
func (s *Spec) GPUMachines() []Node {
	return slices.DeleteFunc(slices.Clone(s.Machines()), func(n Node) bool { return !n.HasGPUs() })
}
