package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// noteOurs is the description of the lab's mappings, and noteTheirs that of another cluster's.
const noteOurs, noteTheirs = "made by homelab for cluster lab", "made by homelab for cluster other"

// gear is pve1 with a GPU on bus 1, two network cards of one kind on 2 and 3, and the disk of the host on 4.
func gear() *site {
	s := siteOf([]string{a100})
	for i, f := range []pci.Function{{Class: "020000", Vendor: "8086", Device: "1521"}, {Class: "020000", Vendor: "8086", Device: "1521"}, {Class: "010802", Vendor: "144d", Device: "a80a"}} {
		f.Address, f.IOMMUGroup = bus(i+2), 30+i
		s.devices = append(s.devices, f)
	}
	return s
}

// take adds a mapping of the network card on a bus, as homelab writes it.
func (s *site) take(id, description string, n int) *site {
	m := pci.MappingState{Mapping: pci.Mapping{ID: id, Description: description}}
	m.Devices = []pci.MappedDevice{{Host: "pve1", Address: bus(n), ID: "8086:1521", IOMMUGroup: 28 + n}}
	s.mappings = append(s.mappings, m)
	return s
}

func with(devices ...spec.Device) spec.Node {
	for i := range devices {
		devices[i].Name = fmt.Sprintf("d%d", i+1)
	}
	return spec.Node{Devices: devices}
}

// answer is what the nodes get, and why not.
func answer(shares map[string]DeviceShare) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		share := shares[name]
		if len(share.Errs) > 0 {
			share.Mappings, share.USB = nil, nil
		}
		for i, m := range share.Mappings {
			out = append(out, fmt.Sprintf("%s=%s [%s] (%s)", m.ID, m.Devices[0].Address, m.Description, share.Why[i]))
		}
		for _, m := range share.USB {
			out = append(out, fmt.Sprintf("%s=%s of %s", m.ID, m.Device, m.Host))
		}
		for _, err := range share.Errs {
			if !converge.IsPermanent(err) {
				out = append(out, "only for now:")
			}
			out = append(out, err.Error())
		}
	}
	return strings.Join(out, "\n")
}

// TestDevices: which device of the host each node gets, and what is in the way of the others.
func TestDevices(t *testing.T) {
	const nic, usable = "8086:1521", " (a device of class 020000, 8086:1521)"
	gets := func(id string, n int) string {
		return fmt.Sprintf("lab_%s=%s [%s] (%s%s)", id, bus(n), noteOurs, bus(n), usable)
	}
	disk := pci.Use{What: "the disk /dev/nvme0n1", At: &proxmox.PCIAddress{Bus: 4}}
	claim := func(s *site, name string, tags []string, n int) *site {
		s.claims = append(s.claims, pci.Claim{Host: "pve1", VMID: 104, Name: name, Tags: tags, Slot: "hostpci1", Choices: [][]proxmox.PCIAddress{{bus(n)}}})
		return s
	}
	byMapping := func(s *site, id string) *site { s.claims[0].Mapping = id; return s }
	for _, x := range []struct {
		name string
		site *site
		uses []pci.Use
		file []spec.Node
		want string
	}{
		{"by address", gear(), nil, []spec.Node{with(spec.Device{PCI: "0000:03:00.0"})}, gets("wk1_d1", 3)},
		{"by kind, the first that is free", gear(), nil, []spec.Node{with(spec.Device{PCI: nic}), with(spec.Device{PCI: nic})}, gets("wk1_d1", 2) + "\n" + gets("wk2_d1", 3)},
		{"an address comes before a kind", gear(), nil, []spec.Node{with(spec.Device{PCI: nic}), with(spec.Device{PCI: "0000:02:00.0"})},
			gets("wk1_d1", 3) + "\n" + gets("wk2_d1", 2)},
		{"what it had", gear().take("lab_wk2_d1", noteOurs, 2), nil, []spec.Node{with(spec.Device{PCI: nic}), with(spec.Device{PCI: nic})}, gets("wk1_d1", 3) + "\n" + gets("wk2_d1", 2)},
		{"not there", gear(), nil, []spec.Node{with(spec.Device{PCI: "0000:09:00.0"}, spec.Device{PCI: "1234:5678"})},
			"devices.d1 of wk1: pve1 has no PCI device 0000:09:00.0\n  lspci -Dnn on pve1 lists what is there\ndevices.d2 of wk1: pve1 has no PCI device 1234:5678\n  lspci -Dnn on pve1 lists what is there"},
		{"twice", gear(), nil, []spec.Node{with(spec.Device{PCI: "0000:02:00.0"}), with(spec.Device{PCI: "0000:02:00.0"})},
			"devices.d1 of wk1: 0000:02:00.0" + usable + " goes to another device of the file, by the mapping lab_wk2_d1\n  give each device to one node, once\n" +
				"devices.d1 of wk2: 0000:02:00.0" + usable + " goes to another device of the file, by the mapping lab_wk1_d1\n  give each device to one node, once"},
		{"all of a kind are taken", claim(claim(gear(), "win", nil, 2), "win", nil, 3), nil, []spec.Node{with(spec.Device{PCI: nic})},
			"devices.d1 of wk1: 0000:02:00.0" + usable + " belongs to VM 104 (win), by address as hostpci1, stopped\n  remove it from the VM, on pve1: qm set 104 --delete hostpci1; a node of this cluster releases it in a run without it in the file\n" +
				"devices.d1 of wk1: 0000:03:00.0" + usable + " belongs to VM 104 (win), by address as hostpci1, stopped\n  remove it from the VM, on pve1: qm set 104 --delete hostpci1; a node of this cluster releases it in a run without it in the file"},
		{"its own VM has it", claim(gear(), "wk1", []string{"homelab-lab"}, 2), nil, []spec.Node{with(spec.Device{PCI: nic})}, gets("wk1_d1", 2)},
		{"a VM of its name that is not its own", claim(gear(), "wk1", []string{"homelab-other"}, 2), nil, []spec.Node{with(spec.Device{PCI: nic})}, gets("wk1_d1", 3)},
		{"a VM that it takes over", claim(gear(), "wk1", nil, 2), nil, []spec.Node{{Adopt: true, Devices: []spec.Device{{Name: "d1", PCI: nic}}}}, gets("wk1_d1", 2)},
		{"another cluster's", gear().take("other_x", noteTheirs, 2), nil, []spec.Node{with(spec.Device{PCI: nic})}, gets("wk1_d1", 3)},
		{"another cluster's, by address", gear().take("other_x", noteTheirs, 2), nil, []spec.Node{with(spec.Device{PCI: "0000:02:00.0"})},
			"devices.d1 of wk1: 0000:02:00.0" + usable + " belongs to cluster other, by its mapping other_x\n  remove it from that cluster's file and run cluster:up there"},
		{"a mapping of its name", gear().take("lab_wk1_d1", "mine", 2), nil, []spec.Node{with(spec.Device{PCI: "0000:02:00.0"})},
			"devices.d1 of wk1: homelab did not create the resource mapping lab_wk1_d1 (its description is \"mine\")\n  write pci: lab_wk1_d1 to use it unchanged, or remove it"},
		{"a GPU", gear(), nil, []spec.Node{with(spec.Device{PCI: "0000:01:00.0"})},
			"devices.d1 of wk1: 0000:01:00.0 (GA100 [A100 PCIe 40GB], 10de:20f1) is a part of the NVIDIA GPU at 0000:01:00.0 (A100 PCIe 40GB)\n  write gpus: for it"},
		{"the host's disk", gear(), []pci.Use{disk}, []spec.Node{with(spec.Device{PCI: "0000:04:00.0"})},
			"devices.d1 of wk1: 0000:04:00.0 (a device of class 010802, 144d:a80a) is the disk /dev/nvme0n1, which pve1 uses itself\n  name another device"},
		{"perhaps the host's card", gear(), []pci.Use{{What: "the bridge vmbr0", Classes: []string{"02"}}}, []spec.Node{with(spec.Device{PCI: "0000:02:00.0"})},
			"devices.d1 of wk1: 0000:02:00.0" + usable + " may be the bridge vmbr0, which pve1 uses itself: Proxmox does not show on which device that is\n" +
				"  look on pve1: ls -l /sys/class/block /sys/class/net | grep 0000:02:00.0; if it is nothing that the host uses, make a mapping there and write its name, pci: NAME:\n" +
				"  pvesh create /cluster/mapping/pci --id NAME --map node=pve1,path=0000:02:00.0,id=8086:1521,iommugroup=30"},
		{"what it had may not be the host's", gear().take("lab_wk1_d1", noteOurs, 2), []pci.Use{{What: "the bridge vmbr0", Classes: []string{"02"}}}, []spec.Node{with(spec.Device{PCI: nic})}, gets("wk1_d1", 2)},
		{"a mapping by its name", gear().take("scanner", "", 2), nil, []spec.Node{with(spec.Device{PCI: "scanner"})}, ""},
		{"no such mapping", gear().take("scanner", "", 2).take("radio", "", 3), nil, []spec.Node{with(spec.Device{PCI: "scaner"})},
			"devices.d1 of wk1: there is no resource mapping scaner, or the token may not see it (Mapping.Use on /mapping/pci/scaner); there is scanner, radio\n  name an existing one, or the device by its address"},
		{"a mapping for one, and two want it", gear().take("scanner", "", 2), nil, []spec.Node{with(spec.Device{PCI: "scanner"}), with(spec.Device{PCI: "scanner"})},
			"devices.d1 of wk1: mapping scanner has 1 of pve1's devices, and more want one: 2 of this file\n  give the mapping more devices, or remove it from one of them\n" +
				"devices.d1 of wk2: mapping scanner has 1 of pve1's devices, and more want one: 2 of this file\n  give the mapping more devices, or remove it from one of them"},
		{"a mapping that a VM has", claim(gear().take("scanner", "", 2), "win", nil, 2), nil, []spec.Node{with(spec.Device{PCI: "scanner"})},
			"devices.d1 of wk1: mapping scanner has 1 of pve1's devices, and more want one: 1 of this file; VM 104 (win), by address as hostpci1, stopped\n  give the mapping more devices, or remove it from one of them"},
		{"a mapping of what its own VM has", claim(gear().take("scanner", "", 2), "wk1", []string{"homelab-lab"}, 2), nil, []spec.Node{with(spec.Device{PCI: "scanner"})}, ""},
		{"a mapping of what its own VM has and keeps", byMapping(claim(gear().take("scanner", "", 2), "wk1", []string{"homelab-lab"}, 2), "lab_wk1_d2"), nil,
			[]spec.Node{with(spec.Device{PCI: "scanner"}, spec.Device{PCI: "0000:02:00.0"})},
			"devices.d1 of wk1: mapping scanner has 1 of pve1's devices, and more want one: 1 of this file; VM 104 (wk1), by mapping lab_wk1_d2 as hostpci1, stopped\n  give the mapping more devices, or remove it from one of them"},
		{"a mapping of a GPU", gear().mapping("gpu", "", 1), nil, []spec.Node{with(spec.Device{PCI: "gpu"})},
			"devices.d1 of wk1: 0000:01:00.0 of mapping gpu is a part of the NVIDIA GPU at 0000:01:00.0 (A100 PCIe 40GB)\n  write gpus: {mapping: [gpu]}"},
		{"a mapping of the host's card", gear().take("scanner", "", 2), []pci.Use{{What: "the bridge vmbr0", At: &proxmox.PCIAddress{Bus: 2}}}, []spec.Node{with(spec.Device{PCI: "scanner"})},
			"devices.d1 of wk1: 0000:02:00.0" + usable + " is the bridge vmbr0, which pve1 uses itself\n  name another device"},
		{"a mapping of what may be the host's", gear().take("scanner", "", 2), []pci.Use{{What: "the bridge vmbr0", Classes: []string{"02"}}}, []spec.Node{with(spec.Device{PCI: "scanner"})}, ""},
	} {
		s := lab(x.file...)
		s.Nodes = append(s.Nodes, spec.Node{Name: "away", Host: "pve2", Devices: []spec.Device{{Name: "d1", PCI: "0000:02:00.0"}}}, spec.Node{Name: "nuc", Host: "pve1", External: true, Devices: []spec.Device{{Name: "d1", PCI: nic}}})
		assert.Equal(t, x.want, answer(Devices(s, "pve1", x.site.ledger(), x.uses, USB{})), x.name)
	}
	s := gear()
	s.devices[2].IOMMUGroup = 30
	pair := lab(with(spec.Device{PCI: "0000:02:00.0"}, spec.Device{PCI: "0000:03:00.0"}))
	assert.Equal(t, gets("wk1_d1", 2)+"\n"+gets("wk1_d2", 3), answer(Devices(pair, "pve1", s.ledger(), nil, USB{})), "a group goes to one VM")
	assert.Contains(t, answer(Devices(lab(with(spec.Device{PCI: "0000:02:00.0"})), "pve1", s.ledger(), nil, USB{})), "devices.d1 of wk1: 0000:02:00.0"+usable+" ")
	s = gear().take("scanner", "", 2).take("lab_wk1_d1", noteOurs, 3)
	s.mappings[0].Problems, s.mappings[1].Problems = []string{"the id differs", "no such device"}, []string{"the id differs"}
	assert.Equal(t, "devices.d1 of wk1: mapping scanner does not fit the hardware of pve1: the id differs; no such device\n  recreate it from what the host reports: Datacenter, Resource Mappings",
		answer(Devices(lab(with(spec.Device{PCI: "scanner"})), "pve1", s.ledger(), nil, USB{})))
	assert.Equal(t, gets("wk1_d1", 2), answer(Devices(lab(with(spec.Device{PCI: nic})), "pve1", s.ledger(), nil, USB{})), "what it had no longer fits")
}

// TestUSBDevices: the same of what is plugged in.
func TestUSBDevices(t *testing.T) {
	const radio = "10c4:ea60"
	mapping := func(id, description string, devices ...proxmox.USBDevice) proxmox.USBMappingState {
		return proxmox.USBMappingState{ID: id, Description: description, Devices: map[string][]proxmox.USBDevice{"pve1": devices}}
	}
	claimed := func(name string, d proxmox.USBDevice, tags ...string) []proxmox.USBClaim {
		return []proxmox.USBClaim{{Claim: pci.Claim{Host: "pve1", VMID: 104, Name: name, Tags: tags, Slot: "usb0"}, Device: d}}
	}
	unplugged := mapping("lab_wk1_d1", noteOurs, proxmox.USBDevice{ID: radio})
	unplugged.Problems = []string{"no such device"}
	hid := []pci.Use{{What: "the disk /dev/sdx", Classes: []string{"0106", "0c03"}}}
	const got = "lab_wk1_d1=" + radio + " of pve1"
	for _, x := range []struct {
		name string
		usb  USB
		uses []pci.Use
		file spec.Device
		want string
	}{
		{"free", USB{}, []pci.Use{{What: "the bridge vmbr0", Classes: []string{"02"}}}, spec.Device{USB: radio}, got},
		{"in a port", USB{}, nil, spec.Device{USB: radio, Port: "1-2"}, "lab_wk1_d1=" + radio + " in port 1-2 of pve1"},
		{"what it had", USB{Mappings: []proxmox.USBMappingState{mapping("lab_wk1_d1", noteOurs, proxmox.USBDevice{ID: radio})}}, hid, spec.Device{USB: radio}, got},
		{"perhaps the host's", USB{}, hid, spec.Device{USB: radio}, "devices.d1 of wk1: " + radio + " may be the disk /dev/sdx, which pve1 uses itself: Proxmox does not show which USB device that is\n" +
			"  look on pve1: lsusb -t; if it is another device, make a mapping there and write its name, usb: NAME:\n  pvesh create /cluster/mapping/usb --id NAME --map node=pve1,id=" + radio},
		{"unplugged", USB{Mappings: []proxmox.USBMappingState{unplugged}}, nil, spec.Device{USB: radio}, "devices.d1 of wk1: mapping lab_wk1_d1 does not fit pve1: no such device\n" +
			"  plug it in (lsusb on pve1 lists what is there), or remove it from the file: the machine does not start without it"},
		{"a mapping of its name", USB{Mappings: []proxmox.USBMappingState{mapping("lab_wk1_d1", "mine", proxmox.USBDevice{ID: radio})}}, nil, spec.Device{USB: radio},
			"devices.d1 of wk1: homelab did not create the resource mapping lab_wk1_d1 (its description is \"mine\")\n  write usb: lab_wk1_d1 to use it unchanged, or remove it"},
		{"another VM's", USB{Claims: claimed("win", proxmox.USBDevice{ID: radio, Port: "1-2"})}, nil, spec.Device{USB: radio},
			"devices.d1 of wk1: USB device " + radio + " belongs to VM 104 (win), by address as usb0, stopped\n" +
				"  remove it from the VM, on pve1: qm set 104 --delete usb0, or write port: for each; a node of this cluster releases it in a run without it in the file"},
		{"perhaps another VM's", USB{Claims: claimed("win", proxmox.USBDevice{Port: "1-2"})}, nil, spec.Device{USB: radio},
			"devices.d1 of wk1: USB device " + radio + " may be that of VM 104 (win), which has the one in port 1-2, by address as usb0, stopped\n  write port: and the port that it is in"},
		{"another port", USB{Claims: claimed("win", proxmox.USBDevice{ID: radio, Port: "1-2"})}, nil, spec.Device{USB: radio, Port: "1-3"}, "lab_wk1_d1=" + radio + " in port 1-3 of pve1"},
		{"another device", USB{Claims: claimed("win", proxmox.USBDevice{ID: "0000:0001"})}, nil, spec.Device{USB: radio}, got},
		{"its own VM's", USB{Claims: claimed("wk1", proxmox.USBDevice{ID: radio}, "homelab-lab")}, nil, spec.Device{USB: radio}, got},
		{"another cluster's", USB{Mappings: []proxmox.USBMappingState{mapping("other_x", noteTheirs, proxmox.USBDevice{ID: radio})}}, nil, spec.Device{USB: radio},
			"devices.d1 of wk1: USB device " + radio + " belongs to cluster other, by its mapping other_x\n  remove it from that cluster's file and run cluster:up there"},
		{"another's of another cluster", USB{Mappings: []proxmox.USBMappingState{mapping("other_x", noteTheirs, proxmox.USBDevice{ID: "0000:0001"}), mapping("x", "mine", proxmox.USBDevice{ID: radio})}}, nil, spec.Device{USB: radio}, got},
		{"a mapping by its name", USB{Mappings: []proxmox.USBMappingState{mapping("stick", "", proxmox.USBDevice{ID: radio})}}, hid, spec.Device{USB: "stick"}, ""},
		{"no such mapping", USB{}, nil, spec.Device{USB: "stick"},
			"devices.d1 of wk1: there is no resource mapping stick of USB devices, or the token may not see it (Mapping.Use on /mapping/usb/stick); there is none\n  name an existing one, or the device by its vendor and product"},
		{"a mapping of two", USB{Mappings: []proxmox.USBMappingState{mapping("stick", "", proxmox.USBDevice{ID: radio}, proxmox.USBDevice{ID: "0000:0001"})}}, nil, spec.Device{USB: "stick"},
			"devices.d1 of wk1: mapping stick has 2 devices on pve1, and Proxmox starts a VM only with one\n  give it one: Datacenter, Resource Mappings"},
		{"a mapping of what is unplugged", USB{Mappings: []proxmox.USBMappingState{unplugged}}, nil, spec.Device{USB: "lab_wk1_d1"}, "devices.d1 of wk1: mapping lab_wk1_d1 does not fit pve1: no such device\n" +
			"  plug it in (lsusb on pve1 lists what is there), or remove it from the file: the machine does not start without it"},
		{"a mapping that a VM has", USB{Mappings: []proxmox.USBMappingState{mapping("stick", "", proxmox.USBDevice{ID: radio})}, Claims: claimed("win", proxmox.USBDevice{ID: radio})}, nil, spec.Device{USB: "stick"},
			"devices.d1 of wk1: USB device " + radio + " belongs to VM 104 (win), by address as usb0, stopped\n" +
				"  remove it from the VM, on pve1: qm set 104 --delete usb0, or write port: for each; a node of this cluster releases it in a run without it in the file"},
	} {
		assert.Equal(t, x.want, answer(Devices(lab(with(x.file)), "pve1", gear().ledger(), x.uses, x.usb)), x.name)
	}
}
