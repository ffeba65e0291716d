package proxmox_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/proxmox"
)

func TestMappingDiff(t *testing.T) {
	device := proxmox.MappedDevice{Host: "pve1", Address: must(proxmox.ParsePCIAddress("41:00")), ID: "10de:20f1", Subsystem: "10de:145f", IOMMUGroup: 25}
	want := proxmox.Mapping{ID: "a100-wk-gpu1", Description: "d", Devices: []proxmox.MappedDevice{device}}
	assert.Equal(t, "mapping of 1 device", want.Diff(nil).String())
	have := &proxmox.MappingState{Mapping: want}
	assert.Empty(t, want.Diff(have))
	have.Problems = []string{"pci device '0000:41:00' not found"}
	assert.Equal(t, "hardware: pci device '0000:41:00' not found → a mapping that fits", want.Diff(have).String())
	other := device
	other.Subsystem = ""
	have.Devices = []proxmox.MappedDevice{other}
	assert.Equal(t, "device: node=pve1,path=0000:41:00,id=10de:20f1,iommugroup=25,subsystem-id=10de:145f; "+
		"device: node=pve1,path=0000:41:00,id=10de:20f1,iommugroup=25 → (none)", want.Diff(have).String())
}
