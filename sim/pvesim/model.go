package pvesim

import "github.com/cps-gpu/homelab/sim/pvesim/model"

// A model is data, with these types.
type (
	// Model is the hardware and the beginning of a simulated Proxmox VE cluster, as
	// data: what a person would find out by walking around it. Zero values are what
	// is usual and healthy.
	Model = model.Model
	// Host is one node.
	Host = model.Host
	// HostOS is a node's own operating system, for those who log in to it as root. The
	// zero HostOS boots by GRUB and is ready to pass devices through.
	HostOS = model.HostOS
	// PCIDevice is one function of a PCI device.
	PCIDevice = model.PCIDevice
	// USBDevice is a device in a USB port of a host.
	USBDevice = model.USBDevice
	// Container is a container that the model begins with.
	Container = model.Container
	// PCIMapping is a resource mapping of PCI devices.
	PCIMapping = model.PCIMapping
	// Storage is a storage as a node sees it. Those of the same name with Shared
	// set are one.
	Storage = model.Storage
	// File is a file on a storage. Its contents are the URL's of the simulated
	// internet, or the text, or so many bytes of nothing.
	File = model.File
	// VM is a virtual machine that the model begins with. It has a living guest where
	// Image says what it boots, else none.
	VM = model.VM
	// IDRange is a range of VMIDs, both ends included; 0 is Proxmox's own end.
	IDRange = model.IDRange
	// Zone is a zone of Proxmox's SDN.
	Zone = model.Zone
	// VNet is a virtual network of Proxmox's SDN, with one subnet.
	VNet = model.VNet
	// Lease is an address in Proxmox's own IPAM.
	Lease = model.Lease
	// Pool is a resource pool; who is in it stands in the VMs.
	Pool = model.Pool
	// User is somebody, with a password where one is to log in.
	User = model.User
	// Group is a group of users. ACLs name it with an @ before it.
	Group = model.Group
	// Token is an API token.
	Token = model.Token
	// Role is a named list of privileges.
	Role = model.Role
	// ACL grants a role on a path and, unless NoPropagate, on all below.
	ACL = model.ACL
	// Size is a number of bytes that prints as 16GiB.
	Size = model.Size
	// ModelError is one thing that is wrong in a model's file.
	ModelError = model.ModelError
	// ModelErrors is everything that is wrong in a model's file, in its order.
	ModelErrors = model.ModelErrors
)

// Sizes.
const (
	KiB = model.KiB
	MiB = model.MiB
	GiB = model.GiB
	TiB = model.TiB
)

// ParseModel reads a model from YAML and checks it: keys that it does not know,
// values of another form, VMs on hosts that are not there. The filename is for
// messages alone. When anything is wrong the error is [ModelErrors].
func ParseModel(filename string, data []byte) (Model, error) { return model.ParseModel(filename, data) }

// LoadModel returns the preset of a name, or reads the file where the name is none.
func LoadModel(name string) (Model, error) { return model.LoadModel(name) }

// Presets are the names of the models that have one, smallest first.
func Presets() []string { return model.Presets() }

// PresetYAML writes a preset with comments, as a file to begin with.
func PresetYAML(name string) ([]byte, error) { return model.PresetYAML(name) }

// EightA100 is a server with eight A100 PCIe 40 GB, four on each of two sockets,
// each in an IOMMU group of its own. Two machines of somebody else live on it:
// one that runs and one that does not.
func EightA100() Model { return model.EightA100() }

// OneGPU is a workstation with one RTX 4090, whose audio function shares its
// IOMMU group, as is usual.
func OneGPU() Model { return model.OneGPU() }

// TwoHosts is a cluster of two hosts with different cards: pve1 has two RTX 4090,
// pve2 two A100 PCIe 80 GB. They share no storage.
func TwoHosts() Model { return model.TwoHosts() }

// NewModel is a model of hosts that the operator of the presets is let into.
func NewModel(hosts ...Host) Model { return model.New(hosts...) }

// OperatorPrivileges returns what the operator's role grants: what this library
// needs on a Proxmox VE 9 host.
func OperatorPrivileges() []string { return model.OperatorPrivileges() }
