package proxmox_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
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
		vm, err := c.VM(ctx, owner, "cp1")
		require.NoError(t, err)
		backup := sim.Backup(vm.VMID)
		form := url.Values{"newid": {"900"}, "name": {"cp1"}, "full": {"1"}, "storage": {"vmdata"}}
		status, body := login(t, sim).ask(t, sim, http.MethodPost, fmt.Sprintf("/nodes/pve1/qemu/%d/clone", vm.VMID), form)
		require.Equal(t, http.StatusOK, status, "%s", body)
		sim.Settle()
		sim.Restore(backup, 901, false)
		sim.Restore(backup, 902, true)
		time.Sleep(time.Minute)

		strays, err := c.Strays(ctx, owner)
		require.NoError(t, err)
		require.Len(t, strays, 3)
		for i, s := range strays {
			assert.Equal(t, []any{900 + i, "cp1"}, []any{s.VMID, s.Name})
			assert.Equal(t, fmt.Sprintf("is marked as VM %d, so it is a copy: a clone, or a backup restored to another VMID", vm.VMID), s.Why)
			assert.Equal(t, fmt.Sprintf("qm set %d --delete tags", s.VMID), s.Untag(owner))
		}
		same, err := c.VM(ctx, owner, "cp1")
		require.NoError(t, err)
		assert.Equal(t, vm.Identity(), same.Identity())
		before := len(sim.Requests())
		for id := 900; id < 903; id++ {
			other, err := c.ByID(ctx, id)
			require.NoError(t, err)
			other.Owner = owner
			require.ErrorContains(t, c.Remove(ctx, other), "not removed")
			gone, err := c.Listed(ctx, owner, proxmox.Summary{Name: "cp1", VMID: id})
			require.NoError(t, err)
			assert.Nil(t, gone)
		}
		assert.Empty(t, mutations(sim, before))

		// Under its own VMID: the backup is the machine, one with a new UUID is another.
		require.NoError(t, c.Remove(ctx, vm))
		sim.Restore(backup, vm.VMID, true)
		time.Sleep(time.Minute)
		var conflict *proxmox.ConflictError
		require.ErrorAs(t, c.Conflict(ctx, owner, "cp1"), &conflict)
		assert.True(t, conflict.Tagged)
		require.ErrorContains(t, c.Remove(ctx, vm), "not removed")
		unmade := vm
		_, err = c.Refresh(ctx, unmade)
		require.ErrorContains(t, err, "is no longer the machine cp1: it has another UUID")
		require.ErrorContains(t, c.Shape(ctx, node(t, c, "cp1"), vm), "it has another UUID")
		login(t, sim).ask(t, sim, http.MethodDelete, fmt.Sprintf("/nodes/pve1/qemu/%d", vm.VMID), nil)
		sim.Settle()
		sim.Restore(backup, vm.VMID, false)
		time.Sleep(time.Minute)
		back, err := c.VM(ctx, owner, "cp1")
		require.NoError(t, err)
		require.NotNil(t, back)
		require.NoError(t, c.Remove(ctx, back))
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
		half, err := c.VM(ctx, owner, "cp1")
		require.NoError(t, err)
		require.NotNil(t, half)
		assert.True(t, half.Unfinished)
		sim.Restore(sim.Backup(half.VMID), 900, false)
		time.Sleep(time.Minute)
		all, err := c.VMs(ctx, owner)
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

// A VM of an earlier version has no mark. Where the address of its interface is told, and
// no other could be meant, it is ours, and is given one.
func TestRecognise(t *testing.T) {
	config := func(mac string) map[string]string {
		return map[string]string{"memory": "2048", "tags": owner, "net0": "virtio=" + mac + ",bridge=vmbr0"}
	}
	model := pvesim.EightA100()
	for id, mac := range map[int]string{300: "02:00:00:00:00:01", 301: "02:00:00:00:00:02", 302: "02:00:00:00:00:03", 303: "02:00:00:00:00:03", 304: "02:00:00:00:00:04"} {
		model.VMs = append(model.VMs, pvesim.VM{ID: id, Node: "pve1", Name: []string{"wk1", "wk2", "wk3", "wk3", "wk4"}[id-300], Config: config(mac)})
	}
	bubble(t, model, pvesim.Options{}, func(t *testing.T, _ *pvesim.Sim, c *proxmox.Client) {
		ctx := t.Context()
		all, err := c.VMs(ctx, owner)
		require.NoError(t, err)
		assert.Empty(t, all)
		known := map[string]string{"wk1": "02:00:00:00:00:01", "wk2": "02:00:00:00:00:FF", "wk3": "02:00:00:00:00:03"}
		c.Recognise(owner, func(name string) string { return known[name] })
		all, err = c.VMs(ctx, owner)
		require.NoError(t, err)
		require.Len(t, all, 1, "wk2 has another address, wk3 is there twice, nobody knows wk4")
		assert.Equal(t, 300, all[0].VMID)
		strays, err := c.Strays(ctx, owner)
		require.NoError(t, err)
		assert.Len(t, strays, 4)
		for name, there := range map[string]bool{"wk1": true, "wk2": false, "wk3": false, "wk4": false} {
			vm, err := c.VM(ctx, owner, name)
			require.NoError(t, err)
			assert.Equal(t, there, vm != nil, name)
		}
		vm, err := c.VM(ctx, owner, "wk1")
		require.NoError(t, err)
		assert.NotContains(t, vm.Tags, owner+"_300_", "not yet")
		require.NoError(t, c.Remove(ctx, vm))
	})
}

func TestUntag(t *testing.T) {
	for want, tags := range map[string][]string{
		"qm set 900 --delete tags": {owner, owner + "_104_0a0b0c0d"},
		"qm set 900 --tags mine":   {owner, "mine"},
		"qm set 900 --tags 'homelab-a100-2_104_0a0b0c0d;homelab-a100_x_0a0b0c0d'": {owner, "homelab-a100-2_104_0a0b0c0d", "homelab-a100_x_0a0b0c0d"},
	} {
		assert.Equal(t, want, proxmox.Stray{Summary: proxmox.Summary{VMID: 900, Tags: tags}}.Untag(owner))
	}
}

// What an earlier version left half-made is called that only while nothing shows that
// somebody uses it: its copies have its notes, too, and the advice is to destroy it.
func TestWhatIsInUseIsNotCalledHalfMade(t *testing.T) {
	const notes = "Unfinished: this VM is being made for " + owner + "."
	for what, x := range map[string]struct {
		change    pvesim.VM
		abandoned bool
	}{
		"as it was left": {abandoned: true},
		"it runs":        {change: pvesim.VM{Running: true}},
		"a mark":         {change: pvesim.VM{Config: map[string]string{"tags": owner + ";" + owner + "_102_0a0b0c0d"}}},
		"it keeps data":  {change: pvesim.VM{Config: map[string]string{"tags": owner + ";keeps-data"}}},
		"a GPU":          {change: pvesim.VM{Config: map[string]string{"hostpci0": "mapping=a100"}}},
		"more disks":     {change: pvesim.VM{Config: map[string]string{"scsi0": "vmdata:vm-900-disk-0,size=4G", "scsi1": "vmdata:vm-900-disk-1,size=4G"}}},
		"a snapshot":     {change: pvesim.VM{Config: map[string]string{"parent": "before"}}},
		"it sleeps":      {change: pvesim.VM{Config: map[string]string{"vmstate": "vmdata:vm-900-state-suspend"}}},
	} {
		bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
			x.change.ID, x.change.Node, x.change.Name = 900, "pve1", "cp1"
			config := map[string]string{"memory": "1024", "tags": owner, "description": notes}
			maps.Copy(config, x.change.Config)
			x.change.Config = config
			sim.AddVM(x.change)
			time.Sleep(time.Minute)
			strays, err := c.Strays(t.Context(), owner)
			require.NoError(t, err)
			require.Len(t, strays, 1, what)
			assert.Equal(t, x.abandoned, strays[0].Clear() != "", what)
			var other *proxmox.ConflictError
			require.ErrorAs(t, c.Conflict(t.Context(), owner, "cp1"), &other, what)
			assert.Equal(t, x.abandoned, other.Abandoned, what)
			for _, said := range []string{strays[0].Why, other.Error()} {
				assert.Equal(t, x.abandoned, strings.Contains(said, "interrupted while it created the VM"), "%s: %s", what, said)
			}
			assert.Equal(t, x.abandoned, strings.Contains(other.Error(), "qm destroy 900"), what)
		})
	}
}
