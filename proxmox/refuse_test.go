package proxmox_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pvesim"
)

// What no clone of a template can become is refused before there is one.
func TestShapeRefusesBeforeItClones(t *testing.T) {
	model := pvesim.EightA100()
	model.VMs = append(model.VMs, pvesim.VM{ID: 300, Node: "pve1", Name: "plain", Config: map[string]string{
		"template": "1", "memory": "2048", "machine": "q35", "scsi0": "vmdata:base-300-disk-0,size=8G", "boot": "order=scsi0"}})
	bubble(t, model, pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		spec := node(t, c, "gpu1")
		spec.Template, spec.TemplateID, spec.GPUs = "", 300, []proxmox.HostPCI{{Mapping: "card", PCIe: true}}
		before, there := len(sim.Requests()), len(sim.VMs())
		err := c.Shape(t.Context(), spec, nil)
		require.ErrorContains(t, err, "firmware: seabios → ovmf")
		assert.ErrorContains(t, err, "gpu1 cannot be made from plain (VM 300 on pve1)")
		assert.Empty(t, mutations(sim, before))
		assert.Len(t, sim.VMs(), there)
	})
}
