package proxmox

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// wanted is a spec, and asItIs the configuration that has all of it.
func wanted() VMSpec {
	return VMSpec{
		Name: "wk1", Host: "pve1", Owner: "homelab-x", Tags: []string{"gpu"}, Cores: 4, Memory: 8 * GiB, OnBoot: true, Startup: "order=1", Description: "a worker",
		NICs: []NIC{{Bridge: "vmbr0", MAC: "BC:24:11:00:00:01", Queues: 4}}, Seed: "local:iso/a.iso", TPM: true,
		Disks: []Disk{{Slot: "scsi0", Size: 32 * GiB, SSD: true}, {Slot: "scsi1", Storage: "vmdata", Size: 8 * GiB, Serial: "data", Discard: true}},
		GPUs:  []HostPCI{{Mapping: "gpu", PCIe: true}},
	}
}

func asItIs() map[string]string {
	return map[string]string{
		"name": "wk1", "tags": "gpu;homelab-x;homelab-x_100_0a0b0c0d", "smbios1": "uuid=0a0b0c0d-0000-4000-8000-000000000000", "cores": "4", "memory": "8192", "cpu": "host",
		"onboot": "1", "startup": "order=1", "description": "a worker\n", "balloon": "0", "agent": "enabled=1", "machine": "pc-q35-9.0", "bios": "ovmf", "efidisk0": "vmdata:vm-100-disk-0,size=4M",
		"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0,queues=4", "scsi0": "vmdata:vm-100-disk-1,size=32G,ssd=1", "scsi1": "vmdata:vm-100-disk-2,size=8G,serial=data,discard=on",
		"hostpci0": "mapping=gpu,pcie=1,rombar=0", "ide2": "local:iso/a.iso,media=cdrom", "serial0": "socket", "tpmstate0": "vmdata:vm-100-disk-3,size=4M", "digest": "d",
	}
}

func vmOf(config map[string]string, running bool) *VM {
	var entries []configEntry
	for k, v := range config {
		entries = append(entries, configEntry{Key: k, Value: (*wire.Text)(&v)})
	}
	return readVM("pve1", 100, entries, running)
}

// told is changes in a few words: path, what is set to what, and what it takes.
func told(all []change) string {
	var out []string
	for _, ch := range all {
		what := ch.Key + "=" + ch.Value
		if ch.Disk != "" {
			what = "grow " + ch.Disk + " to " + ch.Size.String()
		}
		effect := map[converge.Effect]string{converge.Update: "", converge.Restart: " (restart)", converge.Replace: " (replace)"}[ch.Field.Effect]
		if ch.Field.Effect == converge.Replace {
			what = ch.Field.Have + " → " + ch.Field.Want
		}
		out = append(out, ch.Field.Path+": "+what+effect)
	}
	return strings.Join(out, "; ")
}

// Every thing of a VM that differs is one change, with the line that makes it go away,
// and nothing else is.
func TestEveryChange(t *testing.T) {
	on, off := true, false
	set := func(pairs ...string) func(map[string]string) {
		return func(c map[string]string) {
			for i := 0; i < len(pairs); i += 2 {
				if c[pairs[i]] = pairs[i+1]; pairs[i+1] == "" {
					delete(c, pairs[i])
				}
			}
		}
	}
	for _, tt := range []struct {
		name string
		spec func(*VMSpec)
		have func(map[string]string)
		want string
	}{
		{"nothing", nil, nil, ""},
		{"template", nil, set("template", "1"), "kind: template → VM (replace)"},
		{"host", func(s *VMSpec) { s.Host = "pve2" }, nil, "host: pve1 → pve2 (replace)"},
		{"its VMID", func(s *VMSpec) { s.VMID = 100 }, nil, ""},
		{"another VMID", func(s *VMSpec) { s.VMID = 101 }, nil, "vmid: 100 → 101 (replace)"},
		{"cores", func(s *VMSpec) { s.Cores = 5 }, nil, "cores: cores=5 (restart)"},
		{"one socket", nil, set("sockets", "1"), ""},
		{"two sockets", nil, set("sockets", "2", "cores", "2"), "sockets: sockets=1 (restart)"},
		{"memory", func(s *VMSpec) { s.Memory++ }, nil, "memory: memory=8193 (restart)"},
		{"CPU", func(s *VMSpec) { s.CPUType = "x86-64-v3" }, nil, "cpu: cpu=x86-64-v3 (restart)"},
		{"CPU with options", func(s *VMSpec) { s.CPUType = "host,hidden=1" }, nil, "cpu: cpu=host,hidden=1 (restart)"},
		{"no CPU", nil, set("cpu", ""), "cpu: cpu=host (restart)"},
		{"NUMA", func(s *VMSpec) { s.NUMA = true }, nil, "numa: numa=1 (restart)"},
		{"no NUMA", nil, set("numa", "1"), "numa: numa=0 (restart)"},
		{"NUMA nodes", func(s *VMSpec) {
			s.NUMANodes = []NUMANode{{CPUs: "0-1", Memory: GiB, HostNodes: "0", Policy: "bind"}, {CPUs: "2-3"}}
		}, set("numa0", "cpus=0-1,hostnodes=0,memory=1024,policy=bind", "numa1", "cpus=2,memory=7", "numa2", "cpus=1"), "numa1: numa1=cpus=2-3 (restart); numa2: numa2= (restart)"},
		{"huge pages and affinity stay", nil, set("hugepages", "2", "affinity", "0-3"), ""},
		{"huge pages and affinity go", func(s *VMSpec) { s.Hugepages, s.Affinity = None, None }, set("hugepages", "2", "affinity", "0-3"), "hugepages: hugepages= (restart); affinity: affinity= (restart)"},
		{"huge pages and affinity are not there", func(s *VMSpec) { s.Hugepages, s.Affinity = None, None }, nil, ""},
		{"huge pages and affinity", func(s *VMSpec) { s.Hugepages, s.Affinity = "2", "0-3" }, set("hugepages", "any", "affinity", "0-3"), "hugepages: hugepages=2 (restart)"},
		{"balloon", nil, set("balloon", ""), "balloon: balloon=0 (restart)"},
		{"agent", nil, set("agent", "enabled=0"), "agent: agent=1 (restart)"},
		{"with the host", func(s *VMSpec) { s.OnBoot = false }, nil, "onboot: onboot=0"},
		{"startup", func(s *VMSpec) { s.Startup = "" }, nil, "startup: startup="},
		{"description", func(s *VMSpec) { s.Description = "x" }, nil, "description: description=x"},
		{"no description", func(s *VMSpec) { s.Description = "" }, nil, ""},
		{"address", func(s *VMSpec) { s.Address = netip.MustParsePrefix("10.0.0.5/24") }, nil, "address: ipconfig0=ip=10.0.0.5/24"},
		{"the same address", func(s *VMSpec) { s.Address = netip.MustParsePrefix("10.0.0.5/24") }, set("ipconfig0", "ip=10.0.0.5/24"), ""},
		{"an address of IPv6", func(s *VMSpec) { s.Address = netip.MustParsePrefix("fd00::5/64") }, nil, "address: ipconfig0=ip6=fd00::5/64"},
		{"two addresses", func(s *VMSpec) {
			s.Address, s.Address6 = netip.MustParsePrefix("10.0.0.5/24"), netip.MustParsePrefix("fd00::5/64")
		}, nil, "address: ipconfig0=ip=10.0.0.5/24,ip6=fd00::5/64"},
		{"adopted: its address stays", func(s *VMSpec) { s.Adopted, s.Address = true, netip.MustParsePrefix("10.0.0.5/24") }, nil, ""},
		{"a USB device", func(s *VMSpec) { s.USB = []HostUSB{{Mapping: "key"}} }, set("ostype", "l26"), "usb0: usb0=mapping=key"},
		{"a USB device where they are plugged in", func(s *VMSpec) { s.USB = []HostUSB{{Mapping: "key"}} }, set("ostype", "l26", "hotplug", "disk;usb"), "usb0: usb0=mapping=key"},
		{"a USB device where they are not", func(s *VMSpec) { s.USB = []HostUSB{{Mapping: "key"}} }, set("ostype", "l26", "hotplug", "disk"), "usb0: usb0=mapping=key (restart)"},
		{"a USB device beside root's", func(s *VMSpec) { s.USB = []HostUSB{{Mapping: "key"}, {Mapping: "dongle"}} }, set("usb0", "host=1-2", "usb1", "mapping=key"), "usb2: usb2=mapping=dongle (restart)"},
		{"USB devices go", nil, set("usb0", "host=1-2", "usb1", "mapping=key"), "usb1: usb1= (restart)"},
		{"a description like our line", func(s *VMSpec) { s.Description = "homelab: mine" }, set("description", "homelab: mine"), ""},
		{"adopted", func(s *VMSpec) { s.Description, s.Adopted = "", true }, nil, ""},
		{"adopted, described", func(s *VMSpec) { s.Description, s.Adopted = "x", true }, nil, "description: description=x"},
		{"adopted: its first disk, address and other disks stay", func(s *VMSpec) {
			s.Adopted, s.Disks[0].Size, s.Disks[0].SSD, s.NICs[0].MAC = true, 64*GiB, false, "BC:24:11:00:00:02"
		},
			set("scsi7", "vmdata:vm-100-disk-9,size=1G,serial=old"), ""},
		{"adopted: a disk of the file's grows", func(s *VMSpec) { s.Adopted, s.Disks[1].Size = true, 9*GiB }, nil, "disk/scsi1/size: grow scsi1 to 9GiB"},
		{"tags", func(s *VMSpec) { s.Tags = []string{"K3s"} }, nil, "tags: tags=gpu;homelab-x;homelab-x_100_0a0b0c0d;k3s"},
		{"another's mark", nil, set("tags", "gpu;homelab-x;homelab-x_99_0a0b0c0d;else"), "tags: tags=else;gpu;homelab-x;homelab-x_100_0a0b0c0d"},
		{"machine", nil, set("machine", "pc"), "machine: machine=q35 (restart)"},
		{"machine without PCIe", func(s *VMSpec) { s.GPUs[0].PCIe = false }, set("machine", "pc", "hostpci0", "mapping=gpu,rombar=0"), ""},
		{"firmware", nil, set("bios", "", "efidisk0", ""), "firmware: seabios → ovmf (replace)"},
		{"firmware, another", nil, set("bios", "x", "efidisk0", ""), "firmware: x → ovmf (replace)"},
		{"firmware without PCIe", func(s *VMSpec) { s.GPUs = nil }, set("bios", "", "efidisk0", "", "hostpci0", ""), ""},
		{"no variables", nil, set("efidisk0", ""), "efidisk0: efidisk0=vmdata:0,efitype=4m,pre-enrolled-keys=0 (restart)"},
		{"no variables, keys, storage", func(s *VMSpec) { s.SecureBoot, s.Storage = &on, "fast" }, set("efidisk0", ""), "efidisk0: efidisk0=fast:0,efitype=4m,pre-enrolled-keys=1 (restart)"},
		{"secure boot", func(s *VMSpec) { s.SecureBoot = &on }, nil, "secure boot: off → on (replace)"},
		{"secure boot is off", func(s *VMSpec) { s.SecureBoot = &off }, nil, ""},
		{"no opinion of secure boot", nil, set("efidisk0", "vmdata:vm-100-disk-0,pre-enrolled-keys=1"), ""},
		{"no secure boot", func(s *VMSpec) { s.SecureBoot = &off }, set("efidisk0", "vmdata:vm-100-disk-0,pre-enrolled-keys=1"), "secure boot: on → off (replace)"},
		{"TPM", nil, set("tpmstate0", ""), "tpmstate0: tpmstate0=vmdata:1,version=v2.0 (restart)"},
		{"no opinion of the TPM", func(s *VMSpec) { s.TPM = false }, nil, ""},
		{"console", nil, set("serial0", ""), "serial0: serial0=socket (restart)"},
		{"bridge", func(s *VMSpec) { s.NICs[0].Bridge = "vmbr1" }, nil, "net0: net0=virtio=BC:24:11:00:00:01,bridge=vmbr1,queues=4"},
		{"VLAN", func(s *VMSpec) { s.NICs[0].VLAN = 7 }, nil, "net0: net0=virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=7,queues=4"},
		{"MTU", func(s *VMSpec) { s.NICs[0].MTU = 1400 }, nil, "net0: net0=virtio=BC:24:11:00:00:01,bridge=vmbr0,mtu=1400,queues=4 (restart)"},
		{"queues", func(s *VMSpec) { s.NICs[0].Queues = 1 }, nil, "net0: net0=virtio=BC:24:11:00:00:01,bridge=vmbr0,queues=1 (restart)"},
		{"MAC", func(s *VMSpec) { s.NICs[0].MAC = "bc:24:11:00:00:0a" }, nil, "net0: net0=virtio=BC:24:11:00:00:0A,bridge=vmbr0,queues=4 (restart)"},
		{"any MAC", func(s *VMSpec) { s.NICs[0].MAC = "" }, nil, ""},
		{"a second interface", func(s *VMSpec) { s.NICs = append(s.NICs, NIC{Bridge: "vmbr1"}) }, nil, "net1: net1=virtio,bridge=vmbr1"},
		{"without hotplug", func(s *VMSpec) { s.NICs = append(s.NICs, NIC{Bridge: "vmbr1"}) }, set("hotplug", "disk,usb"), "net1: net1=virtio,bridge=vmbr1 (restart)"},
		{"with hotplug", func(s *VMSpec) { s.NICs = append(s.NICs, NIC{Bridge: "vmbr1"}) }, set("hotplug", "network"), "net1: net1=virtio,bridge=vmbr1"},
		{"a new disk", nil, set("scsi1", ""), "disk/scsi1: scsi1=vmdata:8,serial=data,discard=on"},
		{"a new disk without hotplug", nil, set("scsi1", "", "hotplug", "0"), "disk/scsi1: scsi1=vmdata:8,serial=data,discard=on (restart)"},
		{"a new disk with hotplug", nil, set("scsi1", "", "hotplug", "usb;disk"), "disk/scsi1: scsi1=vmdata:8,serial=data,discard=on"},
		{"the slot is another's", nil, set("scsi1", "vmdata:vm-100-disk-7,size=1G"), "disk/scsi2: scsi2=vmdata:8,serial=data,discard=on"},
		{"two slots are", nil, set("scsi1", "vmdata:vm-100-disk-7,size=1G", "scsi2", "none,media=cdrom"), "disk/scsi3: scsi3=vmdata:8,serial=data,discard=on"},
		{"elsewhere", nil, set("scsi1", "", "scsi5", "vmdata:vm-100-disk-2,size=8G,serial=data,discard=on"), ""},
		{"a disk's options", nil, set("scsi0", "vmdata:vm-100-disk-1,size=32G,cache=none"), "disk/scsi0/options: scsi0=vmdata:vm-100-disk-1,size=32G,cache=none,ssd=1 (restart)"},
		{"serial", func(s *VMSpec) { s.Disks[0].Serial = "os" }, nil, "disk/scsi0/options: scsi0=vmdata:vm-100-disk-1,size=32G,ssd=1,serial=os (restart)"},
		{"larger", func(s *VMSpec) { s.Disks[1].Size = 9 * GiB }, nil, "disk/scsi1/size: grow scsi1 to 9GiB"},
		{"smaller", func(s *VMSpec) { s.Disks[0].Size = 31 * GiB }, nil, "disk/scsi0/size: 32GiB → 31GiB (replace)"},
		{"as large as it is", func(s *VMSpec) { s.Disks[0].Size, s.Disks[1].Size = 0, 0 }, nil, ""},
		{"a disk that is not wanted", func(s *VMSpec) { s.Disks = s.Disks[:1] }, nil, "disk/scsi1: scsi1="},
		{"pulled without hotplug", func(s *VMSpec) { s.Disks = s.Disks[:1] }, set("hotplug", "0"), "disk/scsi1: scsi1= (restart)"},
		{"a disk without a serial", nil, set("scsi4", "vmdata:vm-100-disk-7,size=1G"), ""},
		{"device", func(s *VMSpec) { s.GPUs[0].Mapping = "other" }, nil, "hostpci0: hostpci0=mapping=other,pcie=1,rombar=0 (restart)"},
		{"option ROM", func(s *VMSpec) { s.GPUs[0].ROMBar = true }, nil, "hostpci0: hostpci0=mapping=gpu,pcie=1 (restart)"},
		{"a device more", nil, set("hostpci1", "mapping=b"), "hostpci1: hostpci1= (restart)"},
		{"root's device", nil, set("hostpci1", "0000:01:00"), ""},
		{"a seed that was taken out", nil, set("ide2", ""), "seed: ide2=local:iso/a.iso,media=cdrom (restart)"},
		{"another seed", nil, set("ide2", "local:iso/b.iso,media=cdrom"), "seed: local:iso/b.iso → local:iso/a.iso (replace)"},
		{"no opinion of the seed", func(s *VMSpec) { s.Seed = "" }, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec, config := wanted(), asItIs()
			if tt.spec != nil {
				tt.spec(&spec)
			}
			if tt.have != nil {
				tt.have(config)
			}
			assert.Equal(t, tt.want, told(spec.changes(vmOf(config, true))))
			assert.Equal(t, strings.ReplaceAll(tt.want, " (restart)", ""), told(spec.changes(vmOf(config, false))), "off, it takes no restart")
		})
	}
}

// A VM that is locked or half-made is told as that.
func TestDiffOfALockedVM(t *testing.T) {
	spec, config := wanted(), asItIs()
	config["lock"] = "backup"
	assert.Empty(t, spec.Diff(vmOf(config, true)), "nothing differs")
	spec.Cores, spec.Running = 8, true
	assert.Equal(t, "cores: 4 → 8 [the VM is locked: backup]; power: stopped → running", spec.Diff(vmOf(config, false)).String())
	config["lock"] = "clone"
	assert.Equal(t, "VM 100, half-made → 8 cores, 8GiB, disk 32GiB + 8GiB, 1 GPU", spec.Diff(vmOf(config, true)).String())
	half := vmOf(asItIs(), true)
	half.Unfinished = true
	half.Tags = append(half.Tags, "inherited")
	assert.Empty(t, told(withoutTags(wanted().changes(half))), "what runs and is half-made takes no restart")
	half.Protected = true
	assert.Equal(t, "protection: protection=0", told(withoutTags(wanted().changes(half))), "a half-made clone loses the protection of its template")
	kept := wanted()
	kept.Protected = new(true)
	assert.Empty(t, told(withoutTags(kept.changes(half))), "unless the file wants it")
	made := vmOf(asItIs(), true)
	made.Protected = true
	assert.Empty(t, told(withoutTags(wanted().changes(made))), "a protection set by hand stays")
	half.Protected = false
	all := wanted()
	all.Seed = "local:iso/b.iso"
	assert.Equal(t, "seed: ide2=local:iso/b.iso,media=cdrom", told(withoutTags(all.changes(half))))
	assert.Equal(t, "gpu;homelab-x;homelab-x_100_0a0b0c0d", wanted().changes(half)[0].Value, "tags that it has inherited go")
	assert.Equal(t, []string{"a device without a mapping", "", "gpu pcie rombar", "gpu"}, []string{HostPCI{Slot: "hostpci0"}.String(), HostPCI{}.String(),
		HostPCI{Mapping: "gpu", PCIe: true, ROMBar: true}.String(), HostPCI{Mapping: "gpu"}.String()})
	assert.Equal(t, "vmbr0 vlan 7 mtu 1 queues 1", NIC{Bridge: "vmbr0", VLAN: 7, MTU: 1, Queues: 1}.String())
	assert.Equal(t, converge.Restart, ruleOf("anything else").Effect)
}

func withoutTags(all []change) (out []change) {
	for _, ch := range all {
		if ch.thing != theTags {
			out = append(out, ch)
		}
	}
	return out
}

// What a VM is to be is checked before anything is asked of Proxmox.
func TestSpecsThatCannotBe(t *testing.T) {
	require.NoError(t, wanted().Check())
	for want, wrong := range map[string]func(*VMSpec){
		`vm a_b: "a_b" is not a DNS name`:                       func(s *VMSpec) { s.Name = "a_b" },
		"vm wk1: no host":                                       func(s *VMSpec) { s.Host = "" },
		`vm wk1: tag "": write lower-case letters`:              func(s *VMSpec) { s.Owner = "" },
		`vm wk1: tag "A": write lower-case letters`:             func(s *VMSpec) { s.Tags = []string{"A"} },
		"vm wk1: vmid 99 is not between 100 and 999999999":      func(s *VMSpec) { s.VMID = 99 },
		"vm wk1: vmid 1000000000 is not between":                func(s *VMSpec) { s.VMID = 1_000_000_000 },
		"vm wk1: a full clone needs a storage":                  func(s *VMSpec) { s.Full = true },
		"vm wk1: the description has more than 8192 characters": func(s *VMSpec) { s.Description = strings.Repeat("x", 8193) },
		`vm wk1: disk "sda": write scsi0, scsi1, …`:             func(s *VMSpec) { s.Disks[0].Slot = "sda" },
		"vm wk1: hostpci0 has no mapping: only root@pam itself": func(s *VMSpec) { s.GPUs[0].Mapping = "" },
		"vm wk1: 17 passed-through devices; Proxmox takes 16":   func(s *VMSpec) { s.GPUs = many(17) },
	} {
		spec := wanted()
		wrong(&spec)
		assert.ErrorContains(t, spec.Check(), want)
	}
	for _, right := range []func(*VMSpec){
		func(s *VMSpec) { s.VMID = 100 }, func(s *VMSpec) { s.VMID = 999_999_999 }, func(s *VMSpec) { s.Full, s.Storage = true, "a" },
		func(s *VMSpec) { s.Description = strings.Repeat("x", 8192) }, func(s *VMSpec) { s.GPUs = many(16) }, func(s *VMSpec) { s.Storage = "a" },
	} {
		spec := wanted()
		right(&spec)
		assert.NoError(t, spec.Check())
	}
}

func many(n int) (out []HostPCI) {
	for range n {
		out = append(out, HostPCI{Mapping: "gpu"})
	}
	return out
}

// What is in a configuration is read as Proxmox means it.
func TestVMOfAConfiguration(t *testing.T) {
	v := vmOf(map[string]string{
		"name": "a", "sockets": "2", "cores": "3", "memory": "current=2048", "cpu": "cputype=host,flags=+aes", "machine": "type=q35,viommu=intel", "numa": "1", "balloon": "512", "agent": "1,fstrim_cloned_disks=1",
		"numa1": "cpus=0-1,memory=512", "net31": "model=virtio,macaddr=BC:24:11:00:00:01,bridge=vmbr0,tag=5,mtu=1,queues=2", "net2": "virtio,bridge=vmbr1,macaddr=BC:24:11:00:00:02",
		"scsi10": "a:vm-1-disk-1,size=1G,ssd=1,discard=on,iothread=1,serial=s", "scsi2": "b:vm-1-disk-2,size=2G", "ide0": "none,media=cdrom", "ide2": "local:iso/s.iso,media=cdrom", "sata0": "none", "virtio1": "c:x",
		"hostpci15": "0000:01:00,rombar=1", "hostpci2": "mapping=m,pcie=1,rombar=0", "unused0": "d:vm-1-disk-9", "unused1": "d:vm-1-disk-8", "efidisk0": "e:vm-1-disk-7,pre-enrolled-keys=1", "tpmstate0": "f:vm-1-disk-6", "tags": "b a,B;c",
	}, false)
	want := &VM{
		Name: "a", VMID: 100, Host: "pve1", Tags: []string{"a", "b", "c"}, Cores: 6, Memory: 2 * GiB, CPUType: "host", NUMA: true, NUMANodes: map[string]NUMANode{"numa1": {CPUs: "0-1", Memory: 512 * MiB}},
		Machine: "q35", EFIDisk: true, SecureBoot: true, TPM: true, Agent: true, Balloon: true, Seed: "local:iso/s.iso", Unused: []string{"d:vm-1-disk-9", "d:vm-1-disk-8"},
		NICs:  []NIC{{Bridge: "vmbr1", MAC: "BC:24:11:00:00:02"}, {Bridge: "vmbr0", MAC: "BC:24:11:00:00:01", VLAN: 5, MTU: 1, Queues: 2}},
		Disks: []Disk{{Slot: "scsi2", Storage: "b", Size: 2 * GiB, Volume: "b:vm-1-disk-2"}, {Slot: "scsi10", Storage: "a", Size: GiB, Serial: "s", SSD: true, Discard: true, IOThread: true, Volume: "a:vm-1-disk-1"}, {Slot: "virtio1", Storage: "c", Volume: "c:x"}},
		GPUs:  []HostPCI{{Slot: "hostpci2", Mapping: "m", PCIe: true}, {Slot: "hostpci15", ROMBar: true}},
	}
	want.config = v.config
	assert.Equal(t, want, v)
	assert.Equal(t, []string{"a", "b", "c", "d", "e", "f"}, v.storagesInUse())
	empty := vmOf(map[string]string{"ide2": "none,media=cdrom"}, false)
	assert.Equal(t, []any{512 * MiB, 1, ""}, []any{empty.Memory, empty.Cores, empty.Seed})
	assert.Equal(t, "no VM", (*VM)(nil).String())
	assert.Equal(t, []string{"scsi1", "scsi3"}, vmOf(map[string]string{"scsi1": "a:cloudinit", "scsi3": "a:vm-1-cloudinit", "ide2": "a:cloudinit", "scsi0": "a:x", "net0": "cloudinit"}, false).CloudInitDrives())
}

// Of a running VM, what waits for the next start is pending, whatever it is.
func TestPendingOfAConfiguration(t *testing.T) {
	text := func(s string) *wire.Text { return (*wire.Text)(&s) }
	entries := []configEntry{
		{Key: "name", Value: text("a")}, {Key: "memory", Value: text("1024"), Pending: text("2048")}, {Key: "cores", Pending: text("4")},
		{Key: "agent", Value: text("1"), Delete: 1}, {Key: "description", Value: text(" old\n"), Pending: text("new")}, {Key: "cpu", Value: text("host"), Pending: text("host")}, {Key: "odd", Delete: 1}, {Key: "empty", Value: text("")},
	}
	v := readVM("pve1", 100, entries, true)
	assert.Equal(t, []PendingKey{{"agent", "1", ""}, {"cores", "", "4"}, {"description", " old\n", "new"}, {"memory", "1024", "2048"}}, v.Pending)
	assert.Equal(t, map[string]string{"name": "a", "memory": "2048", "cores": "4", "description": "new", "cpu": "host", "empty": ""}, v.config)
	assert.Equal(t, "old", v.notes)
	now := v.inEffect()
	assert.Equal(t, map[string]string{"name": "a", "memory": "1024", "agent": "1", "description": " old\n", "cpu": "host", "empty": ""}, now.config)
	assert.Equal(t, GiB, now.Memory)
	assert.True(t, v.isPending("memory"))
	assert.False(t, v.isPending("name"))
	assert.False(t, v.isPending(""))
	assert.Empty(t, readVM("pve1", 100, entries, false).Pending)
}

// After changes to a VM that is off it need not be read again.
func TestWithChanges(t *testing.T) {
	v := vmOf(map[string]string{"name": "a", "memory": "1024", "cores": "2"}, false)
	v.Owner = "o"
	out := v.withChanges([]change{{Key: "memory", Value: "2048"}, {Key: "cores"}, {Disk: "scsi0", Size: GiB}, {Key: "cpu", Value: "host"}})
	assert.Equal(t, map[string]string{"name": "a", "memory": "2048", "cpu": "host"}, out.config)
	assert.Equal(t, []any{2 * GiB, "o", "pve1", 100}, []any{out.Memory, out.Owner, out.Host, out.VMID})
	assert.Equal(t, map[string]string{"name": "a", "memory": "1024", "cores": "2"}, v.config)
}

// Several disks may be new, and several gone.
func TestSeveralDisks(t *testing.T) {
	spec, config := wanted(), asItIs()
	spec.Disks = append(spec.Disks, Disk{Slot: "scsi2", Storage: "vmdata", Size: GiB, Serial: "b"}, Disk{Slot: "scsi3", Storage: "vmdata", Size: GiB, Serial: "c"})
	assert.Equal(t, "disk/scsi2: scsi2=vmdata:1,serial=b; disk/scsi3: scsi3=vmdata:1,serial=c", told(spec.changes(vmOf(config, true))))
	delete(config, "scsi1")
	spec.Disks[0].Size++
	assert.Equal(t, "disk/scsi0/size: grow scsi0 to 34359738369B; disk/scsi1: scsi1=vmdata:8,serial=data,discard=on; disk/scsi2: scsi2=vmdata:1,serial=b; disk/scsi3: scsi3=vmdata:1,serial=c",
		told(spec.changes(vmOf(config, true))))
	spec.Disks = []Disk{{Slot: "scsi0", Size: 32 * GiB, SSD: true}, {Slot: "scsi1", Storage: "vmdata", Size: GiB, Serial: "x"}, {Slot: "scsi1", Storage: "vmdata", Size: GiB, Serial: "y"}}
	config["scsi1"] = "vmdata:vm-100-disk-5,size=1G,serial=y"
	assert.Equal(t, "disk/scsi2: scsi2=vmdata:1,serial=x", told(spec.changes(vmOf(config, true))), "y has the slot that x would have")
}

// What is done while the VM is off is told from what waits.
func TestThingsThatAreDoneWhileOff(t *testing.T) {
	for want, change := range map[string]func(*VMSpec){
		theDiskSerial: func(s *VMSpec) { s.Disks[0].Serial = "os" }, theDiskOptions: func(s *VMSpec) { s.Disks[0].SSD = false },
		theBridge: func(s *VMSpec) { s.NICs[0].Bridge = "vmbr1" }, theNICDevice: func(s *VMSpec) { s.NICs[0].Queues = 1 },
	} {
		spec := wanted()
		change(&spec)
		all := spec.changes(vmOf(asItIs(), true))
		require.Len(t, all, 1)
		assert.Equal(t, want, all[0].thing)
		assert.Equal(t, want == theDiskSerial || want == theNICDevice, all[0].needsStop())
	}
	for want, s := range map[string]VMSpec{
		"1 core, 1GiB": {Cores: 1, Memory: GiB, Disks: []Disk{{}}}, "2 cores, 1GiB, 1 GPU": {Cores: 2, Memory: GiB, GPUs: many(1)}, "2 cores, 1GiB, disk 1GiB, 2 GPUs": {Cores: 2, Memory: GiB, Disks: []Disk{{Size: GiB}}, GPUs: many(2)},
	} {
		assert.Equal(t, want, s.String())
	}
}

// What a VM boots from is what its boot order finds first; a disk with a serial is another owner's data.
func TestExtraDisks(t *testing.T) {
	disk := func(more ...string) map[string]string {
		out := map[string]string{"scsi0": "a:vm-1-disk-0,size=1G", "scsi9": "a:vm-1-disk-1,size=2G", "ide2": "local:iso/s.iso,media=cdrom"}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	for what, x := range map[string]struct {
		config map[string]string
		want   string
	}{
		"ours":              {disk("boot", "order=scsi0"), "scsi9"},
		"no order":          {disk(), "scsi9"},
		"the other":         {disk("boot", "order=ide2;net0;scsi9;scsi0"), "scsi0"},
		"an old key":        {disk("boot", "c", "bootdisk", "scsi9"), "scsi0"},
		"with a serial":     {disk("scsi0", "a:vm-1-disk-0,size=1G,serial=s"), "scsi0 scsi9"},
		"from nothing here": {map[string]string{"scsi3": "a:vm-1-disk-0,size=1G"}, "scsi3"},
	} {
		vm := &VM{config: x.config}
		vm.read()
		var slots []string
		for _, d := range vm.extraDisks() {
			slots = append(slots, d.Slot)
		}
		assert.Equal(t, x.want, strings.Join(slots, " "), what)
	}
}

// A CPU type may have options, in any order and with or without its key. Options of the VM alone,
// which somebody has set by hand, stay.
func TestCPUOptions(t *testing.T) {
	for _, c := range []struct{ vm, file, want string }{
		{"host,hidden=1,flags=+pcid", "host,hidden=1,flags=+pcid", ""},
		{"flags=+pcid,cputype=host,hidden=1", "host,hidden=1,flags=+pcid", ""},
		{"host,flags=+aes", "host", ""},
		{"host", "host,hidden=1", "host,hidden=1"},
		{"host,hidden=1", "host,hidden=0", "host,hidden=0"},
		{"host,hidden=1", "x86-64-v3", "x86-64-v3"},
	} {
		got := ""
		for _, ch := range (VMSpec{CPUType: c.file}).changes(vmOf(map[string]string{"cpu": c.vm}, false)) {
			if ch.Key == "cpu" {
				got = ch.Value
			}
		}
		assert.Equal(t, c.want, got, "%s: %s", c.vm, c.file)
	}
}
