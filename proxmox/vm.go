package proxmox

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/internal/wire"
	"github.com/cps-gpu/homelab/proxmox/unit"
)

// VM is a virtual machine as it was read. Its shape includes pending changes; [VM.Pending] lists
// those that take effect at the next start.
type VM struct {
	Name        string
	VMID        int
	Host        string
	Owner       string // the tag it was found by
	Template    bool
	Running     bool
	Unfinished  bool   // a clone of ours that is not configured yet
	Locked      string // clone, create, backup, …; empty if not locked
	Tags        []string
	Pool        string // resource pool that lists show it in; the token sees only those that it has Pool.Audit on
	Cores       int
	Memory      Size
	CPUType     string
	NUMA        bool
	NUMANodes   map[string]NUMANode // by config key: numa0
	Hugepages   string
	Affinity    string
	CPUUnits    int     // 0: Proxmox's default, 100
	CPULimit    float64 // 0: none
	OnBoot      bool
	Protected   bool // Proxmox refuses to remove it and its disks
	Startup     string
	Description string
	Machine     string // q35
	BIOS        string // ovmf
	EFIDisk     bool   // the firmware's variables are stored
	SecureBoot  bool   // with Microsoft's keys in them
	TPM         bool
	// SerialConsole must be true for Ubuntu's cloud kernel, which otherwise panics when its disk
	// grows.
	SerialConsole bool
	Agent         bool // the guest agent's channel exists
	Balloon       bool // the guest may return memory to the host; not with a passed-through device
	NICs          []NIC
	Disks         []Disk
	GPUs          []HostPCI
	Seed          string   // volume id of the ISO on ide2
	Unused        []string // volumes that were detached and kept
	Digest        string
	Pending       []PendingKey // set, but in effect only after the next start; empty when stopped

	config map[string]string // every key, with pending values
	notes  string            // the current description, while a change of it is pending
	client *Client           // that read it; nil if none did
}

// Config returns every key of the configuration, with pending values, or nil for a VM that was not
// read. Callers must not modify it.
func (v *VM) Config() map[string]string { return v.config }

// PendingKey is a change that is pending until the VM's next start.
type PendingKey struct{ Key, Have, Want string }

// String names the VM: "wk-gpu1 (VM 104 on pve1)".
func (v *VM) String() string {
	if v == nil {
		return "no VM"
	}
	return fmt.Sprintf("%s (VM %d on %s)", v.Name, v.VMID, v.Host)
}

// Identity distinguishes a VM from another with the same name or VMID: Proxmox gives each VM a UUID
// when it is made or cloned.
func (v *VM) Identity() string {
	return fmt.Sprintf("%d %s", v.VMID, v.uuid())
}

// configEntry is an entry of GET /nodes/N/qemu/ID/pending, which has both current and pending values.
type configEntry struct {
	Key     string     `json:"key"`
	Value   *wire.Text `json:"value"`
	Pending *wire.Text `json:"pending"`
	Delete  wire.Int   `json:"delete"`
}

// readVM reads the configuration of a VM.
func readVM(host string, vmid int, entries []configEntry, running bool) *VM {
	config := make(map[string]string, len(entries))
	vm := &VM{Host: host, VMID: vmid, Running: running, config: config}
	for _, e := range entries {
		have, want := "", ""
		if e.Value != nil {
			have = string(*e.Value)
			want = have
		}
		if e.Pending != nil {
			want = string(*e.Pending)
		} else if e.Delete != 0 {
			want = ""
		}
		if want != "" || e.Value != nil && e.Delete == 0 {
			config[e.Key] = want
		}
		if e.Key == "description" {
			vm.notes = strings.TrimSpace(have)
		}
		if running && have != want {
			vm.Pending = append(vm.Pending, PendingKey{e.Key, have, want})
		}
	}
	sortBy(vm.Pending, func(a, b PendingKey) int { return strings.Compare(a.Key, b.Key) })
	vm.read()
	return vm
}

// read fills the fields from the configuration.
func (v *VM) read() {
	c := v.config
	v.Name = c["name"]
	v.Template = c["template"] == "1"
	v.Locked = c["lock"]
	v.Tags = splitTags(c["tags"])
	v.Cores = wire.Number(c["cores"], 1) * wire.Number(c["sockets"], 1)
	v.Memory = Size(wire.Number(wire.ParseLenient(c["memory"]).GetFirst("current", ""), 512)) * MiB
	v.CPUType = wire.ParseLenient(c["cpu"]).GetFirst("cputype", "")
	v.NUMA = c["numa"] == "1"
	v.Hugepages, v.Affinity = c["hugepages"], c["affinity"]
	v.CPUUnits = wire.Number(c["cpuunits"], 0)
	v.CPULimit, _ = strconv.ParseFloat(c["cpulimit"], 64) // 0 if there is none
	for k, line := range c {
		if numaNode.MatchString(k) {
			if v.NUMANodes == nil {
				v.NUMANodes = map[string]NUMANode{}
			}
			v.NUMANodes[k] = parseNUMANode(wire.ParseLenient(line))
		}
	}
	v.OnBoot = c["onboot"] == "1"
	v.Protected = c["protection"] == "1"
	v.Startup = c["startup"]
	v.Description = strings.TrimSpace(c["description"])
	v.Machine = wire.ParseLenient(c["machine"]).GetFirst("type", "")
	v.BIOS = c["bios"]
	efi := wire.ParseLenient(c["efidisk0"])
	v.EFIDisk, v.SecureBoot = len(efi) > 0, efi.Bool("pre-enrolled-keys")
	v.TPM, v.SerialConsole = c["tpmstate0"] != "", c["serial0"] != ""
	agent := wire.ParseLenient(c["agent"])
	v.Agent = agent.GetFirst("", "enabled") == "1"
	v.Balloon = c["balloon"] != "0"
	v.Digest = c["digest"]
	for i := range 32 {
		if line, ok := c[fmt.Sprintf("net%d", i)]; ok {
			v.NICs = append(v.NICs, parseNIC(wire.ParseLenient(line)))
		}
	}
	for _, slot := range diskSlots(c) {
		v.Disks = append(v.Disks, parseDiskProperties(slot, wire.ParseLenient(c[slot])))
	}
	for i := range unit.MaxPCI {
		slot := fmt.Sprintf("hostpci%d", i)
		if line, ok := c[slot]; ok {
			p := wire.ParseLenient(line)
			v.GPUs = append(v.GPUs, HostPCI{Slot: slot, Mapping: p.Get("mapping"), PCIe: p.Bool("pcie"), ROMBar: p.Get("rombar") == "" || p.Bool("rombar")})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(c)) {
		if strings.HasPrefix(k, "unused") {
			v.Unused = append(v.Unused, c[k])
		}
	}
	if p := wire.ParseLenient(c[seedSlot]); p.Get("media") == "cdrom" {
		if volume := p.GetFirst("file", ""); volume != "none" {
			v.Seed = volume
		}
	}
}

func parseNIC(p wire.Properties) NIC {
	_, mac := model(p)
	nic := NIC{Bridge: p.Get("bridge"), MAC: mac, VLAN: wire.Number(p.Get("tag"), 0), MTU: wire.Number(p.Get("mtu"), 0), Queues: wire.Number(p.Get("queues"), 0)}
	if p.Bool("firewall") {
		nic.Firewall = new(true)
	}
	return nic
}

// nic returns the i-th interface.
func (v *VM) nic(i int) (NIC, bool) {
	if line, ok := v.config[fmt.Sprintf("net%d", i)]; ok {
		return parseNIC(wire.ParseLenient(line)), true
	}
	if v.config == nil && i < len(v.NICs) {
		return v.NICs[i], true
	}
	return NIC{}, false
}

// withChanges returns the VM as it is after changes to one that is off.
func (v *VM) withChanges(all []change) *VM {
	entries := make([]configEntry, 0, len(v.config))
	config := maps.Clone(v.config)
	for _, ch := range all {
		switch {
		case ch.Key == "":
		case ch.Value == "":
			delete(config, ch.Key)
		default:
			config[ch.Key] = ch.Value
		}
	}
	for k, value := range config {
		entries = append(entries, configEntry{Key: k, Value: (*wire.Text)(&value)})
	}
	out := readVM(v.Host, v.VMID, entries, false)
	out.Owner, out.Pool = v.Owner, v.Pool
	return out
}

// Summary is a VM in a list.
type Summary struct {
	Name     string
	VMID     int
	Host     string
	Template bool
	Running  bool
	Locked   string
	Tags     []string
	Cores    int
	Memory   Size
}

// Summary returns the VM as a list shows it, without whether it runs.
func (v *VM) Summary() Summary {
	return Summary{
		Name: v.Name, VMID: v.VMID, Host: v.Host, Template: v.Template, Locked: v.Locked, Tags: v.Tags, Cores: v.Cores, Memory: v.Memory,
	}
}
