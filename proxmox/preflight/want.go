package preflight

import (
	"context"
	"net/netip"
	"slices"

	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
	"github.com/cps-gpu/homelab/proxmox/permission"
)

// Want is what hosts are to carry.
type Want struct {
	Owner    string                            // tag of the VMs that are ours
	Hosts    []Host                            // that are used
	VMs      []VM                              // that are to be there
	Grants   []permission.Grant                // what the token must be allowed
	Looks    []permission.Grant                // what it is allowed beside that, to look; the roles have it too
	Role     string                            // what the names of the roles begin with that grant it; see permission.Roles
	Mappings func(id, description string) bool // which resource mappings are ours; nil: none

	// Place says why the VMs of a host cannot have their GPUs, for one who has rules of
	// their own by which cards are chosen; nil: any that fit and are free will do.
	Place func(ctx context.Context, host string) error

	// Ticket says that there is a login of root@pam itself beside the token.
	Ticket bool

	// Driver is what is wanted of the GPUs' driver in the VMs; nil: that is not our
	// business. Release is the Ubuntu release that it is for, by its code name.
	Driver  *nvidia.Policy
	Release string

	// Addresses are to be free for us: whose each is, by address.
	Addresses map[netip.Addr]string
}

// Host is a host that is used.
type Host struct {
	Name     string
	Storages []StorageUse
}

// StorageUse is what one storage of a host is for.
type StorageUse struct {
	Storage string
	Content string // images, iso or import
	Why     string // as in "the disk of gpu1"
}

// VM is a machine that is to be there. One that is there already is found by its name
// and the owner's tag.
type VM struct {
	Name    string
	Host    string
	VMID    int // 0: any
	Cores   int
	Memory  proxmox.Size
	CPUType string // "host", or a model; empty: host
	NICs    []proxmox.NIC
	Disks   []proxmox.Disk // of which Storage and Size are read
	GPUs    GPUs

	// RootOnly are options that it wants and Proxmox lets only root@pam set, with their
	// values: affinity, hugepages, args, ….
	RootOnly map[string]string
}

// GPUs are the cards that a VM is to have.
type GPUs struct {
	Count    int
	Model    string               // part of the card's name; empty: any
	PCI      []proxmox.PCIAddress // those; empty: any Count of them
	Mappings []string             // through these, which are there already; empty: through one that is ours
}

// fits reports whether a card may become one of those.
func (g GPUs) fits(card pci.GPU) bool {
	if len(g.PCI) > 0 {
		return slices.ContainsFunc(g.PCI, func(a proxmox.PCIAddress) bool { return a.Whole() == card.Address.Whole() })
	}
	return containsFold(card.Name, g.Model)
}

// on lists the VMs of a host, gpus those of them that want GPUs.
func (w *Want) on(host string) []VM {
	return keep(w.VMs, func(vm VM) bool { return vm.Host == host })
}

func (w *Want) gpus(host string) []VM {
	return keep(w.on(host), func(vm VM) bool { return vm.GPUs.Count > 0 })
}

func (w *Want) wantsGPUs() bool {
	return slices.ContainsFunc(w.VMs, func(vm VM) bool { return vm.GPUs.Count > 0 })
}

func keep[T any](all []T, want func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(x T) bool { return !want(x) })
}
