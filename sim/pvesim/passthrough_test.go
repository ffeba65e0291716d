package pvesim

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// entry is a good mapping entry for a card of EightA100.
func entry(path, group string) string {
	return "node=pve1,path=" + path + ",id=10de:20f1,iommugroup=" + group + ",subsystem-id=10de:145f"
}

type startCase struct {
	name    string
	entries []string          // of mapping gpu; none: no mapping
	conf    map[string]string // beside hostpci0
	host    func(h *Host)
	mdev    bool
	want    string
}

func startCases() []startCase {
	const card = "0000:01:00.0"
	return []startCase{
		{name: "good", entries: []string{entry(card, "21")}, want: "OK"},
		{name: "whole device", entries: []string{entry("0000:01:00", "21")}, want: "OK"},
		{name: "no mapping", want: "PCI device mapping not found for 'gpu'"},
		{name: "other node", entries: []string{strings.Replace(entry(card, "21"), "pve1", "pve9", 1)}, want: "PCI device mapping not found for 'gpu'"},
		{name: "gone", entries: []string{entry("0000:99:00.0", "21")},
			want: "PCI device mapping invalid (hardware probably changed): pci device '0000:99:00.0' not found "},
		{name: "capitals", entries: []string{"node=pve1,path=0000:01:00.0,id=10DE:20F1,iommugroup=21,subsystem-id=10de:145f"},
			want: "PCI device mapping invalid (hardware probably changed): 'id' does not match for 'gpu' (10de:20f1 != 10DE:20F1) "},
		{name: "other group", entries: []string{entry(card, "7")},
			want: "PCI device mapping invalid (hardware probably changed): 'iommugroup' does not match for 'gpu' (21 != 7) "},
		{name: "no group", entries: []string{"node=pve1,path=0000:01:00.0,id=10de:20f1,subsystem-id=10de:145f"},
			want: "PCI device mapping invalid (hardware probably changed): missing expected property 'iommugroup' for device '0000:01:00.0' "},
		{name: "no subsystem", entries: []string{"node=pve1,path=0000:01:00.0,id=10de:20f1,iommugroup=21"},
			want: "PCI device mapping invalid (hardware probably changed): missing expected property 'subsystem-id' for device '0000:01:00.0' "},
		{name: "mdev", entries: []string{entry(card, "21")}, mdev: true,
			want: "PCI device mapping invalid (hardware probably changed): 'mdev' does not match for 'gpu' (0 != 1) "},
		{name: "iommu off", entries: []string{"node=pve1,path=0000:01:00.0,id=10de:20f1,subsystem-id=10de:145f"}, host: func(h *Host) { h.NoIOMMU = true },
			want: "cannot prepare PCI pass-through, IOMMU not present"},
		{name: "host keeps it", entries: []string{entry(card, "21")}, host: func(h *Host) { h.PCI[1].HeldByHost = true },
			want: "start failed: QEMU exited with code 1"},
		{name: "i440fx", entries: []string{entry(card, "21")}, conf: map[string]string{"machine": "pc"},
			want: "q35 machine model is not enabled at /usr/share/perl5/PVE/QemuServer/PCI.pm line 510."},
		{name: "same card twice", entries: []string{entry(card, "21")}, conf: map[string]string{"hostpci1": "mapping=gpu"},
			want: "device '0000:01:00.0' assigned more than once"},
		{name: "pool too small", entries: []string{entry(card, "21"), entry("0000:25:00.0", "23")},
			conf: map[string]string{"hostpci1": "mapping=gpu", "hostpci2": "mapping=gpu"}, want: "could not find a free device for 'hostpci2'"},
		{name: "too much memory", entries: []string{entry(card, "21")}, conf: map[string]string{"memory": "1040000"},
			want: "start failed: QEMU exited with code 1"},
		{name: "too many CPUs", entries: []string{entry(card, "21")}, conf: map[string]string{"cores": "200"}, want: "MAX 128 vcpus allowed per VM on this node"},
		{name: "no bridge", entries: []string{entry(card, "21")}, conf: map[string]string{"net0": "virtio=BC:24:11:00:00:09,bridge=vmbr9"}, want: "bridge 'vmbr9' does not exist"},
		{name: "no disc", entries: []string{entry(card, "21")}, conf: map[string]string{"ide2": "local:iso/none.iso,media=cdrom"}, want: "volume 'local:iso/none.iso' does not exist"},
		{name: "no EFI disk", entries: []string{entry(card, "21")}, conf: map[string]string{"efidisk0": ""}, want: "WARNINGS: 1"},
	}
}

// TestStartJudgesDevices sets VM 104 up with devices and starts it.
func TestStartJudgesDevices(t *testing.T) {
	for _, x := range startCases() {
		t.Run(x.name, func(t *testing.T) {
			m := EightA100()
			if x.host != nil {
				x.host(&m.Hosts[0])
			}
			in(t, m, Options{}, func(t *testing.T, s *Sim, c *caller) {
				if x.entries != nil {
					s.state.Mappings["gpu"] = &world.Mapping{ID: "gpu", Entries: x.entries, Flags: map[string]bool{"mdev": x.mdev}}
				}
				v := s.state.VMs[104]
				v.Set("hostpci0", "mapping=gpu,pcie=1")
				for k, value := range x.conf {
					v.Set(k, value)
					if value == "" {
						v.Unset(k)
					}
				}
				assert.Equal(t, x.want, c.wait(c.do("POST", "/nodes/pve1/qemu/104/status/start")))
				if !v.Running {
					assert.Empty(t, v.PCI, "what failed to start holds nothing")
				}
			})
		})
	}
}

func TestACardHasOneHolder(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		s.state.Mappings["one"] = &world.Mapping{ID: "one", Entries: []string{entry("0000:01:00.0", "21")}}
		s.state.Mappings["pool"] = &world.Mapping{ID: "pool", Entries: []string{entry("0000:01:00.0", "21"), entry("0000:25:00.0", "23")}}
		for id, name := range map[string]string{"301": "one", "302": "one", "303": "pool", "304": "pool"} {
			r := c.do("POST", "/nodes/pve1/qemu", "vmid", id, "machine", "q35", "hostpci0", "mapping="+name+",pcie=1")
			require.Equal(t, "OK", c.wait(r))
		}
		start := func(id string) string { return c.wait(c.do("POST", "/nodes/pve1/qemu/"+id+"/status/start")) }
		assert.Equal(t, "OK", start("301"))
		assert.Equal(t, "PCI device '0000:01:00.0' already in use by VMID '301'", start("302"))
		assert.Equal(t, "OK", start("303"), "a pool hands out what is free")
		assert.Equal(t, []string{"0000:25:00.0"}, s.state.VMs[303].PCI)
		assert.Equal(t, "could not find a free device for 'hostpci0'", start("304"))
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/301/status/stop")))
		assert.Equal(t, "OK", start("304"), "what was stopped gives its card back")
	})
}

func TestTheWholeGroupGoes(t *testing.T) {
	in(t, OneGPU(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		c.auth = "PVEAPIToken=homelab@pve!operator=" + model.OperatorSecret
		s.state.Mappings["gpu"] = &world.Mapping{ID: "gpu", Entries: []string{"node=pve1,path=0000:01:00,id=10de:2684,iommugroup=13,subsystem-id=1043:88e2"}}
		s.state.Mappings["audio"] = &world.Mapping{ID: "audio", Entries: []string{"node=pve1,path=0000:01:00.1,id=10de:22ba,iommugroup=13,subsystem-id=1043:88e2"}}
		for id, name := range map[string]string{"301": "gpu", "302": "audio"} {
			require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", id, "machine", "q35", "hostpci0", "mapping="+name+",pcie=1")))
		}
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/302/status/start")))
		assert.Equal(t, "PCI device '0000:01:00.1' already in use by VMID '302'", c.wait(c.do("POST", "/nodes/pve1/qemu/301/status/start")))
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/302/status/stop")))
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/301/status/start")))
		assert.Equal(t, []string{"0000:01:00.0", "0000:01:00.1"}, s.state.VMs[301].PCI)
	})
}

func TestHardwareListing(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		assert.Equal(t, 8, strings.Count(c.do("GET", "/nodes/pve1/hardware/pci").body, "0x20f1"))
		assert.NotContains(t, c.do("GET", "/nodes/pve1/hardware/pci").body, "0x060400", "bridges are hidden")
		assert.Contains(t, c.do("GET", "/nodes/pve1/hardware/pci", "pci-class-blacklist", "").body, "0x060400")
		assert.Equal(t, 3, strings.Count(c.do("GET", "/nodes/pve1/hardware/pci", "pci-class-blacklist", "03;06", "verbose", "0").body, "id")+1)
		c.do("POST", "/cluster/mapping/pci", "id", "gpu", "map", entry("0000:01:00.0", "21"))
		assert.Contains(t, c.do("GET", "/cluster/mapping/pci", "check-node", "pve1").body, `"checks":[]`)
		changeHardware(s.state, "pve1", func(d map[string]*PCIDevice) { delete(d, "0000:01:00.0") })
		assert.Contains(t, c.do("GET", "/cluster/mapping/pci", "check-node", "pve1").body, "pci device '0000:01:00.0' not found")
	})
}

func TestPendingChanges(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		require.Equal(t, 200, c.do("PUT", "/nodes/pve1/qemu/100/config", "memory", "8192", "description", "now", "delete", "ostype").status)
		conf := c.do("GET", "/nodes/pve1/qemu/100/config").object()
		assert.Equal(t, []any{"8192", "now", nil}, []any{conf["memory"], conf["description"], conf["ostype"]}, "what is wanted")
		conf = c.do("GET", "/nodes/pve1/qemu/100/config", "current", "1").object()
		assert.Equal(t, []any{"16384", "now", "l26"}, []any{conf["memory"], conf["description"], conf["ostype"]}, "what is")
		body := c.do("GET", "/nodes/pve1/qemu/100/pending").body
		assert.Contains(t, body, `{"key":"memory","pending":"8192","value":"16384"}`)
		assert.Contains(t, body, `{"delete":1,"key":"ostype","value":"l26"}`)
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/100/status/reboot")))
		assert.False(t, s.VMs()[0].Running, "the task ends before the machine is back")
		time.Sleep(3 * time.Second)
		assert.True(t, s.VMs()[0].Running)
		assert.Equal(t, "8192", s.VMs()[0].Config["memory"])
		assert.Empty(t, s.VMs()[0].Pending)
		last := s.state.TaskOrder[len(s.state.TaskOrder)-1]
		assert.Equal(t, []string{"qmstart", "root@pam", ""}, []string{last.Kind, last.User, last.Token})
	})
}

func TestAFailingChangeIsHalfDone(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		r := c.do("PUT", "/nodes/pve1/qemu/104/config", "cores", "3", "description", "d", "hostpci3", "0000:01:00", "memory", "4096", "tags", "t", "numa", "1", "sockets", "2")
		assert.Equal(t, "500 only root can set 'hostpci3' config for non-mapped devices", strconv.Itoa(r.status)+" "+r.reason)
		conf := s.VMs()[1].Config
		done := 0
		for k, v := range map[string]string{"cores": "3", "description": "d", "memory": "4096", "tags": "t", "numa": "1", "sockets": "2"} {
			if conf[k] == v {
				done++
			}
		}
		assert.Positive(t, done)
		assert.Less(t, done, 6)
	})
}

func TestDisksThatGoOutOfUse(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		const config = "/nodes/pve1/qemu/104/config"
		require.Equal(t, "OK", c.wait(c.do("POST", config, "scsi1", "vmdata:32,serial=data,ssd=1")))
		assert.Equal(t, "vmdata:vm-104-disk-2,serial=data,size=32G,ssd=1", s.VMs()[1].Config["scsi1"])
		require.Equal(t, 200, c.do("PUT", config, "delete", "scsi1").status)
		assert.Equal(t, "vmdata:vm-104-disk-2", s.VMs()[1].Config["unused0"])
		require.Equal(t, 200, c.do("PUT", config, "delete", "unused0").status)
		for _, v := range s.Volumes() {
			assert.NotEqual(t, "vmdata:vm-104-disk-2", v.ID)
		}
		require.Equal(t, 200, c.do("PUT", config, "tags", "").status)
		assert.Equal(t, " ", s.VMs()[1].Config["tags"], "an empty list of tags is a blank")
	})
}
