package proxmox_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// What a clone has beside its template: NUMA nodes, and a TPM of its own.
func TestHardwareOfAClone(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		spec := node(t, c, "cp1")
		spec.NUMA, spec.TPM = true, true
		spec.NUMANodes = []proxmox.NUMANode{
			{CPUs: "0-1", Memory: 8 * proxmox.GiB, HostNodes: "0", Policy: "bind"}, {CPUs: "2-3", Memory: 8 * proxmox.GiB, HostNodes: "1", Policy: "bind"},
		}
		require.NoError(t, ensure(t.Context(), c, spec))
		vm, err := c.VMs.Get(t.Context(), owner, "cp1")
		require.NoError(t, err)
		assert.True(t, vm.TPM)
		assert.Equal(t, spec.NUMANodes[1], vm.NUMANodes["numa1"])

		spec.NUMANodes = spec.NUMANodes[:1]
		spec.NUMANodes[0] = proxmox.NUMANode{CPUs: "0-3", Memory: 16 * proxmox.GiB}
		assert.Equal(t, "numa0: cpus=0-1,hostnodes=0,memory=8192,policy=bind → cpus=0-3,memory=16384 (needs a restart); "+
			"numa1: cpus=2-3,hostnodes=1,memory=8192,policy=bind → none (needs a restart)", spec.Diff(vm).String())
		require.NoError(t, ensure(t.Context(), c, spec))
	})
}

// A template of somebody else's may lack what a GPU or Ubuntu's kernel needs.
func TestHardwareThatIsMissing(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		spec := node(t, c, "cp1")
		spec.Running = false
		require.NoError(t, ensure(t.Context(), c, spec))
		vm, err := c.VMs.Get(t.Context(), owner, "cp1")
		require.NoError(t, err)
		status, body := rootTicket{}.ask(t, sim, http.MethodPut, fmt.Sprintf("/nodes/pve1/qemu/%d/config", vm.VMID), url.Values{"delete": {"serial0,efidisk0"}, "machine": {"pc"}})
		require.Equal(t, http.StatusOK, status, "%s", body)
		vm, err = c.VMs.Get(t.Context(), owner, "cp1")
		require.NoError(t, err)
		spec.GPUs = []proxmox.HostPCI{{Mapping: "card", PCIe: true}}
		assert.Equal(t, "machine: pc → q35; efidisk0: none → on vmdata; serial0: none → socket; hostpci0: none → card pcie", spec.Diff(vm).String())
		require.NoError(t, ensure(t.Context(), c, spec))

		on := true
		spec.SecureBoot = &on
		vm, err = c.VMs.Get(t.Context(), owner, "cp1")
		require.NoError(t, err)
		assert.Equal(t, converge.Replace, spec.Diff(vm).Effect())
		assert.Contains(t, spec.Diff(vm).String(), "secure boot: off → on (needs a replacement)")
		vm.BIOS = "seabios"
		assert.Contains(t, spec.Diff(vm).String(), "firmware: seabios → ovmf (needs a replacement)")
	})
}

// What Proxmox would change under a running guest is changed while the VM is off, and
// the VM runs again even when that fails.
func TestChangesWhileOff(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		spec := node(t, c, "cp1")
		require.NoError(t, ensure(t.Context(), c, spec))
		vm, err := c.VMs.Get(t.Context(), owner, "cp1")
		require.NoError(t, err)
		path := fmt.Sprintf("/nodes/pve1/qemu/%d", vm.VMID)
		spec.NICs[0].Queues, spec.NICs[0].MTU = 8, 1400
		before := len(sim.Requests())
		require.NoError(t, ensure(t.Context(), c, spec))
		assert.Equal(t, []string{"POST " + path + "/status/shutdown", "PUT " + path + "/config", "POST " + path + "/status/start"}, mutations(sim, before))

		spec.NICs[0].Queues = 2
		sim.Fail(pvesim.Rule{Path: ".*/config", Mutating: true, Status: 500, Message: "no space left on device", Times: -1})
		require.ErrorContains(t, ensure(t.Context(), c, spec), "no space left")
		vm, err = c.VMs.Get(t.Context(), owner, "cp1")
		require.NoError(t, err)
		assert.True(t, vm.Running)
	})
}
