package decode

import (
	"net/netip"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// Shape has the keys of defaults, pools and nodes.
type Shape struct {
	Role        string            `yaml:"role" default:"agent" enum:"server,agent" doc:"server (control plane) or agent. Default agent."`
	Host        string            `yaml:"host" doc:"Proxmox host; auto: one of proxmox.hosts with enough room."`
	Cores       *int              `yaml:"cores" doc:"vCPUs."`
	Memory      *spec.Size        `yaml:"memory" doc:"e.g. 16GiB."`
	CPU         string            `yaml:"cpu" doc:"CPU type of the VM. Default host."`
	NUMA        *bool             `yaml:"numa" doc:"Show NUMA to the guest. Default: on GPU nodes."`
	NUMANodes   []NUMANode        `yaml:"numaNodes" doc:"NUMA nodes of the VM, each bound to some of the host's. Default: one for each socket."`
	Hugepages   string            `yaml:"hugepages" enum:"any,2MiB,1GiB,none" doc:"Memory in huge pages: any, 2MiB or 1GiB; none removes them. Only root@pam with its password may set it."`
	Affinity    string            `yaml:"affinity" doc:"CPUs of the host that the VM runs on, e.g. 0-15,32-47; none removes it. Only root@pam with its password may set it."`
	TPM         *bool             `yaml:"tpm" doc:"Give the VM a TPM 2.0. Default false; an existing one is never removed."`
	OnBoot      *bool             `yaml:"onboot" doc:"Start with the host. Default true."`
	Startup     spec.Startup      `yaml:"startup" doc:"Position in the boot order, e.g. order=1,up=30,down=120. Needs the privilege Sys.Modify on /."`
	Tags        []string          `yaml:"tags" doc:"Further tags of the VM."`
	Description string            `yaml:"description" doc:"Notes of the VM."`
	Storage     string            `yaml:"storage" doc:"Storage of disks that name none. Default local-lvm; vmdata in the lab."`
	Disks       named[Disk]       `yaml:"disks" doc:"Disks by name; os is the boot disk."`
	Network     spec.Network      `yaml:"network" doc:"Overrides of the cluster's network."`
	GPUs        GPUs              `yaml:"gpus" doc:"GPUs to pass through: a number, or the keys below."`
	Labels      map[string]string `yaml:"labels" doc:"Labels of the Kubernetes node; removed there when removed here."`
	Taints      *[]spec.Taint     `yaml:"taints" doc:"Taints, key=value:Effect. Default nvidia.com/gpu=present:NoSchedule on agents with GPUs; [] for none."`
}

// NUMANode is a NUMA node of a VM.
type NUMANode struct {
	CPUs      string     `yaml:"cpus" required:"true" doc:"Its CPUs of the VM, e.g. 0-7."`
	Memory    *spec.Size `yaml:"memory" required:"true" doc:"Its memory; the sum of all entries is the node's memory."`
	HostNodes string     `yaml:"hostNodes" doc:"NUMA nodes of the host that provide the memory, e.g. 0. Default: any."`
	Policy    string     `yaml:"policy" default:"bind" enum:"bind,preferred,interleave" doc:"Memory policy. Default bind."`
}

type Pool struct {
	Count     *int                `yaml:"count" doc:"Number of nodes: <prefix>1, <prefix>2 and so on."`
	Prefix    string              `yaml:"prefix" doc:"Start of the nodes' names. Default: the pool's name."`
	First     *int                `yaml:"first" doc:"The first index. Default 1."`
	Names     []string            `yaml:"names" doc:"The nodes' names, instead of count."`
	Addresses []spec.AddressRange `yaml:"addresses" doc:"Addresses of the nodes in order: single ones, or ranges as in 10.0.0.11-10.0.0.13."`
	VMIDs     []VMIDRange         `yaml:"vmids" doc:"VMIDs of the nodes in order: single ones, or ranges as in 201-204. Default: the next free ones."`
	Shape     `yaml:",inline"`
}

type Node struct {
	Pool     string     `yaml:"pool" doc:"Its pool."`
	Address  netip.Addr `yaml:"address" doc:"Its static address."`
	MAC      *spec.MAC  `yaml:"mac" doc:"Its Ethernet address. Default: derived from the names of cluster and node, and stable."`
	VMID     *int       `yaml:"vmid" doc:"Default: the next free one."`
	Adopt    bool       `yaml:"adopt" doc:"Take over the existing VM of this name, which homelab did not create."`
	External string     `yaml:"external" doc:"An existing machine: user@address:port of its SSH server."`
	Shape    `yaml:",inline"`
}

type Disk struct {
	Storage  string     `yaml:"storage" doc:"Default: the node's storage."`
	Size     *spec.Size `yaml:"size" doc:"e.g. 500GiB."`
	SSD      *bool      `yaml:"ssd" doc:"Tell the guest that it is an SSD. Default true."`
	Discard  *bool      `yaml:"discard" doc:"Return freed blocks to the storage. Default true."`
	IOThread *bool      `yaml:"iothread" doc:"Use an I/O thread for this disk. Default true."`
	Role     string     `yaml:"role" default:"data" enum:"scratch,data" doc:"Default: scratch for the disk of that name, else data."`
	FS       string     `yaml:"fs" default:"ext4" enum:"ext4,xfs" doc:"Default ext4."`
	Mount    string     `yaml:"mount" doc:"Where the guest mounts it. Default: nowhere."`
}

// GPUs may also be written as a bare count.
type GPUs struct {
	Count        *int              `yaml:"count" short:"number" doc:"Number of GPUs; homelab chooses neighbouring cards."`
	Model        string            `yaml:"model" doc:"Only cards of this model: whole words of its name, e.g. A100 or RTX 4090."`
	PCI          []spec.PCIAddress `yaml:"pci" doc:"These cards, e.g. 01:00 or 0000:01:00.0."`
	Mapping      []string          `yaml:"mapping" doc:"These existing resource mappings, one per GPU."`
	PCIe         *bool             `yaml:"pcie" doc:"Default true."`
	ROMBar       *bool             `yaml:"rombar" doc:"Default true."`
	AllFunctions *bool             `yaml:"allFunctions" doc:"Pass the card's other functions (audio, USB) too. Default true."`
	Sharing      *spec.Sharing     `yaml:"sharing" doc:"Replaces nvidia.sharing for this node."`
}

// named is a mapping from names to T that keeps the file's order.
type named[T any] []Entry[T]

type Entry[T any] struct {
	Name  string
	Value *T
}

func (n named[T]) Get(name string) *T {
	for _, e := range n {
		if e.Name == name {
			return e.Value
		}
	}
	return nil
}

func (n named[T]) Names() []string {
	out := make([]string, len(n))
	for i, e := range n {
		out[i] = e.Name
	}
	return out
}

// Ordered is implemented by every named list; the decoder recognizes them by it.
type Ordered interface{ orderedMapping() }

func (named[T]) orderedMapping() {}
