package cluster_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
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
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.up(t, parse(t, oneDisk))
		machine := w.guests()["wk1"]
		require.NoError(t, machine.Disk().WriteFile("/root/kept", []byte("x"), 0o600))
		step := func(yaml string) (*spec.Spec, changes) {
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
		// One more, before the other in the file.
		more := replace(t, oneDisk, "      scratch:", "      models: {size: 200GiB, mount: /models, fs: xfs}\n      scratch:")
		_, did := step(more)
		assert.Equal(t, []string{"wk1: mkfs /dev/sdc", "wk1: file /models", "wk1: file /etc/fstab.new", "wk1: file /etc/fstab",
			"wk1: file /etc/fstab.new", "wk1: mount /models"}, did.Guests)
		assert.Regexp(t, `(?m)^UUID=[0-9a-f-]{36} /models xfs defaults,nofail,discard,\S*x-systemd.required-by=k3s-agent.service,x-homelab.disk=models 0 2$`, fstab())
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
		require.ErrorContains(t, err, "homelab node:replace -node=wk1")
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
		require.ErrorAs(t, w.verb(t, parse(t, gone), replacements(t.Context(), "wk1", false)), &no)
		assert.Contains(t, no.Error(), "disk models (300GiB), the unused disk vmdata:")
	})
}

// A disk is found by its serial, whatever names the guest's udev has for it: those of
// Proxmox VE 9 have the slot, for machine types from 10.0 on.
func TestDisksOfEveryMachineType(t *testing.T) {
	for version, link := range map[string]string{
		"8.4.1":  "scsi-0QEMU_QEMU_HARDDISK_scratch",
		"9.2.11": "scsi-0QEMU_QEMU_HARDDISK_drive-scsi1",
	} {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := pvesim.OneGPU()
				model.Version = version
				if strings.HasPrefix(version, "8.") {
					model.Roles[0].Privs = append(pvesim.OperatorPrivileges(), "VM.Monitor")
				}
				w := newWorld(t, model)
				w.up(t, parse(t, oneDisk))
				assert.Contains(t, ask(t, w.guests()["wk1"], "ls", "/dev/disk/by-id"), link+"\n")
				assert.Empty(t, w.plan(t, parse(t, oneDisk)))
			})
		})
	}
}

// A line of fstab that an earlier release of ours wrote, by a name that another release of
// Proxmox does not have, is seen and mended; a line of somebody else's is not taken.
func TestFstabIsMended(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, oneDisk)
		w.up(t, spec)
		disk := w.guests()["wk1"].Disk()
		want, err := disk.ReadFile("/etc/fstab")
		require.NoError(t, err)
		base, _, _ := strings.Cut(string(want), "UUID=")
		write := func(line string) {
			require.NoError(t, disk.WriteFile("/etc/fstab", []byte(base+line+"\n"), 0o644))
		}

		write("/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_scratch\t/scratch\text4\tdefaults,nofail,discard\t0\t2")
		assert.Equal(t, []string{"disks/wk1: scratch/fstab: /scratch"}, w.plan(t, spec))
		w.up(t, spec)
		have, err := disk.ReadFile("/etc/fstab")
		require.NoError(t, err)
		assert.Equal(t, string(want), string(have))
		assert.Empty(t, w.plan(t, spec))

		write("server:/share /scratch nfs defaults 0 0")
		c := w.cluster(t, spec)
		defer c.Close()
		_, err = c.Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "/etc/fstab mounts something else on /scratch, where disk scratch should be")
	})
}

// A node does not start K3s while its data disk is missing, and the next run says why.
func TestNodeWithoutItsDataDisk(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, oneDisk)
		w.up(t, spec)
		m := w.guests()["wk1"]
		m.SetDisks([]guest.BlockDevice{{Serial: "os", Size: 50 << 30}})
		require.NoError(t, m.Shutdown())
		m.Kill()
		require.NoError(t, m.Boot(t.Context()))
		time.Sleep(10 * time.Minute)
		assert.Equal(t, "inactive", m.Units()["k3s-agent.service"])
		assert.Contains(t, strings.Join(m.Journal("k3s-agent.service"), "\n"), "start failed with result 'dependency'")
		c := w.cluster(t, spec)
		defer c.Close()
		_, err := c.Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "scratch: not visible in the guest")
		require.ErrorContains(t, err, "while a disk is missing, K3s does not start there")
	})
}
