package pci_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/proxmox/pci"
	"github.com/cps-gpu/homelab/unit"
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
