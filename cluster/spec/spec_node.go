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
	Name    string       `yaml:"-"` // of the VM, the hostname and the Kubernetes node
	Pool    string       `yaml:"pool" doc:"Its pool."`
	Address netip.Prefix `yaml:"address,single" doc:"Its static address."` // with the length of Network.Prefix; not valid: DHCP
	MAC     MAC          `yaml:"mac" doc:"Its Ethernet address. Default: derived from the names of cluster and node, and stable."`
	VMID    int          `yaml:"vmid" doc:"Default: the next free one."`
	Adopt   bool         `yaml:"adopt" doc:"Take over the existing VM of this name, which homelab did not create."`
	SSH     string       `yaml:"external" json:"-" doc:"An existing machine: user@address:port of its SSH server."`

	External bool   `yaml:"-" doc:": SSH says it"`                  // not created by homelab, only reached over SSH
	SSHUser  string `yaml:"-"`                                      // of an external node; empty: Access.User
	SSHPort  int    `yaml:"-"`                                      // of an external node, default 22; 0 for a VM
	OSDisk   OSDisk `yaml:"-" doc:", and write a disk os in Disks"` // the disk os of Disks

	Role        Role              `yaml:"role" default:"agent" enum:"server,agent" doc:"server (control plane) or agent. Default agent."`
	Host        string            `yaml:"host" doc:"Proxmox host; auto: one of proxmox.hosts with enough room."` // empty if External, AnyHost before Place
	Cores       int               `yaml:"cores" doc:"vCPUs."`
	Memory      Size              `yaml:"memory" doc:"e.g. 16GiB."`
	CPUType     string            `yaml:"cpu" default:"host" doc:"CPU type of the VM. Default host."`
	NUMA        Switch            `yaml:"numa" doc:"Show NUMA to the guest. Default: on GPU nodes."`
	NUMANodes   []NUMANode        `yaml:"numaNodes" doc:"NUMA nodes of the VM, each bound to some of the host's. Default: one for each socket."`
	Hugepages   string            `yaml:"hugepages" enum:"any,2MiB,1GiB,none" doc:"Memory in huge pages: any, 2MiB or 1GiB; none removes them. Only root@pam with its password may set it."`
	Affinity    string            `yaml:"affinity" doc:"CPUs of the host that the VM runs on, e.g. 0-15,32-47; none removes it. Only root@pam with its password may set it."`
	TPM         bool              `yaml:"tpm" doc:"Give the VM a TPM 2.0. Default false; an existing one is never removed."`
	OnBoot      Switch            `yaml:"onboot" default:"true" doc:"Start with the host. Default true."`
	Startup     Startup           `yaml:"startup" doc:"Position in the boot order, e.g. order=1,up=30,down=120. Needs the privilege Sys.Modify on /."`
	Tags        []string          `yaml:"tags" doc:"Further tags of the VM."` // in addition to the cluster's own
	Description string            `yaml:"description" doc:"Notes of the VM."`
	Storage     string            `yaml:"storage" json:"-" doc:"Storage of disks that name none. Default local-lvm; vmdata in the lab."`
	Disks       []Disk            `yaml:"disks,named" doc:"Disks by name; os is the boot disk."`
	Network     Network           `yaml:"network" doc:"Overrides of the cluster's network."`
	GPUs        GPURequest        `yaml:"gpus" doc:"GPUs to pass through: a number, or the keys below."`
	Labels      map[string]string `yaml:"labels" doc:"Labels of the Kubernetes node; removed there when removed here."`
	Taints      []Taint           `yaml:"taints" doc:"Taints, key=value:Effect. Default nvidia.com/gpu=present:NoSchedule on agents with GPUs; [] for none."`
}

// Shape is what nodes inherit from their pool, and pools from the defaults.
type Shape struct {
	Node `yaml:",inline" without:"pool,address,mac,vmid,adopt,external"`
}

// Pool is a group of similar nodes. Reading a file, or completing a Spec, makes its nodes.
type Pool struct {
	Name      string         `yaml:"-"`
	Count     int            `yaml:"count" doc:"Number of nodes: <prefix>1, <prefix>2 and so on."`
	Prefix    string         `yaml:"prefix" doc:"Start of the nodes' names. Default: the pool's name."`
	First     *int           `yaml:"first" doc:"The first index. Default 1."`
	Names     []string       `yaml:"names" doc:"The nodes' names, instead of count."`
	Addresses []AddressRange `yaml:"addresses" doc:"Addresses of the nodes in order: single ones, or ranges as in 10.0.0.11-10.0.0.13."`
	VMIDs     []VMIDRange    `yaml:"vmids" doc:"VMIDs of the nodes in order: single ones, or ranges as in 201-204. Default: the next free ones."`
	Shape     `yaml:",inline"`
}

// DHCP reports whether the node gets its address from a DHCP server.
func (n Node) DHCP() bool { return !n.Address.IsValid() }

// NUMANode is a NUMA node of a VM, with lists as Proxmox writes them: 0-3;8.
type NUMANode struct {
	CPUs      string `yaml:"cpus" required:"true" doc:"Its CPUs of the VM, e.g. 0-7."`
	Memory    Size   `yaml:"memory" required:"true" doc:"Its memory; the sum of all entries is the node's memory."`
	HostNodes string `yaml:"hostNodes" doc:"NUMA nodes of the host that provide the memory, e.g. 0. Default: any."`
	Policy    string `yaml:"policy" default:"bind" enum:"bind,preferred,interleave" doc:"Memory policy. Default bind."` // empty without HostNodes
}

// DiskOptions are the options of every disk.
type DiskOptions struct {
	Storage  string `yaml:"storage" doc:"Default: the node's storage."`
	Size     Size   `yaml:"size" doc:"e.g. 500GiB."`
	SSD      Switch `yaml:"ssd" default:"true" doc:"Tell the guest that it is an SSD. Default true."`
	Discard  Switch `yaml:"discard" default:"true" doc:"Return freed blocks to the storage. Default true."`
	IOThread Switch `yaml:"iothread" default:"true" doc:"Use an I/O thread for this disk. Default true."`
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
	DiskOptions `yaml:",inline"`
	Name        string `yaml:"-"` // unique on the node, at most 20 characters
	Role        string `yaml:"role" default:"data" enum:"scratch,data" doc:"Default: scratch for the disk of that name, else data."`
	FS          string `yaml:"fs" default:"ext4" enum:"ext4,xfs" doc:"Default ext4."` // empty if Mount is
	Mount       string `yaml:"mount" doc:"Where the guest mounts it. Default: nowhere."`
}

// GPURequest says which GPUs a node gets. Without PCI and Mapping homelab chooses Count of
// them on the node's host, on one NUMA node if possible.
type GPURequest struct {
	Count        int          `yaml:"count" short:"number" doc:"Number of GPUs; homelab chooses neighbouring cards."` // equals len(PCI) or len(Mapping) if one is set
	Model        string       `yaml:"model" doc:"Only cards of this model: whole words of its name, e.g. A100 or RTX 4090."`
	PCI          []PCIAddress `yaml:"pci" doc:"These cards, e.g. 01:00 or 0000:01:00.0."`
	Mapping      []string     `yaml:"mapping" doc:"These existing resource mappings, one per GPU."`
	PCIe         Switch       `yaml:"pcie" default:"true" doc:"Default true."`
	ROMBar       Switch       `yaml:"rombar" default:"true" doc:"Default true."`
	AllFunctions Switch       `yaml:"allFunctions" default:"true" doc:"Pass the card's other functions (audio, USB) too. Default true."`
	Sharing      Sharing      `yaml:"sharing" doc:"Replaces nvidia.sharing for this node."`
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
