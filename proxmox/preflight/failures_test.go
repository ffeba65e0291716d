package preflight_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/preflight"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// failure is a host on which one thing is wrong, made of a preset.
type failure struct {
	name    string
	model   func(*pvesim.Model)
	arrange func(*pvesim.Sim)
	want    func(*preflight.Requirements)
	ssh     string   // what the probe of the host answers; "" for no SSH
	found   []string // "error PX3 subject", all that there is
}

// healthyProbe is what probe.sh prints on a host that is prepared.
const healthyProbe = "kernel 6.17.4-1-pve\ncmdline BOOT_IMAGE=/boot/vmlinuz root=/dev/mapper/pve-root ro quiet iommu=pt\n" +
	"module vfio /etc/modules-load.d/vfio.conf\nmodule vfio_pci /etc/modules-load.d/vfio.conf\n" +
	"pci 0000:01:00.0 vfio-pci \npci 0000:01:00.1 vfio-pci \n"

// running is a VM of somebody else with a card, through a mapping or raw.
func holder(id int, name, hostpci string, running bool, more ...string) pvesim.VM {
	config := map[string]string{"cores": "4", "memory": "16384", "machine": "q35", "bios": "ovmf", "hostpci0": hostpci}
	for i := 0; i+1 < len(more); i += 2 {
		config[more[i]] = more[i+1]
	}
	if config["tags"] == tag {
		config["tags"], config["smbios1"] = marked(id), uuid
	}
	return pvesim.VM{ID: id, Node: "pve1", Name: name, Running: running, Config: config}
}

// marked are the tags of a machine of ours with that UUID.
func marked(id int) string { return fmt.Sprintf("%s;%s_%d_0a0b0c0d", tag, tag, id) }

const uuid = "uuid=0a0b0c0d-0000-4000-8000-000000000000"

// mapped is a mapping of the one card of the preset, as the hardware is.
const mapped = "node=pve1,path=0000:01:00,id=10de:2684,iommugroup=13,subsystem-id=1043:88e2"

func vlan(tag int) func(*preflight.Requirements) {
	return func(w *preflight.Requirements) { w.VMs[0].NICs[0].VLAN = tag }
}

func card(w *preflight.Requirements) {
	a, _ := proxmox.ParsePCIAddress("0000:01:00")
	w.VMs[0].GPUs = preflight.GPUs{Count: 1, PCI: []proxmox.PCIAddress{a}}
}

func accessFailures() []failure {
	return []failure{
		{name: "privilege-missing", arrange: func(s *pvesim.Sim) { s.Revoke("VM.Clone") }, found: []string{"error PX1 /vms"}},
		{name: "root-only-option", want: func(w *preflight.Requirements) {
			w.VMs[0].RootOnly = map[string]string{"hugepages": "1024", "affinity": "0-7"}
		}, found: []string{"error PX1 gpu1"}},
		{name: "root-only-option-that-is-set", model: func(m *pvesim.Model) {
			m.VMs = append(m.VMs, pvesim.VM{ID: 110, Node: "pve1", Name: "gpu1", Running: true, Config: map[string]string{
				"cores": "8", "memory": "32768", "machine": "q35", "bios": "ovmf", "tags": marked(110), "smbios1": uuid, "affinity": "0-7"}})
		}, want: func(w *preflight.Requirements) { w.VMs[0].RootOnly = map[string]string{"affinity": "0-7"} }},
		{name: "raw-device-in-a-vm-of-ours", model: func(m *pvesim.Model) {
			m.VMs = append(m.VMs, holder(110, "gpu1", "0000:01:00,pcie=1", false, "tags", tag))
		}, found: []string{"error PX1 gpu1"}},
		{name: "tags-of-a-list", arrange: func(s *pvesim.Sim) {
			s.SetOption("user-tag-access", "user-allow=list,user-allow-list=prod;test")
		}, found: []string{"error PX1 homelab@pve!operator"}},
		{name: "tags-of-machines-that-are-there", arrange: func(s *pvesim.Sim) { s.SetOption("user-tag-access", "user-allow=existing") }, model: func(m *pvesim.Model) {
			m.VMs = append(m.VMs, pvesim.VM{ID: 110, Node: "pve1", Name: "gpu1", Running: true, Config: map[string]string{
				"cores": "8", "memory": "32768", "machine": "q35", "bios": "ovmf", "tags": marked(110), "smbios1": uuid}})
		}, found: []string{"warning PX1 homelab@pve!operator"}},
		{name: "tags-that-are-registered", arrange: func(s *pvesim.Sim) { s.SetOption("registered-tags", "prod;"+tag) }, found: []string{"error PX1 homelab@pve!operator"}},
		{name: "tags-that-nobody-may-set", arrange: func(s *pvesim.Sim) { s.SetOption("user-tag-access", "user-allow=none") }, model: func(m *pvesim.Model) { // and may not be seen either
			m.Roles[0].Privs = slices.DeleteFunc(m.Roles[0].Privs, func(p string) bool { return p == "Sys.Audit" })
			m.VMs = append(m.VMs, pvesim.VM{ID: 300, Node: "pve1", Name: "nas", Config: map[string]string{"cores": "1", "memory": "512", "tags": "storage"}})
		}, found: []string{"warning PX1 homelab@pve!operator"}},
		{name: "tags-of-an-administrator", arrange: func(s *pvesim.Sim) { s.SetOption("user-tag-access", "user-allow=none") }, model: func(m *pvesim.Model) {
			m.Roles[0].Privs = append(m.Roles[0].Privs, "Sys.Modify")
		}},
		{name: "token-of-root", model: func(m *pvesim.Model) {
			m.Tokens = []pvesim.Token{{ID: "root@pam!cli", Secret: m.Tokens[0].Secret}}
		}, found: []string{"warning token root@pam!cli"}},
		{name: "token-ends-soon", model: func(m *pvesim.Model) {
			m.Tokens[0].Expire = time.Date(2000, 1, 8, 12, 0, 0, 0, time.UTC).Unix()
			m.Roles[0].Privs = append(m.Roles[0].Privs, "User.Modify")
		}, found: []string{"warning token homelab@pve!operator"}},
		{name: "version-too-old", model: func(m *pvesim.Model) { m.Version = "8.2.7" }, found: []string{"error PX20 "}},
		{name: "version-too-new", model: func(m *pvesim.Model) { m.Version = "10.0.1" }, found: []string{"warning PX20 "}},
		{name: "role-of-8-on-9", model: func(m *pvesim.Model) {
			m.Roles[0].Privs = slices.DeleteFunc(m.Roles[0].Privs, func(p string) bool { return strings.HasPrefix(p, "VM.GuestAgent.") })
		}, want: func(w *preflight.Requirements) {
			w.Grants = append(w.Grants, proxmox.Grant{Path: "/vms", Privileges: []string{"VM.GuestAgent.Unrestricted"}, Propagate: true, Reason: "read host keys"})
		}, found: []string{"error PX1 /vms"}},
		{name: "name-of-somebody-else", model: func(m *pvesim.Model) {
			m.VMs = append(m.VMs, pvesim.VM{ID: 300, Node: "pve1", Name: "gpu1", Config: map[string]string{"cores": "1", "memory": "512"}})
		}, found: []string{"error name gpu1"}},
		{name: "stub-of-a-create", model: func(m *pvesim.Model) {
			m.VMs = append(m.VMs, pvesim.VM{ID: 102, Node: "pve1", Config: map[string]string{"cores": "1", "memory": "512", "lock": "create"}})
		}, found: []string{"warning stub VM 102"}},
		{name: "vm-that-is-being-made", model: func(m *pvesim.Model) {
			m.VMs = append(m.VMs, pvesim.VM{ID: 102, Node: "pve1", Name: "new", Config: map[string]string{"cores": "1", "memory": "512", "lock": "create"}})
		}},
		{name: "vmid-of-somebody-else", model: func(m *pvesim.Model) {
			m.VMs = append(m.VMs, pvesim.VM{ID: 300, Node: "pve1", Name: "nas", Config: map[string]string{"cores": "1", "memory": "512"}})
		}, want: func(w *preflight.Requirements) { w.VMs[0].VMID = 300 }, found: []string{"error vmid gpu1"}},
	}
}

func hostFailures() []failure {
	storage := func(i int, change func(*pvesim.Storage)) func(*pvesim.Model) {
		return func(m *pvesim.Model) { change(&m.Hosts[0].Storages[i]) }
	}
	return []failure{
		{name: "no-such-host", want: func(w *preflight.Requirements) { w.Hosts[0].Name, w.VMs[0].Host = "pve7", "pve7" }, found: []string{"error host pve7"}},
		{name: "no-majority", model: func(m *pvesim.Model) { m.Hosts, m.NoQuorum = pvesim.TwoHosts().Hosts, true }, found: []string{"error host "}},
		{name: "host-offline", model: func(m *pvesim.Model) { m.Hosts = pvesim.TwoHosts().Hosts; m.Hosts[1].Offline = true },
			want: func(w *preflight.Requirements) { w.Hosts[0].Name, w.VMs[0].Host = "pve2", "pve2" }, found: []string{"error host pve2"}},
		{name: "clock-ahead", model: func(m *pvesim.Model) { m.Hosts[0].ClockOffset = 7 * time.Minute }, found: []string{"warning clock pve1"}},
		{name: "pool-missing", model: func(m *pvesim.Model) { m.Pools = []pvesim.Pool{{ID: "others"}} }, want: func(w *preflight.Requirements) { w.VMs[0].Pool = "k8s" }, found: []string{"error pool k8s"}},
		{name: "pool-that-is-there", model: func(m *pvesim.Model) { m.Pools = []pvesim.Pool{{ID: "k8s"}} }, want: func(w *preflight.Requirements) { w.VMs[0].Pool = "k8s" }},
		{name: "volume-of-another-vm", want: func(w *preflight.Requirements) {
			w.Volumes = func(context.Context, string) error {
				return errors.Join(errors.New("volume vmdata:vm-900-models of gpu1 is a disk of VM 900 (old) on pve1\n  detach it there"))
			}
		}, found: []string{"error volume pve1"}},
		{name: "storage-missing", want: func(w *preflight.Requirements) { w.Hosts[0].Storages[2].Storage = "fast" }, found: []string{"error storage fast"}},
		{name: "storage-inactive", model: storage(1, func(s *pvesim.Storage) { s.Inactive = true }), found: []string{"error storage vmdata"}},
		{name: "storage-disabled", model: storage(1, func(s *pvesim.Storage) { s.Disabled = true }), found: []string{"error storage vmdata"}},
		{name: "storage-full", model: storage(0, func(s *pvesim.Storage) { s.Used = s.Size - 100*pvesim.MiB }), found: []string{"error storage local"}},
		{name: "storage-nearly-full", model: storage(0, func(s *pvesim.Storage) { s.Used = s.Size - 8*pvesim.GiB }), found: []string{"warning storage local"}},
		{name: "storage-without-content", model: storage(0, func(s *pvesim.Storage) { s.Content = []string{"vztmpl", "backup"} }), found: []string{"error PX14 local", "error PX14 local"}},
		{name: "bridge-missing", want: func(w *preflight.Requirements) { w.VMs[0].NICs[0].Bridge = "vmbr9" }, found: []string{"error network vmbr9"}},
		{name: "bridge-without-port-and-vlan", model: func(m *pvesim.Model) { m.Hosts[0].NoPorts = []string{"vmbr0"} }, want: vlan(20), found: []string{"error network vmbr0"}},
		{name: "bridge-lets-other-vlans-through", model: func(m *pvesim.Model) {
			m.Hosts[0].VLANAware, m.Hosts[0].VIDs = []string{"vmbr0"}, map[string]string{"vmbr0": "2 100-200"}
		}, want: vlan(20), found: []string{"warning network vmbr0"}},
		{name: "bridge-with-vlan", model: func(m *pvesim.Model) {
			m.Hosts[0].VLANAware, m.Hosts[0].VIDs = []string{"vmbr0"}, map[string]string{"vmbr0": "2 100-200"}
		}, want: vlan(150)},
		{name: "bridge-not-vlan-aware-with-a-port", want: vlan(20)}, // Proxmox makes vmbr0v20 itself
		{name: "mtu-beyond-the-bridge", want: func(w *preflight.Requirements) { w.VMs[0].NICs[0].MTU = 9000 }, found: []string{"warning network vmbr0"}},
		{name: "address-of-the-host", model: func(m *pvesim.Model) { m.Hosts[0].CIDRs = map[string]string{"vmbr0": "192.0.2.1/24"} }, want: func(w *preflight.Requirements) {
			w.Addresses = []preflight.Address{{Range: proxmox.Range{First: netip.MustParseAddr("192.0.2.1"), Last: netip.MustParseAddr("192.0.2.1")}, Owner: "gpu1"}}
		}, found: []string{"error address gpu1"}},
		{name: "more-cores-than-the-host", want: func(w *preflight.Requirements) { w.VMs[0].Cores = 24 }, found: []string{"error cpu gpu1"}},
		{name: "memory-beyond-the-host", want: func(w *preflight.Requirements) { w.VMs[0].Memory = 160 * proxmox.GiB }, found: []string{"error PX21 pve1"}},
		{name: "memory-beyond-the-host-with-others", model: func(m *pvesim.Model) {
			m.VMs = append(m.VMs, pvesim.VM{ID: 100, Node: "pve1", Name: "nas", Running: true, Config: map[string]string{"cores": "4", "memory": "65536"}})
		}, want: func(w *preflight.Requirements) { w.VMs[0].Memory = 96 * proxmox.GiB }, found: []string{"error PX21 pve1"}},
		{name: "memory-of-what-runs", model: func(m *pvesim.Model) { // somebody made it tight, and our machine runs
			m.VMs = append(m.VMs, pvesim.VM{ID: 100, Node: "pve1", Name: "nas", Running: true, Config: map[string]string{"cores": "4", "memory": "65536"}},
				pvesim.VM{ID: 110, Node: "pve1", Name: "gpu1", Running: true, Config: map[string]string{"cores": "8", "memory": "98304", "machine": "q35", "bios": "ovmf", "tags": marked(110), "smbios1": uuid}})
		}, want: func(w *preflight.Requirements) { w.VMs[0].Memory = 96 * proxmox.GiB }, found: []string{"warning PX21 pve1"}},
		{name: "memory-of-zfs", model: func(m *pvesim.Model) { m.Hosts[0].Used = 110 * pvesim.GiB }, found: []string{"warning PX6 pve1"}},
		{name: "disks-beyond-the-pool", want: func(w *preflight.Requirements) { w.VMs[0].Disks[0].Size = 8400 * proxmox.GiB }, found: []string{"warning PX21 vmdata"}},
	}
}

func cardFailures() []failure {
	k20x := pvesim.PCIDevice{Address: "0000:0b:00.0", ID: "10de:101e", Subsystem: "10de:095f", Class: "030200", Group: 29, Vendor: "NVIDIA Corporation", Name: "GK110GL [Tesla K20X]"} // no supported driver works with it
	return []failure{
		{name: "iommu-off", model: func(m *pvesim.Model) { m.Hosts[0].NoIOMMU = true }, want: card, found: []string{"error PX3 pve1"}},
		{name: "group-shared", model: func(m *pvesim.Model) { m.Hosts[0].PCI[3].Group = 13 }, want: card, found: []string{"error PX3 0000:01:00"}},
		{name: "group-shared-with-host-bridge", model: func(m *pvesim.Model) { // as on AMD boards
			m.Hosts[0].PCI[0].Group = 13
			m.Hosts[0].PCI = append(m.Hosts[0].PCI, pvesim.PCIDevice{Address: "0000:00:01.0", ID: "1022:1482", Class: "060000", Group: 13, Name: "Starship/Matisse PCIe Dummy Host Bridge"})
		}, want: card},
		{name: "mapping-not-there", want: func(w *preflight.Requirements) { w.VMs[0].GPUs.Mappings = []string{"rtx"} }, found: []string{"error PX2 rtx"}},
		{name: "mapping-stale", arrange: func(s *pvesim.Sim) {
			s.AddMapping("rtx", "", "node=pve1,path=0000:0a:00,id=10de:2684,iommugroup=13,subsystem-id=1043:88e2")
		}, want: func(w *preflight.Requirements) { w.VMs[0].GPUs.Mappings = []string{"rtx"} }, found: []string{"error PX2 rtx"}},
		{name: "mapping-of-ours-with-another-group", arrange: func(s *pvesim.Sim) {
			s.AddMapping("small_gpu1", "", strings.Replace(mapped, "iommugroup=13", "iommugroup=14", 1))
		}, found: []string{"warning PX2 small_gpu1"}},
		{name: "mapping-good", arrange: func(s *pvesim.Sim) { s.AddMapping("rtx", "", mapped) }, want: func(w *preflight.Requirements) { w.VMs[0].GPUs.Mappings = []string{"rtx"} }},
		{name: "old-card-of-somebody-else", model: func(m *pvesim.Model) {
			m.Hosts[0].PCI = append(m.Hosts[0].PCI, k20x)
			m.VMs = append(m.VMs, holder(104, "win11", "0000:0b:00", false))
		}},
		{name: "old-card-for-the-console", model: func(m *pvesim.Model) { m.Hosts[0].PCI = append(m.Hosts[0].PCI, k20x) }},
		{name: "old-card", model: func(m *pvesim.Model) { m.Hosts[0].PCI = append(m.Hosts[0].PCI, k20x) },
			want: func(w *preflight.Requirements) { w.VMs[0].GPUs.PCI = []proxmox.PCIAddress{{Bus: 0x0b, Function: -1}} }, found: []string{"error N1 pve1"}},
		{name: "old-card-alone", model: func(m *pvesim.Model) { m.Hosts[0].PCI = []pvesim.PCIDevice{k20x} }, found: []string{"error PX4 gpu1"}},
		{name: "card-of-a-stopped-vm", model: func(m *pvesim.Model) {
			m.VMs = append(m.VMs, holder(104, "win11", "0000:01:00,pcie=1", false, "onboot", "1"))
		}, found: []string{"error PX4 gpu1"}},
		{name: "card-of-a-mapping", model: func(m *pvesim.Model) {
			m.VMs = append(m.VMs, holder(104, "win11", "mapping=rtx", true))
		}, arrange: func(s *pvesim.Sim) { s.AddMapping("rtx", "", mapped) }, want: card, found: []string{"error PX4 gpu1"}},
		{name: "card-promised-twice", model: func(m *pvesim.Model) {
			m.VMs = append(m.VMs, holder(110, "gpu1", "mapping=rtx,pcie=1", false, "tags", tag, "onboot", "1", "cpu", "host"), holder(104, "win11", "mapping=rtx", false, "onboot", "1"))
		}, arrange: func(s *pvesim.Sim) { s.AddMapping("rtx", "", mapped) },
			want: func(w *preflight.Requirements) { w.VMs[0].GPUs.Mappings = []string{"rtx"} }, found: []string{"error PX4 0000:01:00"}},
		{name: "card-of-a-copy", model: func(m *pvesim.Model) { // a clone has the device, the tags and the mapping of ours
			m.VMs = append(m.VMs, holder(110, "gpu1", "mapping=rtx,pcie=1", false, "tags", tag, "onboot", "1", "cpu", "host"),
				holder(900, "copy", "mapping=rtx,pcie=1", false, "tags", marked(110), "onboot", "1", "cpu", "host"))
		}, arrange: func(s *pvesim.Sim) { s.AddMapping("rtx", "ours", mapped) }, want: func(w *preflight.Requirements) {
			w.VMs[0].GPUs.Mappings = []string{"rtx"}
			w.Mappings = func(_, description string) bool { return description == "ours" }
		}, found: []string{"warning PX4 0000:01:00"}},
		{name: "cards-of-others-promised-twice", model: func(m *pvesim.Model) {
			m.Hosts[0].PCI = pvesim.TwoHosts().Hosts[0].PCI // of two cards, one is left
			m.VMs = append(m.VMs, holder(104, "win11", "0000:21:00", false, "onboot", "1"), holder(105, "games", "0000:21:00", false, "onboot", "1"))
		}},
		{name: "cards-of-ours-dealt-out-anew", model: func(m *pvesim.Model) {
			m.VMs = append(m.VMs, holder(110, "gpu1", "mapping=rtx,pcie=1", false, "tags", tag, "onboot", "1", "cpu", "host"), holder(111, "gpu2", "mapping=rtx", false, "tags", tag, "onboot", "1"))
		}, arrange: func(s *pvesim.Sim) { s.AddMapping("rtx", "", mapped) }, want: func(w *preflight.Requirements) {
			w.Place = func(context.Context, string) error { return nil }
		}},
		{name: "too-few-cards", want: func(w *preflight.Requirements) { w.VMs[0].GPUs.Count = 2 }, found: []string{"error PX4 gpu1"}},
		{name: "another-model", want: func(w *preflight.Requirements) { w.VMs[0].GPUs.Model = "A100" }, found: []string{"error PX4 gpu1"}},
		{name: "rules-of-the-caller", want: func(w *preflight.Requirements) {
			w.Place = func(context.Context, string) error {
				return errors.Join(errors.New("gpu1 cannot have it\n  take another"), errors.New("nor can gpu2"))
			}
		}, found: []string{"error PX4 pve1", "error PX4 pve1"}},
		{name: "machine-without-pcie", model: func(m *pvesim.Model) {
			m.VMs = append(m.VMs, holder(110, "gpu1", "mapping=rtx", false, "tags", tag, "machine", "pc-i440fx-9.2"))
		}, arrange: func(s *pvesim.Sim) { s.AddMapping("rtx", "", mapped) }, found: []string{"error PX7 gpu1"}},
		{name: "machine-with-seabios", model: func(m *pvesim.Model) {
			m.VMs = append(m.VMs, holder(110, "gpu1", "mapping=rtx", false, "tags", tag, "bios", "seabios"))
		}, arrange: func(s *pvesim.Sim) { s.AddMapping("rtx", "", mapped) }, found: []string{"warning PX7 gpu1"}},
		{name: "cpu-made-up", want: func(w *preflight.Requirements) { w.VMs[0].CPUType = "x86-64-v2-AES" }, found: []string{"warning PX7 gpu1"}},
		{name: "driver-of-an-ended-branch", want: func(w *preflight.Requirements) { w.Driver = &nvidia.Policy{Branch: "535-server"} }, found: []string{"error N1 pve1"}},
		{name: "driver-flavour-of-another-chip", model: func(m *pvesim.Model) {
			m.Hosts[0].PCI[1].ID, m.Hosts[0].PCI[1].Name = "10de:1db6", "GV100GL [Tesla V100 PCIe 32GB]"
		}, want: func(w *preflight.Requirements) { w.Driver = &nvidia.Policy{Branch: "580-server-open"} }, found: []string{"error N1 pve1"}},
		{name: "card-that-is-not-known", model: func(m *pvesim.Model) { m.Hosts[0].PCI[1].ID = "10de:fff0" }, found: []string{"warning N1 0000:01:00"}},
		{name: "another-release", want: func(w *preflight.Requirements) { w.Release = "resolute" }, found: []string{"warning N7 resolute"}},
	}
}

func shellFailures() []failure {
	swap := func(old, new string) string { return strings.Replace(healthyProbe, old, new, 1) }
	return []failure{
		{name: "host-prepared", ssh: healthyProbe},
		{name: "card-released-by-all", ssh: strings.ReplaceAll(healthyProbe, "vfio-pci", "")},
		{name: "host-driver-holds-the-card", ssh: swap("0000:01:00.0 vfio-pci", "0000:01:00.0 nouveau"), found: []string{"error PX9 0000:01:00.0"}},
		{name: "host-driver-holds-the-audio", ssh: swap("0000:01:00.1 vfio-pci", "0000:01:00.1 snd_hda_intel"), found: []string{"warning PX9 0000:01:00.1"}},
		{name: "console-on-the-card", ssh: swap("0000:01:00.0 vfio-pci", "0000:01:00.0 vfio-pci boot_vga"), found: []string{"warning PX9 0000:01:00.0"}},
		{name: "console-without-framebuffer", ssh: strings.Replace(swap("0000:01:00.0 vfio-pci", "0000:01:00.0  boot_vga"), "iommu=pt", "iommu=pt initcall_blacklist=sysfb_init", 1)},
		{name: "module-that-is-gone", ssh: healthyProbe + "module vfio_virqfd /etc/modules\n", found: []string{"warning PX19 pve1"}},
		{name: "module-of-an-old-kernel", ssh: strings.Replace(healthyProbe, "6.17.4-1-pve", "5.15.158-2-pve", 1) + "module vfio_virqfd /etc/modules\n"},
	}
}

// shell answers the probe with a text, as a login to the host would.
func shell(answer string) func(context.Context, string) (remote.Runner, error) {
	return func(context.Context, string) (remote.Runner, error) {
		return remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
			_, err := io.WriteString(cmd.Stdout, answer)
			return err
		}), nil
	}
}

// TestEveryFailureIsFound makes each thing wrong, alone, and looks that it is found and
// nothing else is. What a person reads of it is in testdata.
func TestEveryFailureIsFound(t *testing.T) {
	covered := map[string]bool{}
	for _, f := range slices.Concat(accessFailures(), hostFailures(), cardFailures(), shellFailures()) {
		t.Run(f.name, func(t *testing.T) {
			model, w, o := pvesim.OneGPU(), want(), preflight.Options{}
			if f.model != nil {
				f.model(&model)
			}
			if f.want != nil {
				f.want(&w)
			}
			if f.ssh != "" {
				o.SSH = shell(f.ssh)
			}
			r, changed := check(t, model, w, f.arrange, o)
			assert.Empty(t, changed, "a look changes nothing")
			var found []string
			for _, p := range r.Findings {
				if p.Verdict == preflight.Warning || p.Verdict == preflight.Error {
					found = append(found, string(p.Verdict)+" "+p.ID+" "+p.Subject)
					covered[p.ID] = true
				}
			}
			require.Equal(t, f.found, found, "%s", text(r))
			if len(found) > 0 {
				golden(t, f.name+".txt", text(r))
			}
			assert.Equal(t, strings.HasPrefix(strings.Join(found, "\n"), "error") || strings.Contains(strings.Join(found, "\n"), "\nerror"), r.Err() != nil)
		})
	}
	for _, id := range []string{"PX1", "PX2", "PX3", "PX4", "PX6", "PX7", "PX9", "PX14", "PX19", "PX20", "PX21", "N1", "N7",
		"host", "token", "clock", "name", "vmid", "stub", "storage", "network", "address", "cpu"} {
		assert.True(t, covered[id], "nothing shows that %s is found", id)
	}
}
