package model

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// Model is the hardware and the beginning of a simulated Proxmox VE cluster, as
// data: what a person would find out by walking around it. Zero values are what
// is usual and healthy.
type Model struct {
	Version  string       `yaml:"version,omitempty"`  // of pve-manager; 9.2.11 when empty. An 8.x asks VM.Monitor for the guest agent.
	QEMU     string       `yaml:"qemu,omitempty"`     // version of QEMU; what came with the release when empty
	NoQuorum bool         `yaml:"noQuorum,omitempty"` // most of the cluster is away: nothing can be changed
	NextID   IDRange      `yaml:"nextID,omitempty"`   // what /cluster/nextid gives out; 100 to 999999
	Hosts    []Host       `yaml:"hosts"`
	Mappings []PCIMapping `yaml:"mappings,omitempty"`
	Zones    []Zone       `yaml:"zones,omitempty"` // of Proxmox's SDN; those that only VNets name are simple ones on every host
	VNets    []VNet       `yaml:"vnets,omitempty"` // networks in those zones, applied
	Pools    []Pool       `yaml:"pools,omitempty"`
	Roles    []Role       `yaml:"roles,omitempty"` // beside the built-in ones
	Users    []User       `yaml:"users,omitempty"` // beside root@pam, unless it is to have a password
	Groups   []Group      `yaml:"groups,omitempty"`
	Tokens   []Token      `yaml:"tokens,omitempty"`
	ACLs     []ACL        `yaml:"acls,omitempty"`
	VMs      []VM         `yaml:"vms,omitempty"` // machines that are there before anybody asks

	Containers []Container `yaml:"containers,omitempty"` // which are shown, and nothing more

	SecurityGroups []string `yaml:"securityGroups,omitempty"` // of the datacenter's firewall, without rules
}

// IDRange is a range of VMIDs, both ends included; 0 is Proxmox's own end.
type IDRange struct {
	Lower int `yaml:"lower,omitempty"`
	Upper int `yaml:"upper,omitempty"`
}

// Host is one node.
type Host struct {
	Name        string        `yaml:"name"`
	Version     string        `yaml:"version,omitempty"` // of pve-manager there, in the midst of an upgrade: its status says it, and the API stays the cluster's
	Offline     bool          `yaml:"offline,omitempty"` // switched off: its requests get 595
	Kernel      string        `yaml:"kernel,omitempty"`  // release; 6.17.4-1-pve when empty
	CPUs        int           `yaml:"cpus"`              // logical CPUs
	NUMANodes   int           `yaml:"numaNodes"`         // which is also the number of sockets
	CPUModel    string        `yaml:"cpuModel,omitempty"`
	Memory      Size          `yaml:"memory"`
	Used        Size          `yaml:"used,omitempty"`        // of the memory, by what is not simulated: ZFS' cache, containers
	ClockOffset time.Duration `yaml:"clockOffset,omitempty"` // how far its clock is ahead: 90s, -2m
	NoIOMMU     bool          `yaml:"noIOMMU,omitempty"`     // switched off in the firmware or the kernel's command line
	PCI         []PCIDevice   `yaml:"pci,omitempty"`
	USB         []USBDevice   `yaml:"usb,omitempty"`
	Storages    []Storage     `yaml:"storages"`
	Bridges     []string      `yaml:"bridges"`
	OS          HostOS        `yaml:"os,omitempty"` // what those see who log in to it

	VLANAware []string          `yaml:"vlanAware,omitempty"` // those of the bridges that are
	VIDs      map[string]string `yaml:"vids,omitempty"`      // VLANs that a bridge carries, "2-4094" unless said here
	NoPorts   []string          `yaml:"noPorts,omitempty"`   // those of the bridges that lead nowhere
	MTUs      map[string]int    `yaml:"mtus,omitempty"`      // of bridges; one that is not here has 1500
	CIDRs     map[string]string `yaml:"cidrs,omitempty"`     // the host's own address on a bridge, "10.0.0.5/24"; made up for a bridge that is not here, none for ""
	Gateway   string            `yaml:"gateway,omitempty"`   // of the bridge in whose network it is
	// Links are further interfaces of the host, by name, with the keys of the API:
	// {bond0: {type: bond, slaves: eno1 eno2}, vmbr1: {type: OVSBridge, ovs_ports: bond1}}. The keys of
	// one that is among the bridges are added to it.
	Links     map[string]map[string]string `yaml:"links,omitempty"`
	SATA      bool                         `yaml:"sata,omitempty"`      // its disks are /dev/sda and so on, and not /dev/nvme0n1
	NoCard    bool                         `yaml:"noCard,omitempty"`    // its network card is configured and is not there
	Domain    string                       `yaml:"domain,omitempty"`    // of its name; example.internal when empty
	Resolvers []string                     `yaml:"resolvers,omitempty"` // DNS servers; one that is made up unless said here
}

// PCIDevice is one function of a PCI device.
type PCIDevice struct {
	Address    string `yaml:"address"`          // 0000:41:00.0
	ID         string `yaml:"id"`               // vendor:device, 10de:20f1
	Subsystem  string `yaml:"subsystem"`        // vendor:device, 10de:145f
	Class      string `yaml:"class"`            // 030200
	Group      int    `yaml:"group"`            // IOMMU group, -1 for none
	NUMANode   int    `yaml:"numaNode"`         // which socket it hangs on
	Vendor     string `yaml:"vendor,omitempty"` // as lspci names it
	Name       string `yaml:"name,omitempty"`
	Product    string `yaml:"product,omitempty"`    // as nvidia-smi names it
	HeldByHost bool   `yaml:"heldByHost,omitempty"` // a driver or the console's framebuffer on the host does not let go
	MDev       bool   `yaml:"mdev,omitempty"`       // can make mediated devices
	VirtualOf  string `yaml:"virtualOf,omitempty"`  // a virtual function (SR-IOV): the address of its physical one
	Interface  string `yaml:"interface,omitempty"`  // of the host's network, which it is: eno1
}

// PlaceName is what udev calls the network interface that the device is, by its place: enp5s0, and enp67s0f1 for
// one function of several. It is empty if the address is none.
func (d PCIDevice) PlaceName(several bool) string {
	var domain, bus, slot, function int
	if n, _ := fmt.Sscanf(d.Address, "%x:%x:%x.%x", &domain, &bus, &slot, &function); n != 4 {
		return ""
	}
	name := fmt.Sprintf("enp%ds%d", bus, slot)
	if several || function > 0 {
		name += fmt.Sprintf("f%d", function)
	}
	return name
}

// USBDevice is a device in a USB port of a host.
type USBDevice struct {
	Port    string `yaml:"port"` // bus-port, 1-2.3
	ID      string `yaml:"id"`   // vendor:product, 10c4:ea60
	Product string `yaml:"product,omitempty"`
}

// Storage is a storage as a node sees it. Those of the same name with Shared
// set are one.
type Storage struct {
	Name     string            `yaml:"name"`
	Type     string            `yaml:"type"`    // dir, zfspool, lvmthin, nfs, …
	Content  []string          `yaml:"content"` // iso, vztmpl, import, images, rootdir, backup, snippets
	Shared   bool              `yaml:"shared,omitempty"`
	Size     Size              `yaml:"size"`
	Used     Size              `yaml:"used,omitempty"`     // by what is not simulated
	Inactive bool              `yaml:"inactive,omitempty"` // not reachable
	Disabled bool              `yaml:"disabled,omitempty"` // switched off by an admin
	Config   map[string]string `yaml:"config,omitempty"`   // further keys, as in storage.cfg: pool, vgname, path, server
	Files    []File            `yaml:"files,omitempty"`    // ISOs, images to import and the like; disks come with their VMs
}

// File is a file on a storage. Its contents are the URL's of the simulated
// internet, or the text, or so many bytes of nothing.
type File struct {
	Name string `yaml:"name"` // with its content type: iso/debian.iso, import/noble.qcow2
	Size Size   `yaml:"size,omitempty"`
	URL  string `yaml:"url,omitempty"`
	Text string `yaml:"text,omitempty"`
}

// PCIMapping is a resource mapping of PCI devices.
type PCIMapping struct {
	ID            string   `yaml:"id"`
	Description   string   `yaml:"description,omitempty"`
	MDev          bool     `yaml:"mdev,omitempty"`
	LiveMigration bool     `yaml:"liveMigration,omitempty"`
	USB           bool     `yaml:"usb,omitempty"` // one of USB devices: node=pve1,id=10c4:ea60,path=1-2.3
	Map           []string `yaml:"map"`           // node=pve1,path=0000:41:00.0,id=10de:20f1,iommugroup=25,subsystem-id=10de:145f
}

// Zone is a zone of Proxmox's SDN.
type Zone struct {
	ID     string   `yaml:"id"`
	Type   string   `yaml:"type"`             // simple, vlan, qinq, vxlan, evpn
	Nodes  []string `yaml:"nodes,omitempty"`  // all unless said here
	MTU    int      `yaml:"mtu,omitempty"`    // 1500, or 1450 of vxlan and evpn, unless said here
	Bridge string   `yaml:"bridge,omitempty"` // of the hosts, below vlan and qinq
}

// VNet is a virtual network of Proxmox's SDN, with one subnet. Machines join it as they join a bridge.
type VNet struct {
	Name      string `yaml:"name"`
	Zone      string `yaml:"zone"`
	Tag       int    `yaml:"tag,omitempty"`
	VLANAware bool   `yaml:"vlanAware,omitempty"` // machines may have VLANs in it
	Subnet    string `yaml:"subnet,omitempty"`    // 10.0.0.0/24
	NoIPAM    bool   `yaml:"noIPAM,omitempty"`    // the zone keeps no list of addresses
	// DHCP is the range of which every new card gets an address, "10.0.0.100-10.0.0.199"; empty: the
	// zone has no DHCP.
	DHCP   string  `yaml:"dhcp,omitempty"`
	Leases []Lease `yaml:"leases,omitempty"`
}

// Lease is an address in Proxmox's own IPAM.
type Lease struct {
	IP       string `yaml:"ip"`
	MAC      string `yaml:"mac,omitempty"`
	Hostname string `yaml:"hostname,omitempty"`
	VMID     int    `yaml:"vmid,omitempty"`
	Gateway  bool   `yaml:"gateway,omitempty"` // of the subnet
}

// Pool is a resource pool; who is in it stands in the VMs.
type Pool struct {
	ID      string `yaml:"id"`
	Comment string `yaml:"comment,omitempty"`
}

// VM is a virtual machine that the model begins with. It has a living guest where
// Image says what it boots, else none.
type VM struct {
	ID      int               `yaml:"id"`
	Node    string            `yaml:"node"`
	Name    string            `yaml:"name"`
	Pool    string            `yaml:"pool,omitempty"`
	Running bool              `yaml:"running,omitempty"`
	Image   string            `yaml:"image,omitempty"`  // URL in the simulated internet of what its first disk was made from
	Config  map[string]string `yaml:"config,omitempty"` // further keys, as in its configuration file; "template: 1" makes it a template
}

// Container is a container (LXC): other people's, which nothing here starts or changes.
type Container struct {
	ID      int               `yaml:"id"`
	Node    string            `yaml:"node"`
	Name    string            `yaml:"name"`
	Running bool              `yaml:"running,omitempty"`
	Config  map[string]string `yaml:"config,omitempty"` // as in its file: "dev0: /dev/nvidia0"
	// Raw are the lines of its file that LXC reads itself, as "lxc.mount.entry: /dev/nvidia0 dev/nvidia0 none bind".
	Raw []string `yaml:"raw,omitempty"`
}

// User is somebody, with a password where one is to log in.
type User struct {
	ID       string `yaml:"id"` // name@realm
	Password string `yaml:"password,omitempty"`
	TOTP     bool   `yaml:"totp,omitempty"` // a code is asked for after the password, and none is right
	Comment  string `yaml:"comment,omitempty"`
	Disabled bool   `yaml:"disabled,omitempty"`
	Expire   int64  `yaml:"expire,omitempty"` // in seconds since 1970; 0 is never
}

// Group is a group of users. ACLs name it with an @ before it.
type Group struct {
	ID      string   `yaml:"id"`
	Comment string   `yaml:"comment,omitempty"`
	Users   []string `yaml:"users,omitempty"`
}

// Token is an API token.
type Token struct {
	ID      string `yaml:"id"` // name@realm!token
	Secret  string `yaml:"secret,omitempty"`
	PrivSep bool   `yaml:"privSep,omitempty"` // has only what both it and its user are granted
	Comment string `yaml:"comment,omitempty"`
	Expire  int64  `yaml:"expire,omitempty"` // in seconds since 1970; 0 is never
}

// Role is a named list of privileges.
type Role struct {
	ID    string   `yaml:"id"`
	Privs []string `yaml:"privs"`
}

// ACL grants a role on a path and, unless NoPropagate, on all below.
type ACL struct {
	Path        string `yaml:"path"`
	Who         string `yaml:"who"` // a user's or a token's ID, or @ and a group's
	Role        string `yaml:"role"`
	NoPropagate bool   `yaml:"noPropagate,omitempty"`
}

// YAML writes the model.
func (m Model) YAML() ([]byte, error) { return yaml.Marshal(m) }

// Size is a number of bytes that prints as 16GiB.
type Size int64

// Sizes to count in.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

var sizeUnits = []struct {
	name string
	size Size
}{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}}

// String returns the size in the largest unit that it is a whole number of.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText implements encoding.TextMarshaler.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a number with or without a unit, such as 2TiB or 1.5GiB.
func (s *Size) UnmarshalText(b []byte) error {
	text, unit := strings.TrimSpace(string(b)), Size(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			text, unit = strings.TrimSpace(rest), u.size
			break
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 || n*float64(unit) > math.MaxInt64/2 {
		return fmt.Errorf("%q is not a size: write a number and KiB, MiB, GiB or TiB", b)
	}
	*s = Size(n * float64(unit))
	return nil
}

// HostOS is a node's own operating system, for those who log in to it as root. The
// zero HostOS boots by GRUB and is ready to pass devices through.
type HostOS struct {
	// Fresh is a host as the installer leaves it: no options of ours on the command
	// line, no list of vfio's modules, and the host's own drivers have the cards.
	Fresh   bool   `yaml:"fresh,omitempty"`
	Loader  string `yaml:"loader,omitempty"`  // grub, systemd-boot or esp-grub; grub when empty
	Cmdline string `yaml:"cmdline,omitempty"` // further options of the kernel
	Console string `yaml:"console,omitempty"` // PCI address of the card on which the host booted; empty: a management controller's
	// Files are there beside those of the installer, or in their place.
	Files map[string]string `yaml:"files,omitempty"`
}
