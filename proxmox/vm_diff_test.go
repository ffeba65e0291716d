package proxmox_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
)

func worker() proxmox.VMSpec {
	return proxmox.VMSpec{
		Name: "wk-gpu1", Host: "pve1", Owner: "homelab-a100", Tags: []string{"gpu"}, Template: "tmpl",
		Cores: 16, Memory: 128 * proxmox.GiB, OnBoot: true, Running: true, Seed: "local:iso/a100-wk-gpu1-0123456789ab.iso",
		NICs:  []proxmox.NIC{{Bridge: "vmbr0", MAC: "BC:24:11:00:00:21", Queues: 16}},
		Disks: []proxmox.Disk{{Slot: "scsi0", Size: 500 * proxmox.GiB, SSD: true, Discard: true, IOThread: true}, {Slot: "scsi1", Storage: "vmdata", Size: proxmox.TiB, Serial: "scratch"}},
		GPUs:  []proxmox.HostPCI{{Mapping: "a100-wk-gpu1", PCIe: true}, {Mapping: "a100-wk-gpu1", PCIe: true}},
	}
}

// seen is worker as Proxmox would show it.
func seen() *proxmox.VM {
	s := worker()
	disks := append([]proxmox.Disk(nil), s.Disks...)
	disks[0].Storage, disks[0].Volume = "vmdata", "vmdata:vm-101-disk-1"
	disks[1].Volume = "vmdata:vm-101-disk-2"
	return &proxmox.VM{
		Name: s.Name, VMID: 101, Host: "pve1", Owner: s.Owner, Running: true, Tags: []string{"gpu", "homelab-a100"},
		Cores: 16, Memory: 128 * proxmox.GiB, CPUType: "host", OnBoot: true, Agent: true, Machine: "q35", BIOS: "ovmf", EFIDisk: true, SerialConsole: true, Seed: s.Seed, NICs: s.NICs, Disks: disks,
		GPUs: []proxmox.HostPCI{{Slot: "hostpci0", Mapping: "a100-wk-gpu1", PCIe: true}, {Slot: "hostpci1", Mapping: "a100-wk-gpu1", PCIe: true}},
	}
}

func TestDiff(t *testing.T) {
	assert.Empty(t, worker().Diff(seen()))
	assert.Equal(t, "16 cores, 128GiB, disk 500GiB + 1TiB, 2 GPUs", worker().Diff(nil).String())
	assert.Equal(t, converge.Create, worker().Diff(nil).Effect())

	for _, tt := range []struct {
		name string
		spec func(*proxmox.VMSpec)
		vm   func(*proxmox.VM)
		want string
		deep converge.Effect
	}{
		{name: "memory", spec: func(s *proxmox.VMSpec) { s.Memory = 96 * proxmox.GiB }, want: "memory: 128GiB → 96GiB (needs a restart)", deep: converge.Restart},
		{name: "memory, stopped", spec: func(s *proxmox.VMSpec) { s.Memory, s.Running = 96*proxmox.GiB, false }, vm: func(v *proxmox.VM) { v.Running = false }, want: "memory: 128GiB → 96GiB"},
		{name: "cores", spec: func(s *proxmox.VMSpec) { s.Cores = 8 }, want: "cores: 16 → 8 (needs a restart)", deep: converge.Restart},
		{name: "grow", spec: func(s *proxmox.VMSpec) { s.Disks[0].Size = 600 * proxmox.GiB }, want: "disk/scsi0/size: 500GiB → 600GiB"},
		{name: "firewall", spec: func(s *proxmox.VMSpec) { s.NICs[0].Firewall = new(true) }, want: "net0: vmbr0 BC:24:11:00:00:21 queues 16 → vmbr0 BC:24:11:00:00:21 queues 16 firewall"},
		{name: "a firewall set by hand stays", vm: func(v *proxmox.VM) { v.NICs[0].Firewall = new(true) }},
		{name: "no firewall any more", spec: func(s *proxmox.VMSpec) { s.NICs[0].Firewall = new(false) }, vm: func(v *proxmox.VM) { v.NICs[0].Firewall = new(true) },
			want: "net0: vmbr0 BC:24:11:00:00:21 queues 16 firewall → vmbr0 BC:24:11:00:00:21 queues 16"},
		{name: "a protection set by hand stays", vm: func(v *proxmox.VM) { v.Protected = true }},
		{name: "cache", spec: func(s *proxmox.VMSpec) { s.Disks[1].Cache = "writeback" }, want: "disk/scsi1/options: serial scratch → serial scratch cache writeback (needs a restart)", deep: converge.Restart},
		{name: "cache as it is by default", spec: func(s *proxmox.VMSpec) { s.Disks[1].Cache = "none" }},
		{name: "no backup", spec: func(s *proxmox.VMSpec) { s.Disks[1].NoBackup, s.Disks[1].NoReplication = new(true), new(true) },
			want: "disk/scsi1/options: serial scratch → serial scratch no backup no replication"},
		{name: "options set by hand stay", vm: func(v *proxmox.VM) { v.Disks[1].Cache, v.Disks[1].NoBackup = "writeback", new(true) }},
		{name: "a backup again", spec: func(s *proxmox.VMSpec) { s.Disks[1].NoBackup = new(false) }, vm: func(v *proxmox.VM) { v.Disks[1].NoBackup = new(true) },
			want: "disk/scsi1/options: serial scratch no backup → serial scratch"},
		{name: "CPU weight and limit", spec: func(s *proxmox.VMSpec) { s.CPUUnits, s.CPULimit = 200, 2.5 }, vm: func(v *proxmox.VM) { v.CPUUnits = 100 }, want: "cpuunits: 100 → 200; cpulimit: 0 → 2.5"},
		{name: "shrink", spec: func(s *proxmox.VMSpec) { s.Disks[0].Size = 400 * proxmox.GiB },
			want: "disk/scsi0/size: 500GiB → 400GiB (needs a replacement) [Proxmox does not shrink disks]", deep: converge.Replace},
		{name: "seed", spec: func(s *proxmox.VMSpec) { s.Seed = "local:iso/new.iso" },
			want: "seed: local:iso/a100-wk-gpu1-0123456789ab.iso → local:iso/new.iso (needs a replacement) [the seed is read at the first boot alone]", deep: converge.Replace},
		{name: "a GPU less", spec: func(s *proxmox.VMSpec) { s.GPUs = s.GPUs[:1] }, want: "hostpci1: a100-wk-gpu1 pcie → none (needs a restart)", deep: converge.Restart},
		{name: "a GPU more", vm: func(v *proxmox.VM) { v.GPUs = v.GPUs[:1] }, want: "hostpci1: none → a100-wk-gpu1 pcie (needs a restart)", deep: converge.Restart},
		{name: "root's device stays", vm: func(v *proxmox.VM) { v.GPUs = append(v.GPUs, proxmox.HostPCI{Slot: "hostpci5"}) }},
		{name: "stopped", vm: func(v *proxmox.VM) { v.Running = false }, want: "power: stopped → running", deep: converge.Create},
		{name: "tag", spec: func(s *proxmox.VMSpec) { s.Tags = []string{"GPU", "k3s"} }, want: "tags: gpu;homelab-a100 → gpu;homelab-a100;k3s"},
		{name: "a user's tag stays", vm: func(v *proxmox.VM) { v.Tags = append(v.Tags, "backup") }},
		{name: "bridge", spec: func(s *proxmox.VMSpec) {
			s.NICs = []proxmox.NIC{{Bridge: "vmbr1", MAC: "bc:24:11:00:00:21", Queues: 16}}
		},
			want: "net0: vmbr0 BC:24:11:00:00:21 queues 16 → vmbr1 BC:24:11:00:00:21 queues 16"},
		{name: "new disk", vm: func(v *proxmox.VM) { v.Disks = v.Disks[:1] }, want: "disk/scsi1: none → 1TiB on vmdata"},
		{name: "moved", vm: func(v *proxmox.VM) { v.Host = "pve2" }, want: "host: pve2 → pve1 (needs a replacement) [a VM with passed-through devices cannot be moved while it lives]", deep: converge.Replace},
		{name: "pending, and not wanted", vm: func(v *proxmox.VM) {
			v.Memory, v.Pending = 3*proxmox.GiB, []proxmox.PendingKey{{Key: "memory", Have: "131072", Want: "3072"}}
		}, want: "memory: 3GiB → 128GiB"},
		{name: "half-made", vm: func(v *proxmox.VM) { v.Unfinished = true }, want: "VM 101, half-made → 16 cores, 128GiB, disk 500GiB + 1TiB, 2 GPUs", deep: converge.Create},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, vm := worker(), seen()
			if tt.spec != nil {
				tt.spec(&s)
			}
			if tt.vm != nil {
				tt.vm(vm)
			}
			d := s.Diff(vm)
			assert.Equal(t, tt.want, d.String())
			assert.Equal(t, tt.deep, d.Effect())
		})
	}
}
