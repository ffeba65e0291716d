package written

import (
	"net/netip"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// Shape has the keys of defaults, pools and nodes.
type Shape struct {
	Role        string            `yaml:"role" jsonschema:"enum=server,enum=agent" jsonschema_description:"server (control plane) or agent. Default agent."`
	Host        string            `yaml:"host" jsonschema_description:"Proxmox host; auto: one of proxmox.hosts with enough room."`
	Cores       *int              `yaml:"cores" jsonschema_description:"vCPUs."`
	Memory      *spec.Size        `yaml:"memory" jsonschema_description:"e.g. 16GiB."`
	CPU         string            `yaml:"cpu" jsonschema_description:"CPU type of the VM. Default host."`
	NUMA        *bool             `yaml:"numa" jsonschema_description:"Show NUMA to the guest. Default: on GPU nodes."`
	NUMANodes   []NUMANode        `yaml:"numaNodes" jsonschema_description:"NUMA nodes of the VM, each bound to some of the host's. Default: one for each socket."`
	Hugepages   string            `yaml:"hugepages" jsonschema:"enum=any,enum=2MiB,enum=1GiB,enum=none" jsonschema_description:"Memory in huge pages: any, 2MiB or 1GiB; none removes them. Only root@pam with its password may set it."`
	Affinity    string            `yaml:"affinity" jsonschema_description:"CPUs of the host that the VM runs on, e.g. 0-15,32-47; none removes it. Only root@pam with its password may set it."`
	TPM         *bool             `yaml:"tpm" jsonschema_description:"Give the VM a TPM 2.0. Default false; an existing one is never removed."`
	OnBoot      *bool             `yaml:"onboot" jsonschema_description:"Start with the host. Default true."`
	Startup     BootOrder         `yaml:"startup" jsonschema_description:"Position in the boot order, e.g. order=1,up=30,down=120. Needs the privilege Sys.Modify on /."`
	Tags        []string          `yaml:"tags" jsonschema_description:"Further tags of the VM."`
	Description string            `yaml:"description" jsonschema_description:"Notes of the VM."`
	Storage     string            `yaml:"storage" jsonschema_description:"Storage of disks that name none. Default local-lvm; vmdata in the lab."`
	Disks       named[Disk]       `yaml:"disks" jsonschema_description:"Disks by name; os is the boot disk."`
	Network     Network           `yaml:"network" jsonschema_description:"Overrides of the cluster's network."`
	GPUs        GPUs              `yaml:"gpus" jsonschema_description:"GPUs to pass through: a number, or the keys below."`
	Labels      map[string]string `yaml:"labels" jsonschema_description:"Labels of the Kubernetes node; removed there when removed here."`
	Taints      *[]spec.Taint     `yaml:"taints" jsonschema_description:"Taints, key=value:Effect. Default nvidia.com/gpu=present:NoSchedule on agents with GPUs; [] for none."`
}

// NUMANode is a NUMA node of a VM.
type NUMANode struct {
	CPUs      string     `yaml:"cpus" jsonschema:"required" jsonschema_description:"Its CPUs of the VM, e.g. 0-7."`
	Memory    *spec.Size `yaml:"memory" jsonschema:"required" jsonschema_description:"Its memory; the sum of all entries is the node's memory."`
	HostNodes string     `yaml:"hostNodes" jsonschema_description:"NUMA nodes of the host that provide the memory, e.g. 0. Default: any."`
	Policy    string     `yaml:"policy" jsonschema:"enum=bind,enum=preferred,enum=interleave" jsonschema_description:"Memory policy. Default bind."`
}

type Pool struct {
	Count     *int           `yaml:"count" jsonschema_description:"Number of nodes: <prefix>1, <prefix>2 and so on."`
	Prefix    string         `yaml:"prefix" jsonschema_description:"Start of the nodes' names. Default: the pool's name."`
	First     *int           `yaml:"first" jsonschema_description:"The first index. Default 1."`
	Names     []string       `yaml:"names" jsonschema_description:"The nodes' names, instead of count."`
	Addresses []AddressRange `yaml:"addresses" jsonschema_description:"Addresses of the nodes in order: single ones, or ranges as in 10.0.0.11-10.0.0.13."`
	VMIDs     []VMIDRange    `yaml:"vmids" jsonschema_description:"VMIDs of the nodes in order: single ones, or ranges as in 201-204. Default: the next free ones."`
	Shape     `yaml:",inline"`
}

type Node struct {
	Pool     string     `yaml:"pool" jsonschema_description:"Its pool."`
	Address  netip.Addr `yaml:"address" jsonschema_description:"Its static address."`
	MAC      *spec.MAC  `yaml:"mac" jsonschema_description:"Its Ethernet address. Default: derived from the names of cluster and node, and stable."`
	VMID     *int       `yaml:"vmid" jsonschema_description:"Default: the next free one."`
	Adopt    bool       `yaml:"adopt" jsonschema_description:"Take over the existing VM of this name, which homelab did not create."`
	External string     `yaml:"external" jsonschema_description:"An existing machine: user@address:port of its SSH server."`
	Shape    `yaml:",inline"`
}

type Disk struct {
	Storage  string     `yaml:"storage" jsonschema_description:"Default: the node's storage."`
	Size     *spec.Size `yaml:"size" jsonschema_description:"e.g. 500GiB."`
	SSD      *bool      `yaml:"ssd" jsonschema_description:"Tell the guest that it is an SSD. Default true."`
	Discard  *bool      `yaml:"discard" jsonschema_description:"Return freed blocks to the storage. Default true."`
	IOThread *bool      `yaml:"iothread" jsonschema_description:"Use an I/O thread for this disk. Default true."`
	Role     string     `yaml:"role" jsonschema:"enum=scratch,enum=data" jsonschema_description:"Default: scratch for the disk of that name, else data."`
	FS       string     `yaml:"fs" jsonschema:"enum=ext4,enum=xfs" jsonschema_description:"Default ext4."`
	Mount    string     `yaml:"mount" jsonschema_description:"Where the guest mounts it. Default: nowhere."`
}

// GPUs may also be written as a bare count.
type GPUs struct {
	Count        *int              `yaml:"count" jsonschema_description:"Number of GPUs; homelab chooses neighbouring cards."`
	Model        string            `yaml:"model" jsonschema_description:"Only cards of this model: whole words of its name, e.g. A100 or RTX 4090."`
	PCI          []spec.PCIAddress `yaml:"pci" jsonschema_description:"These cards, e.g. 01:00 or 0000:01:00.0."`
	Mapping      []string          `yaml:"mapping" jsonschema_description:"These existing resource mappings, one per GPU."`
	PCIe         *bool             `yaml:"pcie" jsonschema_description:"Default true."`
	ROMBar       *bool             `yaml:"rombar" jsonschema_description:"Default true."`
	AllFunctions *bool             `yaml:"allFunctions" jsonschema_description:"Pass the card's other functions (audio, USB) too. Default true."`
	Sharing      *Sharing          `yaml:"sharing" jsonschema_description:"Replaces nvidia.sharing for this node."`
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
