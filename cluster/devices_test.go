package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

const twoDevices = `
name: devs
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11], devices: {nvme: {pci: "0000:03:00.0"}}}
  wk:
    count: 2
    addresses: [10.0.0.21-10.0.0.22]
    devices: {tpu: {pci: "1ac1:089a"}}
`

// workstation is a workstation with an NVMe disk for VMs, two TPUs, a card with two ports of which one is the
// host's, one with a virtual function, and a USB controller in a group with the SATA controller.
func workstation() pvesim.Model {
	m := pvesim.OneGPU()
	h := &m.Hosts[0]
	h.SATA = true
	add := func(address, id, class string, group int, name string) *pvesim.PCIDevice {
		h.PCI = append(h.PCI, pvesim.PCIDevice{Address: address, ID: id, Subsystem: id, Class: class, Group: group, Vendor: "Maker", Name: name})
		return &h.PCI[len(h.PCI)-1]
	}
	add("0000:03:00.0", "144d:a80a", "010802", 30, "NVMe PM9A1")
	add("0000:04:00.0", "144d:a80a", "010802", 31, "NVMe PM9A1")
	add("0000:06:00.0", "1ac1:089a", "088000", 32, "Coral Edge TPU")
	add("0000:07:00.0", "1ac1:089a", "088000", 33, "Coral Edge TPU")
	add("0000:08:00.0", "15b3:101b", "020700", 34, "ConnectX-6")
	add("0000:08:00.1", "15b3:101c", "020700", 35, "ConnectX-6 Virtual Function").VirtualOf = "0000:08:00.0"
	add("0000:0a:00.0", "1022:7901", "010601", 36, "SATA controller")
	add("0000:0a:00.1", "1022:149c", "0c0330", 36, "USB controller")
	add("0000:0b:00.0", "8086:4680", "030000", -1, "UHD Graphics")
	h.USB = []pvesim.USBDevice{{Port: "1-2", ID: "10c4:ea60", Product: "CP2102N"}, {Port: "1-3.1", ID: "1a86:7523"}, {Port: "1-3.2", ID: "1a86:7523"}}
	return m
}

func mappingsOf(w *world) (out []string) {
	for _, m := range w.sim.Mappings() {
		out = append(out, m.ID+" "+strings.Join(m.Devices, "; "))
	}
	slices.Sort(out)
	return out
}

// Nodes have devices of the host from the first boot on; another one takes a restart, and what the file
// no longer names goes.
func TestDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := workstation()
		model.Mappings = []pvesim.PCIMapping{{ID: "other", Map: []string{"node=pve1,path=0000:04:00.0,id=144d:a80a,subsystem-id=144d:a80a,iommugroup=31"}}}
		w := newWorld(t, model)
		spec := parse(t, twoDevices)
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
		assert.Equal(t, "mapping=devs_cp1_nvme,pcie=1", w.vm(t, "cp1").Config["hostpci0"])
		assert.Equal(t, []string{"0000:03:00.0"}, w.vm(t, "cp1").PCI)
		assert.Equal(t, []string{"0000:06:00.0", "0000:07:00.0"}, append(w.vm(t, "wk1").PCI, w.vm(t, "wk2").PCI...))
		for name, n := range w.nodes(t) {
			assert.Empty(t, n.Taints, name)
		}

		// Another device by the same name, and one of another owner's mapping.
		before := w.now()
		other := parse(t, replace(t, twoDevices, `nvme: {pci: "0000:03:00.0"}`, `nvme: {pci: "0000:08:00.1"}, disk: {pci: other}`))
		costs := w.costsOf(t, other)
		require.NotEmpty(t, costs)
		assert.Equal(t, "other devices", costs[0].Reason)
		w.up(t, other)
		assert.Equal(t, []string{"cp1"}, before.changes().Restarted)
		assert.Equal(t, []string{"0000:08:00.1", "0000:04:00.0"}, w.vm(t, "cp1").PCI)
		assert.Empty(t, w.plan(t, other))

		// The same name for the mapping of another owner: ours of that name goes.
		named := parse(t, replace(t, twoDevices, `nvme: {pci: "0000:03:00.0"}`, `nvme: {pci: other}`))
		w.up(t, named)
		assert.Equal(t, []string{"0000:04:00.0"}, w.vm(t, "cp1").PCI)
		assert.NotContains(t, strings.Join(mappingsOf(w), "\n"), "devs_cp1_")
		assert.Empty(t, w.plan(t, named))

		// None any more.
		none := parse(t, replace(t, twoDevices, `, devices: {nvme: {pci: "0000:03:00.0"}}`, ""))
		w.up(t, none)
		assert.Empty(t, w.vm(t, "cp1").PCI)
		assert.Equal(t, []string{
			"devs_wk1_tpu node=pve1,path=0000:06:00.0,id=1ac1:089a,iommugroup=32,subsystem-id=1ac1:089a",
			"devs_wk2_tpu node=pve1,path=0000:07:00.0,id=1ac1:089a,iommugroup=33,subsystem-id=1ac1:089a",
			"other " + model.Mappings[0].Map[0],
		}, mappingsOf(w))
		c := w.cluster(t, none)
		down, err := c.Down(t.Context())
		require.NoError(t, err)
		_, err = down.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.Equal(t, []string{"other " + model.Mappings[0].Map[0]}, mappingsOf(w))
	})
}

// Single functions of one card go to nodes, each as a device; what the file does not name stays with the host.
func TestFunctionsOfOneCard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := workstation()
		for i := range 4 {
			model.Hosts[0].PCI = append(model.Hosts[0].PCI, pvesim.PCIDevice{
				Address: fmt.Sprintf("0000:0c:00.%d", i), ID: "8086:1521", Subsystem: "8086:0001", Class: "020000", Group: 40 + i, Vendor: "Intel", Name: "I350"})
		}
		w := newWorld(t, model)
		spec := parse(t, replace(t, twoDevices, `{nvme: {pci: "0000:03:00.0"}}`, `{port1: {pci: "0000:0c:00.1"}, port3: {pci: "0000:0c:00.3"}}`))
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
		assert.Equal(t, []string{"0000:0c:00.1", "0000:0c:00.3"}, w.vm(t, "cp1").PCI)
	})
}

// What is missing, in use or the host's own is refused before anything changes.
func TestDevicesThatNoNodeGets(t *testing.T) {
	for device, want := range map[string]string{
		"0000:55:00.0": "pve1 has no PCI device 0000:55:00.0",
		"dead:beef":    "pve1 has no PCI device dead:beef",
		"0000:01:00.1": "is a part of the NVIDIA GPU at 0000:01:00.0 (GeForce RTX 4090)\n  write gpus: for it",
		"0000:05:00.0": "is the network interface eno1, which pve1 uses itself",
		"0000:0a:00":   "may be the disk /dev/sda (",
		"0000:0a:00.1": "shares IOMMU group 36 with 0000:0a:00.0 SATA controller",
		"0000:08:00.0": "has virtual functions, such as 0000:08:00.1",
		"0000:0b:00.0": "has no IOMMU group",
		"0000:00:01.1": "is a part of the host's board",
		"0000:03:00.0": "belongs to VM 500 (nas), by address as hostpci0, stopped\n  remove it from the VM, on pve1: qm set 500 --delete hostpci0",
		"0000:04:00.0": "belongs to cluster lab2, by its mapping lab2_w_nvme",
		"1ac1:089a":    "", // one for three nodes
		"gone":         "there is no resource mapping gone, or the token may not see it (Mapping.Use on /mapping/pci/gone); there is busy, card, lab2_w_nvme, moved, port",
		"card":         "0000:01:00.0 of mapping card is a part of the NVIDIA GPU",
		"moved":        "mapping moved does not fit the hardware of pve1",
		"port":         "is the network interface eno1, which pve1 uses itself",
		"busy":         "mapping busy has 1 of pve1's devices, and more want one: 1 of this file; VM 500 (nas), by address as hostpci0, stopped",
	} {
		t.Run(device, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := workstation()
				model.VMs = append(model.VMs, pvesim.VM{ID: 500, Node: "pve1", Name: "nas", Config: map[string]string{"memory": "1024", "machine": "q35", "hostpci0": "0000:03:00.0"}})
				model.Mappings = []pvesim.PCIMapping{
					{ID: "lab2_w_nvme", Description: "made by homelab for cluster lab2", Map: []string{"node=pve1,path=0000:04:00.0,id=144d:a80a,subsystem-id=144d:a80a,iommugroup=31"}},
					{ID: "card", Map: []string{"node=pve1,path=0000:01:00,id=10de:2684,subsystem-id=1043:88e2,iommugroup=13"}},
					{ID: "moved", Map: []string{"node=pve1,path=0000:06:00.0,id=8086:0001,iommugroup=32"}},
					{ID: "port", Map: []string{"node=pve1,path=0000:05:00.0,id=8086:1572,subsystem-id=8086:0000,iommugroup=17"}},
					{ID: "busy", Map: []string{"node=pve1,path=0000:03:00.0,id=144d:a80a,subsystem-id=144d:a80a,iommugroup=30"}},
				}
				w := newWorld(t, model)
				text := strings.ReplaceAll(replace(t, twoDevices, `{nvme: {pci: "0000:03:00.0"}}`, `{it: {pci: "`+device+`"}}`), "    devices: {tpu: {pci: \"1ac1:089a\"}}\n", "")
				if want == "" {
					text, want = replace(t, twoDevices, `{nvme: {pci: "0000:03:00.0"}}`, `{tpu: {pci: "1ac1:089a"}}`), "goes to another device of the file"
				}
				_, err := w.cluster(t, parse(t, text)).Up().Run(t.Context(), w.listen(t))
				require.ErrorContains(t, err, want)
				assert.Empty(t, w.mutations())
			})
		})
	}
}

// A token with the grants of the file can give nodes their devices, and remove them.
func TestDevicesWithTheLeastGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := replace(t, twoDevices, "network:", "image: {storage: images, seedStorage: isos}\nnetwork:")
		spec := parse(t, replace(t, text, `{tpu: {pci: "1ac1:089a"}}`, `{tpu: {pci: "1ac1:089a"}}
nodes: {wk1: {devices: {zigbee: {usb: "10c4:ea60"}}}}`))
		model := leastModel("9.2.11", hostprep.Grants(spec, proxmox.Version{Version: "9.2.11"}))
		model.Hosts[0].PCI, model.Hosts[0].USB, model.Hosts[0].SATA = workstation().Hosts[0].PCI, workstation().Hosts[0].USB, true
		w := newWorld(t, model)
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
		c := w.cluster(t, spec)
		defer c.Close()
		down, err := c.Down(t.Context())
		require.NoError(t, err)
		_, err = down.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.Empty(t, mappingsOf(w))
	})
}

const usbDevices = `
name: devs
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
  wk: {count: 1, addresses: [10.0.0.21], devices: {zigbee: {usb: 10C4:EA60}, meter: {usb: "1a86:7523", port: 1-3.1}}}
`

// A USB device comes to a node that runs, is exchanged and goes, without a restart.
func TestUSBDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := workstation()
		model.Mappings = []pvesim.PCIMapping{{ID: "meter2", USB: true, Map: []string{"node=pve1,id=1a86:7523,path=1-3.2"}}}
		w := newWorld(t, model)
		w.up(t, parse(t, replace(t, usbDevices, ", devices: {zigbee: {usb: 10C4:EA60}, meter: {usb: \"1a86:7523\", port: 1-3.1}}", "")))
		machine := w.guests()["wk1"]
		step := func(spec *spec.Spec, usb0, usb1 string) {
			t.Helper()
			w.up(t, spec)
			assert.Empty(t, w.plan(t, spec))
			assert.Same(t, machine, w.guests()["wk1"], "no restart")
			assert.Equal(t, []string{usb0, usb1}, []string{w.vm(t, "wk1").Config["usb0"], w.vm(t, "wk1").Config["usb1"]})
			assert.Empty(t, w.vm(t, "wk1").Pending)
		}
		step(parse(t, usbDevices), "mapping=devs_wk1_zigbee", "mapping=devs_wk1_meter")
		assert.Equal(t, []string{"devs_wk1_meter node=pve1,id=1a86:7523,path=1-3.1", "devs_wk1_zigbee node=pve1,id=10c4:ea60", "meter2 node=pve1,id=1a86:7523,path=1-3.2"}, mappingsOf(w))
		other := replace(t, usbDevices, "{zigbee: {usb: 10C4:EA60}, meter: {usb: \"1a86:7523\", port: 1-3.1}}", "{zigbee: {usb: \"1a86:7523\", port: 1-3.1}, meter: {usb: meter2}}")
		step(parse(t, other), "mapping=devs_wk1_zigbee", "mapping=meter2")
		step(parse(t, replace(t, other, "{zigbee: {usb: \"1a86:7523\", port: 1-3.1}, meter: {usb: meter2}}", "{}")), "", "")
		assert.Equal(t, []string{"meter2 node=pve1,id=1a86:7523,path=1-3.2"}, mappingsOf(w))
	})
}

// A USB device that is not there, or another VM's, is refused.
func TestUSBDevicesThatNoNodeGets(t *testing.T) {
	for device, want := range map[string]string{
		`usb: "dead:beef"`:              "usb device 'dead:beef' not found\n  plug the device in, or correct the file: lsusb on pve1",
		`usb: "10c4:ea60", port: 1-3.1`: "'id' does not match for 'devs_wk1_stick' (1a86:7523 != 10c4:ea60)",
		`usb: "1a86:7523"`:              "belongs to VM 500 (home), by address as usb0, stopped\n  remove it from the VM, on pve1: qm set 500 --delete usb0",
		`usb: "1a86:7523", port: 1-3.2`: "belongs to VM 500 (home)",
		`usb: gone`:                     "there is no resource mapping gone of USB devices, or the token may not see it (Mapping.Use on /mapping/usb/gone); there is far, lab2_w_stick, old",
		`usb: far`:                      "mapping far has 0 devices on pve1",
		`usb: old`:                      "mapping old does not fit pve1: Invalid configuration: usb device '7-7' not found",
		`usb: "10c4:ea60"`:              "USB device 10c4:ea60 may be that of VM 500 (home), which has the one in port 1-2, by address as usb1, stopped",
		`usb: "0403:6001"`:              "belongs to cluster lab2, by its mapping lab2_w_stick",
	} {
		t.Run(device, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := workstation()
				model.VMs = append(model.VMs, pvesim.VM{ID: 500, Node: "pve1", Name: "home", Config: map[string]string{"memory": "1024", "usb0": "host=1a86:7523"}})
				if strings.Contains(want, "may be") {
					model.VMs[0].Config["usb1"] = "host=1-2"
				}
				model.Mappings = []pvesim.PCIMapping{
					{ID: "far", USB: true, Map: []string{"node=pve9,id=1a86:7523"}}, {ID: "old", USB: true, Map: []string{"node=pve1,id=1a86:7523,path=7-7"}},
					{ID: "lab2_w_stick", USB: true, Description: "made by homelab for cluster lab2", Map: []string{"node=pve1,id=0403:6001"}},
				}
				w := newWorld(t, model)
				before := mappingsOf(w)
				text := replace(t, usbDevices, "{zigbee: {usb: 10C4:EA60}, meter: {usb: \"1a86:7523\", port: 1-3.1}}", "{stick: {"+device+"}}")
				_, err := w.cluster(t, parse(t, text)).Up().Run(t.Context(), w.listen(t))
				require.ErrorContains(t, err, want)
				assert.Equal(t, before, mappingsOf(w))
			})
		})
	}
}
