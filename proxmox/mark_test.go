package proxmox_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// marked is the configuration of a small VM that is ours under that VMID, with more.
func marked(id int, more ...string) map[string]string {
	config := map[string]string{
		"memory": "2048", "smbios1": "uuid=0a0b0c0d-0000-4000-8000-000000000000", "tags": fmt.Sprintf("%s;%s_%d_0a0b0c0d", owner, owner, id),
	}
	for i := 0; i+1 < len(more); i += 2 {
		config[more[i]] = more[i+1]
	}
	return config
}

// Whatever Proxmox makes of a machine of ours under another VMID is not ours, and under
// its own only what is the same machine.
func TestTheMarkFitsNoCopy(t *testing.T) {
	model := pvesim.EightA100()
	model.Users = append(model.Users, pvesim.User{ID: "root@pam", Password: rootPassword})
	bubble(t, model, pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		ctx := t.Context()
		template(t, c)
		require.NoError(t, ensure(ctx, c, node(t, c, "cp1")))
		vm, err := c.VMs.Get(ctx, owner, "cp1")
		require.NoError(t, err)
		backup := sim.Backup(vm.VMID)
		form := url.Values{"newid": {"900"}, "name": {"cp1"}, "full": {"1"}, "storage": {"vmdata"}}
		status, body := login(t, sim).ask(t, sim, http.MethodPost, fmt.Sprintf("/nodes/pve1/qemu/%d/clone", vm.VMID), form)
		require.Equal(t, http.StatusOK, status, "%s", body)
		sim.Settle()
		sim.Restore(backup, 901, false)
		sim.Restore(backup, 902, true)
		time.Sleep(time.Minute)

		strays, err := c.VMs.Strays(ctx, owner)
		require.NoError(t, err)
		require.Len(t, strays, 3)
		for i, s := range strays {
			assert.Equal(t, []any{900 + i, "cp1"}, []any{s.VMID, s.Name})
			assert.Equal(t, fmt.Sprintf("is marked as VM %d, so it is a copy: a clone, or a backup restored to another VMID", vm.VMID), s.Reason)
			assert.Equal(t, fmt.Sprintf("qm set %d --delete tags", s.VMID), s.UntagCommand(owner))
		}
		same, err := c.VMs.Get(ctx, owner, "cp1")
		require.NoError(t, err)
		assert.Equal(t, vm.Identity(), same.Identity())
		before := len(sim.Requests())
		for id := 900; id < 903; id++ {
			other, err := c.VMs.GetByID(ctx, id)
			require.NoError(t, err)
			other.Owner = owner
			require.ErrorContains(t, c.VMs.Remove(ctx, other), "not removed")
			gone, err := c.VMs.GetFromSummary(ctx, owner, proxmox.Summary{Name: "cp1", VMID: id})
			require.NoError(t, err)
			assert.Nil(t, gone)
		}
		assert.Empty(t, mutations(sim, before))

		// Under its own VMID: the backup is the machine, one with a new UUID is another.
		require.NoError(t, c.VMs.Remove(ctx, vm))
		sim.Restore(backup, vm.VMID, true)
		time.Sleep(time.Minute)
		var conflict *proxmox.ConflictError
		require.ErrorAs(t, c.VMs.NameConflict(ctx, owner, "cp1"), &conflict)
		assert.True(t, conflict.Tagged)
		require.ErrorContains(t, c.VMs.Remove(ctx, vm), "not removed")
		unmade := vm
		_, err = c.VMs.Refresh(ctx, unmade)
		require.ErrorContains(t, err, "is no longer the machine cp1: it has another UUID")
		require.ErrorContains(t, c.VMs.Shape(ctx, node(t, c, "cp1"), vm), "it has another UUID")
		login(t, sim).ask(t, sim, http.MethodDelete, fmt.Sprintf("/nodes/pve1/qemu/%d", vm.VMID), nil)
		sim.Settle()
		sim.Restore(backup, vm.VMID, false)
		time.Sleep(time.Minute)
		back, err := c.VMs.Get(ctx, owner, "cp1")
		require.NoError(t, err)
		require.NotNil(t, back)
		require.NoError(t, c.VMs.Remove(ctx, back))
	})
}

// A clone that was begun and not configured is known by its notes, which name its VMID.
func TestAHalfMadeCopyIsNotOurs(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		ctx := t.Context()
		template(t, c)
		fault := sim.Fail(pvesim.Rule{Method: http.MethodPut, Path: ".*/config", Status: 500, Message: "stopped here"})
		spec := node(t, c, "cp1")
		require.ErrorContains(t, ensure(ctx, c, spec), "stopped here")
		fault.Remove()
		time.Sleep(time.Minute)
		half, err := c.VMs.Get(ctx, owner, "cp1")
		require.NoError(t, err)
		require.NotNil(t, half)
		assert.True(t, half.Unfinished)
		sim.Restore(sim.Backup(half.VMID), 900, false)
		time.Sleep(time.Minute)
		all, err := c.VMs.List(ctx, owner)
		require.NoError(t, err)
		assert.Len(t, all, 2, "the template, and the one that was begun")
		require.NoError(t, ensure(ctx, c, spec))
		for _, vm := range sim.VMs() {
			if vm.ID == 900 {
				assert.Contains(t, vm.Config["description"], "Unfinished")
			}
		}
	})
}

func TestUntag(t *testing.T) {
	for want, tags := range map[string][]string{
		"qm set 900 --delete tags": {owner, owner + "_104_0a0b0c0d"},
		"qm set 900 --tags mine":   {owner, "mine"},
		"qm set 900 --tags 'homelab-a100-2_104_0a0b0c0d;homelab-a100_x_0a0b0c0d'": {owner, "homelab-a100-2_104_0a0b0c0d", "homelab-a100_x_0a0b0c0d"},
	} {
		assert.Equal(t, want, proxmox.Stray{Summary: proxmox.Summary{VMID: 900, Tags: tags}}.UntagCommand(owner))
	}
}
