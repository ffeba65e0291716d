package pci_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/proxmox/pci"
	"github.com/cps-gpu/homelab/proxmox/unit"
)

func TestMappingDiff(t *testing.T) {
	device := pci.MappedDevice{Host: "pve1", Address: unit.PCIAddress{Bus: 0x41, Function: -1}, ID: "10de:20f1", Subsystem: "10de:145f", IOMMUGroup: 25}
	want := pci.Mapping{ID: "a100-wk-gpu1", Description: "d", Devices: []pci.MappedDevice{device}}
	assert.Equal(t, "mapping of 1 device", want.Diff(nil).String())
	have := &pci.MappingState{Mapping: want}
	assert.Empty(t, want.Diff(have))
	have.Problems = []string{"pci device '0000:41:00' not found"}
	assert.Equal(t, "hardware: pci device '0000:41:00' not found → a mapping that fits", want.Diff(have).String())
	other := device
	other.Subsystem = ""
	have.Devices = []pci.MappedDevice{other}
	assert.Equal(t, "device: node=pve1,path=0000:41:00,id=10de:20f1,iommugroup=25,subsystem-id=10de:145f; "+
		"device: node=pve1,path=0000:41:00,id=10de:20f1,iommugroup=25 → (none)", want.Diff(have).String())
}

// An entry that cannot be read is one to replace, and never a device.
func TestEntriesOfMappings(t *testing.T) {
	device := pci.MappedDevice{Host: "pve1", Address: unit.PCIAddress{Bus: 0x41, Function: -1}, ID: "10de:20f1", Subsystem: "10de:145f", IOMMUGroup: 25}
	want := pci.Mapping{ID: "card", Devices: []pci.MappedDevice{device}}
	for line, read := range map[string]pci.MappedDevice{
		device.Line():                         device,
		"node=pve1,path=41:00.1,id=10de:20f1": {Host: "pve1", Address: unit.PCIAddress{Bus: 0x41, Function: 1}, ID: "10de:20f1", IOMMUGroup: -1},
		"a,b":                                 {}, "node=pve1,path=odd": {}, "node=pve1,path=41:00;42:00": {}, "": {},
	} {
		have := &pci.MappingState{Mapping: pci.Mapping{ID: "card"}}
		have.Add(line)
		if read == (pci.MappedDevice{}) {
			assert.Empty(t, have.Devices, line)
		} else {
			assert.Equal(t, []pci.MappedDevice{read}, have.Devices, line)
		}
		same := want.Diff(have).Empty()
		assert.Equal(t, read == device, same, line)
		if !same {
			assert.Len(t, want.Diff(have), 2, "one is missing, and %q is too many", line)
		}
	}
}

// A mapping is the same whatever the order of its devices, and differs by what else is said of it.
func TestSameMapping(t *testing.T) {
	devices := []pci.MappedDevice{{Host: "pve2", IOMMUGroup: 2}, {Host: "pve1", IOMMUGroup: 1}}
	want := pci.Mapping{ID: "two", Description: "d", Devices: devices}
	have := &pci.MappingState{Mapping: pci.Mapping{ID: "two", Description: "d", Devices: []pci.MappedDevice{devices[1], devices[0]}}}
	assert.Empty(t, want.Diff(have))
	have.Description = "e"
	have.Problems = []string{"old"}
	assert.Equal(t, "description: e → d", want.Diff(have).String(), "the problem is of what changes")
	assert.Equal(t, "mapping of 2 devices", want.Diff(nil).String())
	for id, good := range map[string]bool{"a1": true, "a-b_c": true, "A_": true, "a": false, "1a": false, "a-": false, "a b": false, "": false} {
		err := pci.Mapping{ID: id, Devices: devices}.Check()
		assert.Equal(t, good, err == nil, id)
	}
}
