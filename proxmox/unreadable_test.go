package proxmox_test

import (
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A VM whose configuration cannot be read may use anything: a mapping is not rewritten under it, and a
// volume is not attached beside it. Each of the two says which VM that is.
func TestAnUnreadableVMMayUseAnything(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		sim.AddMapping("gpu", "", "node=pve1,path=0000:41:00,id=10de:20f1")
		rootCommand(t, sim, http.MethodPost, "/nodes/pve1/storage/vmdata/content", url.Values{"vmid": {"900"}, "filename": {"vm-900-disk-0"}, "size": {"1G"}})
		spec := proxmox.VMSpec{Name: "cp1", Host: "pve1", Owner: owner, Disks: []proxmox.Disk{{Slot: "scsi1", Volume: "vmdata:vm-900-disk-0"}}}
		problems, err := c.Storages.VolumeProblems(t.Context(), spec, nil, "")
		require.NoError(t, err)
		require.Empty(t, problems)

		sim.Fail(pvesim.Rule{Method: http.MethodGet, Path: ".*/qemu/100/(config|pending)", Times: -1, Status: http.StatusInternalServerError, Message: "unable to parse"})
		c = dialSim(t, sim) // without what the other one has read
		problems, err = c.Storages.VolumeProblems(t.Context(), spec, nil, "")
		require.NoError(t, err)
		require.Len(t, problems, 1)
		require.ErrorContains(t, problems[0], "whether volume vmdata:vm-900-disk-0 is free cannot be seen: VM 100 ")
		require.ErrorContains(t, problems[0], "unable to parse")

		before := len(sim.Requests())
		device := pci.MappedDevice{Host: "pve1", Address: must(proxmox.ParsePCIAddress("42:00")), ID: "10de:20f1", IOMMUGroup: -1}
		err = c.PCI.EnsureMapping(t.Context(), pci.Mapping{ID: "gpu", Devices: []pci.MappedDevice{device}})
		require.ErrorContains(t, err, "since VM 100 on pve1 may use it")
		assert.Empty(t, mutations(sim, before))
	})
}

// A VM that does not shut down keeps its configuration, and one that was off before a change that
// failed is off after it.
func TestAChangeThatFailsLeavesThePower(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		spec := node(t, c, "cp1")
		vm, err := c.VMs.Ensure(t.Context(), spec)
		require.NoError(t, err)
		path := fmt.Sprintf("/nodes/pve1/qemu/%d", vm.VMID)

		spec.NICs[0].Queues = 8
		before := len(sim.Requests())
		var stuck atomic.Bool
		stuck.Store(true)
		sim.Fail(pvesim.Rule{Path: ".*/status/(shutdown|stop)", Mutating: true, Times: -1, Status: http.StatusForbidden, Message: "Permission check failed",
			When: func(pvesim.Request) bool { return stuck.Load() }})
		require.ErrorContains(t, ensure(t.Context(), c, spec), "Permission check failed")
		assert.NotContains(t, mutations(sim, before), "PUT "+path+"/config")
		stuck.Store(false)

		require.NoError(t, c.VMs.Stop(t.Context(), vm))
		before = len(sim.Requests())
		sim.Fail(pvesim.Rule{Path: ".*/config", Mutating: true, Status: http.StatusInternalServerError, Message: "no space left on device", Times: -1})
		require.ErrorContains(t, ensure(t.Context(), c, spec), "no space left")
		assert.NotContains(t, mutations(sim, before), "POST "+path+"/status/start")
	})
}
