package spec

import (
	"net/netip"
	"strings"
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
	Name         string       `yaml:"-"` // of the VM, the hostname and the Kubernetes node
	Pool         string       `yaml:"pool" doc:"Its pool, in addition to the nodes that the pool's ‘count’ creates."`
	Address      netip.Prefix `yaml:"address,single" absent:"from the pool" doc:"Its static address, which [must be unused](host-check.md#whose-an-address-is)."` // with the length of Network.Prefix; not valid: DHCP
	MAC          MAC          `yaml:"mac" absent:"derived from the names, and stable" doc:"Ethernet address of its card."`
	VMID         int          `yaml:"vmid" absent:"from the pool, else the next free one" doc:"Number of its VM."`
	Adopt        bool         `yaml:"adopt" doc:"Take over the [existing VM](nodes.md#adopting-a-vm) of this name."`
	KeyFile      string       `yaml:"privateKey" json:",omitempty" absent:"the cluster's" doc:"File of the key to log in to this existing machine with."`
	Jump         string       `yaml:"jump" json:",omitempty" absent:"‘ssh.jump’" doc:"Jump host to this existing machine, ‘user@host:port’. Its key must be in your ‘~/.ssh/known_hosts’."`
	SudoPassword SecretRef    `yaml:"sudoPassword" json:",omitzero" absent:"‘ssh.sudoPassword’" doc:"Reference to the password that ‘sudo’ asks the user of this existing machine for."`
	SSH          string       `yaml:"external" json:"-" doc:"An [existing machine](external.md): ‘user@address:port’ of its SSH server."`

	External    bool   `yaml:"-" doc:": SSH says it"`                  // not created by homelab, only reached over SSH
	SSHUser     string `yaml:"-"`                                      // of an external node; empty: Access.User
	SSHPort     int    `yaml:"-"`                                      // of an external node, default 22; 0 for a VM
	OnHarvester bool   `yaml:"-" json:",omitempty"`                    // a VM of Harvester
	OSDisk      OSDisk `yaml:"-" doc:", and write a disk os in Disks"` // the disk os of Disks

	Boot *VMBoot `yaml:"-" json:",omitempty"` // of a VM that is not a node; nil: the machine is cloned from the nodes' template

	Role        Role              `yaml:"role" default:"agent" enum:"server,agent" doc:"‘server’ (control plane and etcd) or ‘agent’."`
	Host        string            `yaml:"host" absent:"‘proxmox.host’" doc:"Proxmox host; ‘auto’: one of ‘proxmox.hosts’ with enough room."` // empty if External, AnyHost before Place
	Cores       int               `yaml:"cores" absent:"4 for a server, 8 for an agent, 16 with GPUs; 2 for a VM of ‘vms’" doc:"vCPUs."`
	Memory      Size              `yaml:"memory" absent:"8GiB for a server, 16GiB for an agent, 64GiB with GPUs; 4GiB for a VM of ‘vms’" doc:"With a passed-through GPU all of it is pinned."`
	CPUType     string            `yaml:"cpu" default:"host" doc:"CPU type of the VM."`
	NUMA        Switch            `yaml:"numa" absent:"‘true’ with GPUs" doc:"Show NUMA to the guest."`
	NUMANodes   []NUMANode        `yaml:"numaNodes" absent:"one for each socket" doc:"NUMA nodes of the VM, with all of its CPUs and memory."`
	Hugepages   string            `yaml:"hugepages" enum:"any,2MiB,1GiB,none" absent:"unchanged" doc:"‘any’, ‘2MiB’ or ‘1GiB’; ‘none’ removes them. [Only root@pam](nodes.md#what-only-root-may-set) may set it."`
	Affinity    string            `yaml:"affinity" absent:"unchanged" doc:"CPUs of the host that the VM runs on, ‘0-15,32-47’; ‘none’ removes it. Only root@pam may set it."`
	CPUUnits    int               `yaml:"cpuUnits" json:",omitempty" min:"1" max:"10000" absent:"unchanged; a new VM: 100" doc:"Weight of its vCPUs against other VMs of the host. A whole number, 1 to 10000."`
	CPULimit    Cores             `yaml:"cpuLimit" json:",omitempty" absent:"unchanged" doc:"CPUs of the host that it uses at most at once, e.g. ‘3.5’."`
	Balloon     bool              `yaml:"balloon" json:",omitempty" doc:"Return memory that the guest does not use [to the host](nodes.md#memory). Not with GPUs or PCI devices."`
	TPM         bool              `yaml:"tpm" doc:"Give the VM a new TPM 2.0. homelab never removes it."`
	OnBoot      Switch            `yaml:"onboot" default:"true" doc:"Start with the host."`
	Startup     Startup           `yaml:"startup" absent:"not set" doc:"Boot order, ‘order=1,up=30,down=120’. Needs Sys.Modify on ‘/’."`
	Tags        []string          `yaml:"tags" doc:"Further tags of the VM."` // in addition to the cluster's own
	Description string            `yaml:"description" absent:"unchanged" doc:"Notes of the VM."`
	Storage     string            `yaml:"storage" json:"-" absent:"‘local-lvm’ (‘vmdata’ in the lab)" doc:"Storage of disks that name none."`
	Disks       []Disk            `yaml:"disks,named" absent:"only ‘os’" doc:"Disks by name; ‘os’ is the boot disk."`
	Network     Network           `yaml:"network" absent:"the cluster's" doc:"Overrides of single keys."`
	Networks    []Card            `yaml:"networks,named" absent:"none" doc:"[Further network cards](nodes.md#several-networks) by name. Kubernetes uses the first card, that of ‘network’, unless ‘k3s.network’ names another."`
	GPUs        GPURequest        `yaml:"gpus" doc:"GPUs to pass through: a number, or the keys below."`
	Devices     []Device          `yaml:"devices,named" json:",omitempty" absent:"none" doc:"[Further devices](nodes.md#devices) of the host to pass through, by name: an NVMe disk, InfiniBand, a TPU, a USB stick."`
	Labels      map[string]string `yaml:"labels" doc:"Labels of the Kubernetes node. Those of other owners stay."`
	Taints      []Taint           `yaml:"taints" absent:"‘nvidia.com/gpu=present:NoSchedule’ on agents with GPUs" doc:"List of ‘key=value:Effect’ or ‘key:Effect’; ‘[]’ for none."`

	Address6     netip.Prefix `yaml:"address6,single" json:",omitzero" absent:"from the pool" doc:"Its static IPv6 address [besides that of IPv4](nodes.md#ipv4-and-ipv6)."` // with the length of Network.Prefix6; not valid: none
	ResourcePool string       `yaml:"resourcePool" json:",omitempty" absent:"unchanged; a new VM: none" doc:"[Resource pool](nodes.md#resource-pools) of Proxmox that its VM is in. The pool must exist."`
	Protection   Switch       `yaml:"protection" json:",omitempty" absent:"unchanged; a new VM: ‘false’" doc:"Nobody can remove the VM or its disks [by hand](nodes.md#protection)."`

	SecurityGroups []string `yaml:"securityGroups" json:",omitzero" absent:"unchanged; a new VM: none" doc:"Security groups of [Proxmox's firewall](nodes.md#firewall) for its VM, in their order. They must exist."`
}

// Shape is what nodes inherit from their pool, and pools from the defaults.
type Shape struct {
	Node `yaml:",inline" without:"pool,address,address6,mac,vmid,adopt,external,privateKey,jump,sudoPassword"`
}

// Pool is a group of similar nodes. Reading a file, or completing a Spec, makes its nodes.
type Pool struct {
	Name      string         `yaml:"-"`
	Count     int            `yaml:"count" doc:"Number of nodes. They are called ‘NAME1’, ‘NAME2’ and so on."`
	Prefix    string         `yaml:"prefix" absent:"the pool's name" doc:"Start of the nodes' names."`
	First     *int           `yaml:"first" absent:"1" doc:"The first number."`
	Names     []string       `yaml:"names" doc:"The nodes' names, instead of the three above."`
	Addresses []AddressRange `yaml:"addresses" doc:"Addresses in the order of the nodes, ‘[10.0.0.11-10.0.0.13, 10.0.0.20]’."`
	VMIDs     []VMIDRange    `yaml:"vmids" absent:"the next free ones" doc:"VMIDs in the same way: ‘[201-204]’."`
	Shape     `yaml:",inline"`

	Addresses6 []AddressRange `yaml:"addresses6" json:",omitempty" doc:"IPv6 addresses besides ‘addresses’, in the same way."`
}

// DHCP reports whether the node gets its address from a DHCP server.
func (n Node) DHCP() bool { return !n.Address.IsValid() }

// NUMANode is a NUMA node of a VM, with lists as Proxmox writes them: 0-3;8.
type NUMANode struct {
	CPUs      string `yaml:"cpus" required:"true" doc:"Its CPUs of the VM, e.g. ‘0-7’."`
	Memory    Size   `yaml:"memory" required:"true" doc:"Its memory."`
	HostNodes string `yaml:"hostNodes" absent:"any" doc:"NUMA nodes of the host that provide the memory, e.g. ‘0’."`
	Policy    string `yaml:"policy" default:"bind" enum:"bind,preferred,interleave" doc:"‘bind’, ‘preferred’ or ‘interleave’."` // empty without HostNodes
}

// DiskOptions are the options of every disk.
type DiskOptions struct {
	Storage  string `yaml:"storage" absent:"the node's" doc:"Storage where the disk is created."`
	Size     Size   `yaml:"size" absent:"‘os’: 60GiB for a server, 100GiB for an agent, 20GiB in ‘vms’ (the template's with ‘template’); others required" doc:"Whole GiB."`
	SSD      Switch `yaml:"ssd" default:"true" doc:"Tell the guest that it is an SSD."`
	Discard  Switch `yaml:"discard" default:"true" doc:"Return freed blocks to the storage."`
	IOThread Switch `yaml:"iothread" default:"true" doc:"Use an I/O thread."`

	Cache     string `yaml:"cache" json:",omitempty" enum:"none,directsync,writethrough,writeback,unsafe" absent:"unchanged; a new disk: ‘none’" doc:"Use of the host's memory. ‘unsafe’ loses what was written when the host crashes."`
	Backup    Switch `yaml:"backup" json:",omitempty" absent:"unchanged; a new disk: ‘true’" doc:"Part of Proxmox's backups of the VM."`
	Replicate Switch `yaml:"replicate" json:",omitempty" absent:"unchanged; a new disk: ‘true’" doc:"Part of Proxmox's replication of the VM."`
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
	Role        string `yaml:"role" default:"data" enum:"scratch,data" absent:"‘scratch’ for a disk of that name, else ‘data’" doc:"Whether its contents may be lost."`
	FS          string `yaml:"fs" default:"ext4" enum:"ext4,xfs" doc:"‘ext4’ or ‘xfs’; created only on an empty disk."` // empty if Mount is
	Mount       string `yaml:"mount" absent:"not mounted" doc:"Where the guest mounts it."`
	Volume      string `yaml:"volume" json:",omitempty" absent:"a new disk" doc:"[Existing volume](nodes.md#existing-volumes) of a storage, ‘tank:vm-900-disk-0’, instead of ‘size’. It is never formatted, grown or deleted."`
}

// Card is a further network card of a node. The default route is the first card's.
type Card struct {
	Name      string         `yaml:"-"` // of the interface in the guest
	Bridge    string         `yaml:"bridge" absent:"required" doc:"Bridge on the host."`
	VLAN      int            `yaml:"vlan" absent:"untagged" doc:"1 to 4094."`
	MTU       int            `yaml:"mtu" absent:"the bridge's" doc:"In bytes."`
	Prefix    netip.Prefix   `yaml:"prefix" absent:"required with an address" doc:"Its network, e.g. ‘10.10.0.0/24’."`
	Address   netip.Prefix   `yaml:"address,single" absent:"from ‘addresses’, else none" doc:"Its static address."` // with the length of Prefix; not valid: none
	Addresses []AddressRange `yaml:"addresses" json:"-" doc:"In a pool: addresses in the order of its nodes."`
	DHCP      bool           `yaml:"dhcp" json:",omitempty" doc:"Its IPv4 address comes from a DHCP server, but no default route and no DNS server."`
	Routes    []Route        `yaml:"routes" doc:"Networks behind a router of this one."`
	MAC       MAC            `yaml:"mac" absent:"derived from the names, and stable" doc:"Ethernet address."`
	Firewall  Switch         `yaml:"firewall" json:",omitempty" absent:"unchanged; a new card: ‘false’" doc:"Put the card behind Proxmox's firewall."`
}

// Device is a device of the host that a node gets, besides its GPUs.
type Device struct {
	Name string `yaml:"-"`
	PCI  string `yaml:"pci" absent:"this or ‘usb’" doc:"PCI: its address on the host, ‘0000:03:00.0’, its vendor and device, ‘1ac1:089a’, or the name of an existing resource mapping."`
	USB  string `yaml:"usb" json:",omitempty" absent:"this or ‘pci’" doc:"USB: its vendor and product, ‘10c4:ea60’, or the name of an existing resource mapping."`
	Port string `yaml:"port" json:",omitempty" absent:"any" doc:"USB: its bus and port, ‘1-2.3’, where the host has several of that product."`
}

// NamedMapping returns the existing resource mapping that the file names for the device; "" if it names the
// device itself, for which homelab makes a mapping.
func (d Device) NamedMapping() string {
	if name := d.PCI + d.USB; !strings.Contains(name, ":") { // the file has one of them
		return name
	}
	return ""
}

// Route leads to a network behind a router.
type Route struct {
	To  netip.Prefix `yaml:"to" required:"true" doc:"The network, e.g. ‘10.20.0.0/16’."`
	Via netip.Addr   `yaml:"via" required:"true" doc:"The router's address."`
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
