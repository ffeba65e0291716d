package harvester_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
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
		require.Len(t, keys, 1, w.Console(ctx, "machines", "a100-wk1"))
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

// TestTwoOfOneModel: devices are counted by their model, so a machine takes another's if that is off, and no more than
// there are; the ledger says who has what, and no claim of another machine is removed.
func TestTwoOfOneModel(t *testing.T) {
	play(t, func(ctx context.Context, t *testing.T, w world) {
		w.image(ctx, t)
		one, two, third := small("a100-wk1", 21), small("a100-wk2", 22), small("a100-wk3", 23)
		one.Devices = []harvester.HostDevice{{Name: "node1-000081000", Resource: model}}
		two.Devices = []harvester.HostDevice{{Name: "node1-000041000", Resource: model}}
		third.Devices = one.Devices
		a := w.shape(ctx, t, one)
		b := w.shape(ctx, t, two)
		err := w.c.Shape(ctx, third, nil)
		require.ErrorContains(t, err, "is claimed by cluster a100 for machine machines/a100-wk1")
		all, err := w.c.Devices(ctx)
		require.NoError(t, err)
		users := map[string]string{}
		for _, d := range all {
			assert.True(t, d.Claimed && d.Enabled && !d.Free(), d.Name)
			assert.Equal(t, d.Name != "node1-000041001", d.IsGPU())
			users[d.Name] = d.UsedBy
		}
		assert.Equal(t, w.DeviceNames(), users)

		require.NoError(t, w.c.Stop(ctx, a))
		require.NoError(t, w.c.Stop(ctx, b))
		b, err = w.c.Get(ctx, two.Name)
		require.NoError(t, err)
		require.NoError(t, w.c.Start(ctx, b))
		w.eventually(t, func() bool { b, err = w.c.Get(ctx, two.Name); require.NoError(t, err); return b.Running })
		a = w.shape(ctx, t, one)
		assert.Empty(t, two.Diff(b))
		require.NoError(t, w.c.Destroy(ctx, a))
		require.NoError(t, w.c.Destroy(ctx, b))
		left, err := w.c.Leftovers(ctx)
		require.NoError(t, err)
		for _, l := range left {
			require.NoError(t, w.c.Clear(ctx, l.Machine))
		}
		time.Sleep(time.Minute)
		assert.Empty(t, w.Plane().Names("pcideviceclaims.devices.harvesterhci.io"))
	})
}

// TestCheck: all problems at once.
func TestCheck(t *testing.T) {
	play(t, func(ctx context.Context, t *testing.T, w world) {
		w.image(ctx, t)
		w.strangers(ctx, t)
		good := small("a100-wk1", 21)
		good.Devices = []harvester.HostDevice{{Name: "node1-000041000", Resource: model}}
		found, err := w.c.Check(ctx, harvester.Requirements{Machines: []harvester.VMSpec{good}, Images: []harvester.ImageSpec{noble(), {Name: "new", URL: imageURL}}})
		require.NoError(t, err)
		assert.Empty(t, found)

		bad := small("copy", 22)
		bad.NICs[0].Network, bad.Disks[1].StorageClass, bad.Image, bad.Memory = "nowhere", "none", "unknown", 1024*unit.GiB
		bad.Devices = []harvester.HostDevice{{Name: "node1-000081000", Resource: model}, {Name: "node9", Resource: model}}
		found, err = w.c.Check(ctx, harvester.Requirements{Machines: []harvester.VMSpec{bad}, Images: []harvester.ImageSpec{{Name: "noble", URL: "https://another"}}})
		require.NoError(t, err)
		var texts []string
		for _, f := range found {
			texts = append(texts, f.ID+": "+f.Evidence)
			assert.NotEmpty(t, f.Cure)
		}
		assert.Equal(t, []string{
			"network: there is no network machines/nowhere",
			"storage: there is no storage class none",
			"image: image machines/noble is another one: it is from " + imageURL,
			"image: there is no image machines/unknown",
			"machine: virtualmachine machines/copy exists and is not ours",
			"devices: machine machines/copy: device node1 0000:81:00.0 (3D controller: NVIDIA Corporation GA100 [A100 PCIe 80GB]) is machine machines/b200-wk1's",
			"devices: machine machines/copy: there is no PCI device node9: its node may be away",
			"capacity: machine copy with 1TiB of memory does not fit on node1, which has 512Gi left of what it gives to machines",
		}, texts)
		err = w.c.Shape(ctx, bad, nil)
		require.Error(t, err)
	})
}

// TestLease: of two runs one gets the lease, and only over what it has read.
func TestLease(t *testing.T) {
	play(t, func(ctx context.Context, t *testing.T, w world) {
		a, b := w.c.Lease(), harvester.New(clientOf(t, w.Sim, nil), "machines", "a100").Lease()
		_, err := a.Read(ctx)
		require.ErrorIs(t, err, converge.ErrNoLease)
		require.NoError(t, a.Create(ctx, "holder: a"))
		require.ErrorIs(t, b.Create(ctx, "holder: b"), converge.ErrLeaseExists)
		seen, err := b.Read(ctx)
		require.NoError(t, err)
		assert.Equal(t, "holder: a", seen.Text)
		require.NoError(t, b.Replace(ctx, seen, "holder: b"))
		require.ErrorIs(t, a.Replace(ctx, seen, "holder: a"), converge.ErrLeaseStale)
		require.ErrorIs(t, a.Remove(ctx, seen), converge.ErrLeaseStale)
		now, err := a.Read(ctx)
		require.NoError(t, err)
		require.NoError(t, a.Remove(ctx, now))
		require.NoError(t, a.Remove(ctx, now))
		require.ErrorIs(t, a.Replace(ctx, now, "x"), converge.ErrLeaseStale)
		assert.Equal(t, "lease machines/homelab-a100", a.String())
	})
}

// TestTwoAtOnce: of two clients that make one machine, both end with it.
func TestTwoAtOnce(t *testing.T) {
	play(t, func(ctx context.Context, t *testing.T, w world) {
		w.image(ctx, t)
		s := halted()
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				c := harvester.New(clientOf(t, w.Sim, nil), "machines", "a100")
				_ = once(ctx, c, &s) // the slower one is told so
			})
		}
		all.Wait()
		finish(ctx, t, w, &s)
		assert.Equal(t, []string{"machines/a100-wk1"}, w.Plane().Names("virtualmachines.kubevirt.io"))
		assert.Len(t, w.Plane().Names("pcideviceclaims.devices.harvesterhci.io"), 2)
	})
}

// TestImages: one that fails says so, one of another URL is refused, and one in use stays.
func TestImages(t *testing.T) {
	play(t, func(ctx context.Context, t *testing.T, w world) {
		w.image(ctx, t)
		_, err := w.c.EnsureImage(ctx, harvester.ImageSpec{Name: "noble", URL: "https://another"})
		require.ErrorContains(t, err, "an image never changes")
		bad := noble()
		bad.Name, bad.Checksum = "bad", "00"
		w.eventually(t, func() bool { _, err = w.c.EnsureImage(ctx, bad); return err != nil })
		require.ErrorContains(t, err, "cannot be imported: the expected checksum 00")
		s := halted()
		finish(ctx, t, w, &s)
		gone, err := w.c.RemoveImage(ctx, "noble")
		require.NoError(t, err)
		assert.False(t, gone)
	})
}

// TestDiff: what each change takes, of a machine that runs.
func TestDiff(t *testing.T) {
	play(t, func(ctx context.Context, t *testing.T, w world) {
		w.image(ctx, t)
		vm := w.shape(ctx, t, small("a100-wk1", 21))
		for name, x := range map[string]struct {
			change func(s *harvester.VMSpec)
			want   string
		}{
			"shrunk":      {func(s *harvester.VMSpec) { s.Disks[1].Size = unit.GiB }, "disk/data/size: 100GiB → 1GiB (needs a replacement) [disks never shrink]"},
			"image":       {func(s *harvester.VMSpec) { s.Image = "trixie" }, "image: machines/noble → trixie (needs a replacement)"},
			"firmware":    {func(s *harvester.VMSpec) { s.SecureBoot = true }, "firmware: EFI → EFI with secure boot (needs a replacement)"},
			"description": {func(s *harvester.VMSpec) { s.Description = "x" }, "description: a machine of a100 → x"},
			"tag":         {func(s *harvester.VMSpec) { s.Tags = map[string]string{"pool": "gpu"} }, "tag/pool: \"\" → gpu"},
			"network":     {func(s *harvester.VMSpec) { s.NICs[0].MAC = "52:54:00:00:00:99" }, "net0: machines/lab 52:54:00:00:00:15 → machines/lab 52:54:00:00:00:99 (needs a restart)"},
			"one more":    {func(s *harvester.VMSpec) { s.Disks = append(s.Disks, harvester.Disk{Name: "more", Size: unit.GiB}) }, "disk/more: 1GiB (needs a restart)"},
			"user data":   {func(s *harvester.VMSpec) { s.UserData = []byte("x") }, ""},
		} {
			s := small("a100-wk1", 21)
			x.change(&s)
			assert.Equal(t, x.want, s.Diff(vm).String(), name)
			if s.Diff(vm).Effect() == converge.Replace {
				require.ErrorContains(t, w.c.Shape(ctx, s, vm), "is not changed but replaced", name)
			}
		}
	})
}
