package machine_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/iso9660"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
	"github.com/cps-gpu/homelab/talos/internal/machine"
)

// TestThroughTheGuestAgent: the key is read over Proxmox' API, from the kernel's log of a simulated VM, which
// gives no more of it than there is.
func TestThroughTheGuestAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := pvesim.New(pvesim.EightA100(), pvesim.Options{})
		defer sim.Close()
		id, value := sim.Token()
		ctx := t.Context()
		c, err := proxmox.Dial(ctx, proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: sim.Client()})
		require.NoError(t, err)
		vm := booted(t, c)
		read := func(ctx context.Context, count int) ([]byte, error) {
			return c.Agents.ReadStart(ctx, vm, machine.Kmsg, count)
		}

		_, err = machine.Fingerprint(ctx, read)
		require.ErrorIs(t, err, machine.ErrNoKey)
		_, text, _ := cut(said(key('k')))
		require.NoError(t, remote.WriteFile(ctx, c.Agents.Runner(vm), "/root/line", []byte(text), 0o600))
		_, err = remote.Output(ctx, c.Agents.Runner(vm), "sh", "-c", "cat /root/line >/dev/kmsg")
		require.NoError(t, err)
		before := len(sim.Requests())
		got, err := machine.Fingerprint(ctx, read)
		require.NoError(t, err)
		assert.Equal(t, key('k'), encode(got))
		for _, r := range sim.Requests()[before:] {
			assert.Equal(t, "GET", r.Method, "it changes nothing")
		}
		_, err = c.Agents.ReadStart(ctx, vm, machine.Kmsg, 1<<20)
		require.ErrorIs(t, err, proxmox.ErrShort)
		name, err := c.Agents.ReadStart(ctx, vm, "/etc/hostname", 2)
		require.NoError(t, err)
		assert.Equal(t, "cp", string(name))
	})
}

func booted(t *testing.T, c *proxmox.Client) *proxmox.VM {
	t.Helper()
	const url = "https://cloud-images.ubuntu.com/noble/current/noble-server-cloudimg-amd64.img"
	ctx := t.Context()
	image, err := guest.DefaultInternet()(url)
	require.NoError(t, err)
	volume, err := c.Storages.Fetch(ctx, "pve1", "local", proxmox.Image{URL: url, SHA256: guest.SHA256(image), FileName: "noble.qcow2"})
	require.NoError(t, err)
	disc, err := iso9660.Build("cidata", map[string][]byte{
		"meta-data": []byte("instance-id: cp1\nlocal-hostname: cp1\n"),
		"user-data": []byte("#cloud-config\npackages: [qemu-guest-agent]\nruncmd:\n- [systemctl, start, qemu-guest-agent]\n"),
	})
	require.NoError(t, err)
	seed, err := c.Storages.Upload(ctx, "pve1", "local", "cp1.iso", disc)
	require.NoError(t, err)
	vm, err := c.VMs.Create(ctx, proxmox.CreateSpec{Name: "cp1", Host: "pve1", Owner: "homelab-home", Image: volume, Storage: "vmdata", DiskSize: 16 * proxmox.GiB,
		Cores: 2, Memory: 4 * proxmox.GiB, NICs: []proxmox.NIC{{Bridge: "vmbr0"}}, Seed: seed})
	require.NoError(t, err)
	require.NoError(t, c.VMs.Start(ctx, vm))
	require.NoError(t, c.Agents.Wait(ctx, vm))
	return vm
}
