package cluster_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A card that no driver of today knows, in somebody else's VM, is nothing to ours.
func TestOldCardOfSomebodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := pvesim.OneGPU()
		model.Hosts[0].PCI = append(model.Hosts[0].PCI, pvesim.PCIDevice{
			Address: "0000:0b:00.0", ID: "10de:101e", Subsystem: "10de:095f", Class: "030200", Group: 29, Vendor: "NVIDIA Corporation", Name: "GK110GL [Tesla K20X]"})
		model.VMs = append(model.VMs, pvesim.VM{ID: 300, Node: "pve1", Name: "win11", Config: map[string]string{"hostpci0": "0000:0b:00", "memory": "4096"}})
		w := newWorld(t, model)
		spec := parse(t, small)
		w.up(t, spec)
		assert.EqualValues(t, 1, w.nodes(t)["gpu1"].Count("nvidia.com/gpu"))
		assert.Empty(t, w.plan(t, spec))
	})
}
