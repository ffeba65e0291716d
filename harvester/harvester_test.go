package harvester_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/harvester"
	"github.com/cps-gpu/homelab/proxmox/unit"
)

// TestLife: a machine with two GPUs is made, known by its console, changed, stopped by its guest, started, and removed
// with all that was made for it.
func TestLife(t *testing.T) {
	play(t, func(ctx context.Context, t *testing.T, w world) {
		w.image(ctx, t)
		s := small("a100-wk1", 21)
		s.Devices = []harvester.HostDevice{{Name: "node1-000041000", Resource: model}}
		vm := w.shape(ctx, t, s)
		assert.Equal(t, "node1", vm.Node)
		assert.ElementsMatch(t, []string{"node1-000041000", "node1-000041001"}, vm.Allocated, "its group comes along")
		keys := w.keys(ctx, t, vm)
		require.Len(t, keys, 1, w.Console("machines", "a100-wk1"))
		assert.Equal(t, w.Machine("machines", "a100-wk1").HostKey(), keys[0]+" root@simulated")
		require.NoError(t, w.c.SetHostKeys(ctx, vm, keys))
		vm, err := w.c.Get(ctx, s.Name)
		require.NoError(t, err)
		assert.Equal(t, keys, vm.KnownHostKeys())
		conn, err := w.Network().Dial(ctx, "tcp", "10.0.0.21:22")
		require.NoError(t, err)
		require.NoError(t, conn.Close())

		s.Cores, s.Memory, s.Disks[1].Size = 8, 16*unit.GiB, 200*unit.GiB
		assert.Equal(t, "cores: 4 → 8 (needs a restart); memory: 8GiB → 16GiB (needs a restart); disk/data/size: 100GiB → 200GiB", s.Diff(vm).String())
		vm = w.shape(ctx, t, s)
		assert.Empty(t, vm.Restart)
		assert.Equal(t, keys, w.keys(ctx, t, vm), "the disk is the same")

		require.NoError(t, w.Machine("machines", "a100-wk1").Shutdown())
		w.eventually(t, func() bool {
			vm, err = w.c.Get(ctx, s.Name)
			require.NoError(t, err)
			return vm.Ended && !vm.Exists
		})
		assert.Equal(t, "power: stopped → running", s.Diff(vm).String())
		vm = w.shape(ctx, t, s)

		require.NoError(t, w.c.Destroy(ctx, vm))
		time.Sleep(time.Minute)
		left, err := w.c.Leftovers(ctx)
		require.NoError(t, err)
		assert.Empty(t, left)
		for _, kind := range []string{"virtualmachines.kubevirt.io", "persistentvolumeclaims", "pcideviceclaims.devices.harvesterhci.io", "secrets"} {
			assert.Empty(t, w.Plane().Names(kind), kind)
		}
		gone, err := w.c.RemoveImage(ctx, "noble")
		require.NoError(t, err)
		assert.True(t, gone)
	})
}

// keys waits for a machine's host keys.
func (w world) keys(ctx context.Context, t *testing.T, vm *harvester.VM) (keys []string) {
	t.Helper()
	w.eventually(t, func() bool {
		var err error
		keys, err = w.c.HostKeys(ctx, vm)
		require.NoError(t, err)
		return len(keys) > 0
	})
	return keys
}
