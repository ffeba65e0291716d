package spec

import (
	"net/netip"
)

// Role is a node's role in K3s.
type Role string

// The roles.
const (
	Server Role = "server" // control plane and etcd
	Agent  Role = "agent"  // work only
)

// Node is one machine of the cluster.
type Node struct {
	Name string // of the VM, the hostname and the Kubernetes node
	Pool string // empty if it is in none
	Role Role
	Host string // the Proxmox host; empty if External, AnyHost before Place

	External bool   // not created by homelab, only reached over SSH
	SSHUser  string // of an external node; empty: Access.User
	SSHPort  int    // of an external node, default 22; 0 for a VM

	Adopt bool // its VM exists already, and is taken over unchanged

	VMID    int          // 0: the next free one
	Address netip.Prefix // the node's address with its prefix length; not valid: DHCP
	MAC     MAC
	Network Network

	Cores       int
	Memory      Size
	CPUType     string
	NUMA        bool
	NUMANodes   []NUMANode // empty: Proxmox's default
	Hugepages   string     // any, 2, 1024, none; empty: unchanged
	Affinity    string     // CPUs of the host; none; empty: unchanged
	TPM         bool
	OnBoot      bool
	Startup     Startup
	Tags        []string // in addition to the cluster's own tag
	Description string

	OSDisk OSDisk
	Disks  []Disk // in the order of the file
	GPUs   GPURequest

	Labels map[string]string
	Taints []Taint
}

// DHCP reports whether the node gets its address from a DHCP server.
func (n Node) DHCP() bool { return !n.Address.IsValid() }

// NUMANode is a NUMA node of a VM, with lists as Proxmox writes them: 0-3;8.
type NUMANode struct {
	CPUs      string // of the VM
	Memory    Size
	HostNodes string // of the host; empty: any
	Policy    string // bind, preferred or interleave; empty without HostNodes
}

// DiskOptions are the options of every disk.
type DiskOptions struct {
	Storage  string
	Size     Size
	SSD      bool
	Discard  bool
	IOThread bool
}

// OSDisk is a node's boot disk.
type OSDisk struct{ DiskOptions }

// Disk roles.
const (
	RoleScratch = "scratch" // contents may be lost
	RoleData    = "data"
)

// Disk is a further disk of a node. The guest finds it by its serial, which is its name.
type Disk struct {
	DiskOptions
	Name  string // unique on the node, at most 20 characters
	Role  string // RoleScratch or RoleData
	FS    string // ext4 or xfs; empty if Mount is
	Mount string // mount point; empty: not mounted
}

// GPURequest says which GPUs a node gets. Without PCI and Mapping homelab chooses Count of
// them on the node's host, on one NUMA node if possible.
type GPURequest struct {
	Count   int          // 0: none; equals len(PCI) or len(Mapping) if one is set
	Model   string       // part of the model's name, e.g. A100; empty: any
	PCI     []PCIAddress // on the node's host
	Mapping []string     // existing resource mappings, one per GPU

	PCIe         bool
	ROMBar       bool
	AllFunctions bool
	Sharing      Sharing // already merged with NVIDIA.Sharing
}

// Taint keeps pods away that do not tolerate it.
type Taint struct {
	Key    string
	Value  string // may be empty
	Effect string // NoSchedule, PreferNoSchedule or NoExecute
}

// String returns key=value:Effect, or key:Effect.
func (t Taint) String() string {
	if t.Value == "" {
		return t.Key + ":" + t.Effect
	}
	return t.Key + "=" + t.Value + ":" + t.Effect
}
