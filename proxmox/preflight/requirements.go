package preflight

import (
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// Requirements is what hosts must be able to run.
type Requirements struct {
	Owner      string                            // tag of the VMs that are ours
	Hosts      []Host                            // that are in use
	VMs        []VM                              // that must exist
	Grants     []proxmox.Grant                   // what the token must be allowed to do
	ReadGrants []proxmox.Grant                   // what it may also read; the roles include these
	Role       string                            // prefix of the names of the roles that grant it; see proxmox.Roles
	Mappings   func(id, description string) bool // reports which resource mappings are ours; nil: none

	// Place says why the VMs of a host cannot have their GPUs, for callers that choose cards by
	// their own rules; nil: any card that fits and is free can be used.
	Place func(ctx context.Context, host string) error

	// Devices says why the VMs of a host cannot have their other devices, which the caller chooses;
	// nil: they are not checked.
	Devices func(ctx context.Context, host string) error

	// Volumes says why the VMs of a host cannot have the existing volumes that they ask for; nil: none
	// asks for one.
	Volumes func(ctx context.Context, host string) error

	// Clones says how the missing VMs of a host get their disks from a template, by name; nil: they
	// are not cloned.
	Clones func(ctx context.Context, host string) (map[string]proxmox.Cloning, error)

	// Ticket says that there is a login of root@pam in addition to the token.
	Ticket bool

	// Driver is the wanted GPU driver in the VMs; nil: the driver is not checked. Release is the
	// Ubuntu release that it is for, by its code name.
	Driver  *nvidia.Policy
	Release string

	// Addresses must be unused until we take them.
	Addresses []Address
	// Dial reaches what may answer at an address; nil: nothing is dialled.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Address is an address, or a range of them, that a machine of ours or their cluster takes.
type Address struct {
	proxmox.Range
	Owner  string   // the machine, or what the address is for: "the VIP"
	By     []string // the machines that take it, or the servers of the cluster that does
	Shared bool     // it is the cluster's, not that of a single machine
	Exists bool     // machines that we did not make have it already
	Place  string   // file:line:column, for messages; may be empty
}

// String names the address, its machine and its place in the file.
func (a Address) String() string {
	if a.Place == "" {
		return fmt.Sprintf("%s of %s", a.Range, a.Owner)
	}
	return fmt.Sprintf("%s: %s of %s", a.Place, a.Range, a.Owner)
}

// Host is a host that is in use.
type Host struct {
	Name     string
	Storages []StorageUse
	// Template is the storage of a template that is made for the host's VMs; empty: none is made.
	Template string
}

// StorageUse is the purpose of one storage of a host.
type StorageUse struct {
	Storage string
	Content string // images, iso or import
	Purpose string // as in "the disk of gpu1"
	Claims  bool   // the storage driver creates volumes of claims there
}

// VM is a machine that must exist. An existing one is found by its name and the owner's tag.
type VM struct {
	Name    string
	Host    string
	VMID    int // 0: any
	Cores   int
	Memory  proxmox.Size
	CPUType string // "host", or a model; empty: host
	NICs    []proxmox.NIC
	Disks   []proxmox.Disk // only Storage and Size are used
	Pool    string         // resource pool; empty: none
	Groups  []string       // security groups of the firewall
	GPUs    GPUs
	Devices int // how many other devices are passed through; see Requirements.Devices

	// RootOnly are wanted options that Proxmox lets only root@pam set, with their values: affinity,
	// hugepages, args, ….
	RootOnly map[string]string
}

// GPUs are the cards that a VM wants.
type GPUs struct {
	Count    int
	Model    string               // part of the card's name; empty: any
	PCI      []proxmox.PCIAddress // these cards; empty: any Count of them
	Mappings []string             // these existing mappings; empty: a mapping of ours
}

// fits reports whether a card matches the request.
func (g GPUs) fits(card pci.GPU) bool {
	if len(g.PCI) > 0 {
		return slices.ContainsFunc(g.PCI, func(a proxmox.PCIAddress) bool {
			return a.Whole() == card.Address.Whole() && !card.HasVirtualFunction(a)
		})
	}
	id, err := nvidia.ParsePCIID(card.ID())
	return nvidia.IsModel(g.Model, id, card.Name) && (err == nil || g.Model == "")
}

// vmsOn returns the VMs of a host, and in gpus those of them that want GPUs.
func (w *Requirements) vmsOn(host string) []VM {
	return filter(w.VMs, func(vm VM) bool { return vm.Host == host })
}

func (w *Requirements) gpus(host string) []VM {
	return filter(w.vmsOn(host), func(vm VM) bool { return vm.GPUs.Count > 0 })
}

func (w *Requirements) wantsGPUs() bool {
	return slices.ContainsFunc(w.VMs, func(vm VM) bool { return vm.GPUs.Count > 0 })
}

func (w *Requirements) wantsPools() bool {
	return slices.ContainsFunc(w.VMs, func(vm VM) bool { return vm.Pool != "" })
}

func (w *Requirements) wantsGroups() bool {
	return slices.ContainsFunc(w.VMs, func(vm VM) bool { return len(vm.Groups) > 0 })
}

func (w *Requirements) wantsDevices() bool {
	return w.Devices != nil && slices.ContainsFunc(w.VMs, func(vm VM) bool { return vm.Devices > 0 })
}

func filter[T any](all []T, want func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(x T) bool { return !want(x) })
}
