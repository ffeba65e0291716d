package proxmox

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/internal/wire"
	"github.com/cps-gpu/homelab/proxmox/unit"
)

// VMSpec is the wanted state of a VM: a clone of a template, with its own shape.
type VMSpec struct {
	Name        string // a DNS name; with Owner the VM's identity
	Host        string // the Proxmox node that it runs on
	VMID        int    // 0: the next free one
	Owner       string // the tag of all VMs that are ours, e.g. homelab-a100; the VM's own mark is added
	Tags        []string
	Pool        string // resource pool, which must exist; empty: any or none is accepted
	Template    string // name of the template, which carries Owner too
	TemplateID  int    // its VMID, instead of Template: an existing one, of any owner
	Full        bool   // copy the disks; otherwise they are linked to the template's, if those are on Storage
	Storage     string // for the disks; empty: the template's storage
	Cores       int
	Memory      Size
	CPUType     string // default host
	NUMA        bool
	NUMANodes   []NUMANode   // numa0, numa1, …; NUMA must be on
	Hugepages   string       // any, 2 or 1024 (MiB); [None] removes it; empty: any value is accepted; only root@pam may set it
	Affinity    string       // CPUs of the host, 0-7,16; [None] removes it; empty: any value is accepted; only root@pam may set it
	CPUUnits    int          // weight of its CPUs against other VMs'; 0: any value is accepted
	CPULimit    float64      // CPUs of the host that it uses at most; 0: any value is accepted
	Balloon     bool         // the guest returns free memory to the host, which it cannot with GPUs or Devices
	TPM         bool         // has one, version 2.0; false: either is accepted
	SecureBoot  *bool        // Microsoft's keys in the firmware; nil: either is accepted
	NoAgent     bool         // the guest has no agent, so Proxmox shuts it down by ACPI; otherwise the VM has the agent's channel
	OnBoot      bool         // start with the host
	Protected   *bool        // Proxmox refuses to remove it and its disks; nil: either is accepted
	Startup     string       // order=1,up=30; needs Sys.Modify on /
	Description string       // empty: any is accepted
	Note        bool         // the description ends with a line of ours: the mark, and Claims
	Claims      []string     // addresses and ranges that the VM's cluster takes beside those of its machines
	Address     netip.Prefix // told to others, in ipconfig0; the machine has it from its seed. Not valid: left alone
	Address6    netip.Prefix // the one of IPv6 besides that of IPv4; not valid: none
	NICs        []NIC
	Disks       []Disk    // the first is the template's disk, grown; the others are created
	GPUs        []HostPCI // in the order of hostpci0, hostpci1, …
	Devices     []HostPCI // further devices, after GPUs
	USB         []HostUSB // in the order of usb0, usb1, …
	Adopted     bool      // homelab did not make it: its OS disk, its interfaces' addresses and its extra disks are left alone
	Seed        string    // volume id of the NoCloud ISO, on ide2
	Running     bool      // false: either is accepted

	uuid string // see withUUID
}

// NIC is a network interface (virtio).
type NIC struct {
	Bridge string
	MAC    string // empty: Proxmox generates one, once
	VLAN   int    // 0: untagged
	MTU    int    // 0: 1500; 1: the bridge's MTU
	Queues int    // 0: one

	Firewall *bool // Proxmox's firewall is between it and the bridge; nil in a VM: not, in a spec: either is accepted
}

// Disk is a disk of a VM.
type Disk struct {
	Slot          string // scsi0; must be set
	Storage       string // in a spec, where to create it; in a VM, where it is
	Size          Size   // 0: unchanged
	Serial        string // identifies it in the guest
	SSD           bool   // shown to the guest as an SSD
	Discard       bool   // freed blocks are returned to the storage
	IOThread      bool
	Cache         string // none, directsync, writethrough, writeback or unsafe; in a spec, empty: any value is accepted
	NoBackup      *bool  // left out of Proxmox's backups; in a spec, nil: either is accepted
	NoReplication *bool  // left out of Proxmox's replication; in a spec, nil: either is accepted
	Volume        string // in a VM: the volume's id; in a spec: that of an existing volume to attach, instead of a new disk
}

// seedSlot is the slot of the NoCloud ISO; cloud images search every drive.
const seedSlot = "ide2"

// seedValue is the config line of the seed.
func seedValue(volume string) string { return volume + ",media=cdrom" }

var (
	dnsName  = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*$`)
	tagName  = regexp.MustCompile(`^[a-z0-9_][a-z0-9_+.-]*$`)
	numaNode = regexp.MustCompile(`^numa[0-9]+$`)
	slotted  = regexp.MustCompile(`^(scsi|virtio|sata|ide)[0-9]+$`)
)

// withUUID returns s with a new UUID, for a VM without a known UUID; see markFor.
func (s VMSpec) withUUID() VMSpec {
	s.uuid = newUUID()
	return s
}

// Check finds settings that Proxmox would refuse, or wrongly accept.
func (s VMSpec) Check() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("vm "+s.Name+": "+format, args...))
	}
	if !isDNSName(s.Name) {
		bad("%q is not a DNS name", s.Name)
	}
	if s.Host == "" {
		bad("no host")
	}
	for _, t := range append([]string{s.Owner}, s.Tags...) {
		if !tagName.MatchString(t) {
			bad("tag %q: write lower-case letters, digits and _+.-", t)
		}
	}
	if s.VMID != 0 && (s.VMID < 100 || s.VMID > 999999999) {
		bad("vmid %d is not between 100 and 999999999", s.VMID)
	}
	if s.Full && s.Storage == "" {
		bad("a full clone needs a storage")
	}
	if len(s.Description) > 8192 {
		bad("the description has more than 8192 characters")
	}
	for _, d := range s.Disks {
		if !slotted.MatchString(d.Slot) {
			bad("disk %q: write scsi0, scsi1, …", d.Slot)
		}
	}
	for i, g := range s.passthrough() {
		if g.Mapping == "" {
			bad("hostpci%d has no mapping: only root@pam itself may pass a device through without one", i)
		}
	}
	if n := len(s.passthrough()); n > unit.MaxPCI {
		bad("%d passed-through devices; Proxmox takes %d", n, unit.MaxPCI)
	}
	if n := len(s.USB); n > unit.MaxUSB {
		bad("%d USB devices; Proxmox takes %d", n, unit.MaxUSB)
	}
	return errors.Join(errs...)
}

// isDNSName reports whether a text can be a VM's name.
func isDNSName(s string) bool { return dnsName.MatchString(s) }

// String describes the VM in a few words: "16 cores, 128GiB, 2 GPUs".
func (s VMSpec) String() string {
	parts := []string{plural(s.Cores, "core"), s.Memory.String()}
	if len(s.Disks) > 0 && s.Disks[0].Size > 0 {
		sizes := make([]string, len(s.Disks))
		for i, d := range s.Disks {
			if sizes[i] = d.Size.String(); d.Volume != "" {
				sizes[i] = d.Volume
			}
		}
		parts = append(parts, "disk "+strings.Join(sizes, " + "))
	}
	if n := len(s.GPUs); n > 0 {
		parts = append(parts, plural(n, "GPU"))
	}
	if n := len(s.Devices) + len(s.USB); n > 0 {
		parts = append(parts, plural(n, "device"))
	}
	return strings.Join(parts, ", ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// tags returns all tags of s.
func (s VMSpec) tags() []string { return cleanTags(append([]string{s.Owner}, s.Tags...)) }

// cleanTags returns tags as Proxmox stores them: lower case, sorted, without duplicates.
func cleanTags(tags []string) []string {
	set := map[string]bool{}
	for _, t := range tags {
		if t = strings.ToLower(strings.TrimSpace(t)); t != "" {
			set[t] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// splitTags parses a tag list as Proxmox does.
func splitTags(s string) []string {
	return cleanTags(strings.FieldsFunc(s, func(r rune) bool { return r == ';' || r == ',' || r == ' ' }))
}

func (s VMSpec) cpuType() string {
	if s.CPUType == "" {
		return "host"
	}
	return s.CPUType
}

// halfMadeNotes returns the description of a VM between its clone and its configuration. After a
// crash it identifies a half-made VM as ours. A copy of such a VM has another VMID.
func halfMadeNotes(owner string, vmid int) string {
	return fmt.Sprintf("Unfinished: this VM %d is being made for %s.", vmid, owner)
}

// line returns the config line of the interface; old is the line that it replaces. Options that a
// NIC does not model (rate, …) or leaves open are kept.
func (n NIC) line(old wire.Properties) string {
	mac := n.MAC
	if mac == "" {
		_, mac = model(old)
	}
	p := wire.Properties{{Key: "virtio", Value: mac}}
	if mac == "" {
		p = wire.Properties{{Key: "", Value: "virtio"}}
	}
	p = p.With("bridge", n.Bridge).With("tag", wire.Positive(n.VLAN)).With("mtu", wire.Positive(n.MTU)).With("queues", wire.Positive(n.Queues))
	for _, kv := range old {
		switch name, _ := model(old); kv.Key {
		case "bridge", "tag", "mtu", "queues", "", name:
		default:
			p = append(p, kv)
		}
	}
	if n.Firewall != nil {
		p = p.With("firewall", wire.OnOff(*n.Firewall))
	}
	return p.String()
}

// model returns an interface's model and address.
func model(p wire.Properties) (name, mac string) {
	if len(p) == 0 {
		return "", ""
	}
	if p[0].Key == "" {
		return p[0].Value, p.Get("macaddr")
	}
	if p[0].Key == "model" {
		return p[0].Value, p.Get("macaddr")
	}
	return p[0].Key, p[0].Value
}

// Line writes the config line of the disk. Without an old line the disk is made.
func (d Disk) line(old wire.Properties) string {
	p := old
	if len(p) == 0 {
		p = wire.Properties{{Key: "", Value: cmp.Or(d.Volume, d.Storage+":"+wire.FormatGiB(d.Size))}}
	}
	discard := ""
	if d.Discard {
		discard = "on"
	}
	p = p.With("serial", d.Serial).With("ssd", wire.OnOff(d.SSD)).With("discard", discard).With("iothread", wire.OnOff(d.IOThread))
	if d.Cache != "" {
		p = p.With("cache", d.Cache)
	}
	for key, off := range map[string]*bool{"backup": d.NoBackup, "replicate": d.NoReplication} {
		switch {
		case off == nil:
		case *off:
			p = p.With(key, "0")
		default:
			p = p.With(key, "") // Proxmox's default is 1
		}
	}
	return p.String()
}
