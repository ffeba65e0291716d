package proxmox_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/sim/pvesim"
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
		err := c.VMs.Shape(t.Context(), spec, nil)
		require.ErrorContains(t, err, "firmware: seabios → ovmf")
		assert.ErrorContains(t, err, "gpu1 cannot be made from plain (VM 300 on pve1)")
		assert.Empty(t, mutations(sim, before))
		assert.Len(t, sim.VMs(), there)
	})
}

// A host that does not answer hides which of its VMs are which: who has none of ours
// does not matter, and of one that has some nothing is guessed.
func TestAHostThatDoesNotAnswer(t *testing.T) {
	copied := marked(300)["tags"] // of which one can say without asking that it is not ours
	for _, tags := range []string{"somebody", owner, copied, marked(301)["tags"]} {
		model := pvesim.TwoHosts()
		model.VMs = append(model.VMs, pvesim.VM{ID: 300, Node: "pve1", Name: "cp1", Config: marked(300)},
			pvesim.VM{ID: 301, Node: "pve2", Name: "other", Config: map[string]string{"memory": "1024", "tags": tags}})
		bubble(t, model, pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
			sim.Fail(pvesim.Rule{Method: "GET", Path: ".*/nodes/pve2/qemu", Status: 595, Message: "No route to host", Times: -1})
			vm, err := c.VMs.Get(t.Context(), owner, "cp1")
			all, listErr := c.VMs.List(t.Context(), owner)
			if tags != "somebody" && tags != copied {
				const want = "VM 301 cannot be identified: its host pve2 does not answer: proxmox: GET /nodes/pve2/qemu: No route to host (status 595)"
				assert.ErrorContains(t, err, want)
				assert.ErrorContains(t, listErr, want)
				return
			}
			require.NoError(t, err)
			require.NotNil(t, vm)
			assert.Equal(t, 300, vm.VMID)
			require.NoError(t, listErr)
			assert.Len(t, all, 1)
		})
	}
}
