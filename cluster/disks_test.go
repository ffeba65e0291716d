package cluster_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/proxmox/pvesim"
)

const oneDisk = `
name: disks
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
  wk:
    count: 1
    addresses: [10.0.0.21]
    disks:
      scratch: {size: 100GiB, mount: /scratch}
`

// A disk comes to a node that lives, grows and goes again, without a restart, and is
// never taken for another.
func TestDisksOfALivingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		defer w.close()
		w.up(t, parse(t, oneDisk))
		machine := w.guests()["wk1"]
		require.NoError(t, machine.Disk().WriteFile("/root/kept", []byte("x"), 0o600))
		step := func(yaml string) (*cluster.Spec, changes) {
			t.Helper()
			spec := parse(t, yaml)
			before := w.now()
			w.up(t, spec)
			assert.Empty(t, w.plan(t, spec))
			assert.Same(t, machine, w.guests()["wk1"], "no restart")
			return spec, before.changes()
		}
		fstab := func() string {
			b, err := machine.Disk().ReadFile("/etc/fstab")
			require.NoError(t, err)
			return string(b)
		}
		const device = "/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_"

		// One more, before the other in the file.
		more := replace(t, oneDisk, "      scratch:", "      models: {size: 200GiB, mount: /models, fs: xfs}\n      scratch:")
		_, did := step(more)
		assert.Equal(t, []string{"wk1: mkfs " + device + "models", "wk1: file /models", "wk1: file /etc/fstab", "wk1: mount /models"}, did.Guests)
		assert.Contains(t, fstab(), device+"models /models xfs defaults,nofail,discard 0 2\n")
		assert.Contains(t, w.vm(t, "wk1").Config["scsi1"], "serial=scratch", "it stays where it is")
		assert.Contains(t, w.vm(t, "wk1").Config["scsi2"], "serial=models")

		// Larger.
		larger := replace(t, more, "200GiB", "300GiB")
		_, did = step(larger)
		assert.Equal(t, []string{"wk1: xfs_growfs /models"}, did.Guests)

		// Smaller is refused, with the way out.
		c := w.cluster(t, parse(t, oneDisk))
		_, err := w.cluster(t, parse(t, replace(t, larger, "300GiB", "100GiB"))).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "Proxmox does not shrink disks")
		require.ErrorContains(t, err, "go tool mage node:replace -node=wk1")
		c.Close()

		// The first one goes: its volume is kept, and the other one is not touched.
		gone := strings.Replace(larger, "      scratch: {size: 100GiB, mount: /scratch}\n", "", 1)
		_, did = step(gone)
		assert.Equal(t, []string{"wk1: umount /scratch", "wk1: file /etc/fstab.new", "wk1: file /etc/fstab", "wk1: file /etc/fstab.new"}, did.Guests)
		assert.NotContains(t, fstab(), "scratch")
		config := w.vm(t, "wk1").Config
		assert.Empty(t, config["scsi1"])
		assert.Contains(t, config["unused0"], "vmdata:")
		assert.Contains(t, config["scsi2"], "serial=models")

		// What was kept is not thrown away with the machine, unless that is asked for.
		var no *cluster.RefusedError
		require.ErrorAs(t, w.verb(t, parse(t, gone), replaced(t.Context(), "wk1", false)), &no)
		assert.Contains(t, no.Error(), "disk models (300GiB), the unused disk vmdata:")
	})
}
