package pvesim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/running"
)

// snapshotModel has another owner's machine whose disk can be snapshotted, on a storage
// of files and one of volumes.
func snapshotModel() Model {
	m := EightA100()
	m.Hosts[0].Storages = append(m.Hosts[0].Storages, Storage{Name: "files", Type: "dir", Content: []string{"images"}, Size: TiB})
	m.Roles[0].Privs = append(m.Roles[0].Privs, "VM.Snapshot", "VM.Snapshot.Rollback", "VM.Migrate")
	return m
}

func TestSnapshots(t *testing.T) {
	in(t, snapshotModel(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		const vm = "/nodes/pve1/qemu/104"
		assert.Equal(t, "OK", c.wait(c.do("POST", vm+"/snapshot", "snapname", "before", "description", "as it was")))
		assert.Equal(t, "snapshot name 'before' already used", c.wait(c.do("POST", vm+"/snapshot", "snapname", "before")))
		assert.Equal(t, "500 unable to use snapshot name 'current' (reserved name)", c.do("POST", vm+"/snapshot", "snapname", "current").line())
		require.Equal(t, 200, c.do("PUT", vm+"/config", "cores", "2", "scsi3", "vmdata:5").status)
		assert.EqualValues(t, 8, c.do("GET", vm+"/config", "snapshot", "before").object()["cores"])
		assert.Equal(t, "500 unable to create template, because VM contains snapshots", c.do("POST", vm+"/template").line())

		assert.Equal(t, "OK", c.wait(c.do("POST", vm+"/snapshot/before/rollback")))
		conf := c.do("GET", vm+"/config").object()
		assert.EqualValues(t, 8, conf["cores"])
		assert.Equal(t, "before", conf["parent"])
		assert.Contains(t, conf["unused0"], "vmdata:", "a disk that came later is kept")
		assert.Equal(t, "OK", c.wait(c.do("DELETE", vm+"/snapshot/before")))
		assert.Equal(t, "snapshot 'before' does not exist", c.wait(c.do("DELETE", vm+"/snapshot/before")))
		assert.Nil(t, c.do("GET", vm+"/config").object()["parent"])
	})
}

func TestSnapshotsNeedAStorageThatCan(t *testing.T) {
	in(t, snapshotModel(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		require.Equal(t, 200, c.do("PUT", "/nodes/pve1/qemu/104/config", "scsi4", "files:1,format=raw").status)
		assert.Equal(t, "snapshot feature is not available", c.wait(c.do("POST", "/nodes/pve1/qemu/104/snapshot", "snapname", "s1")))
		feature := c.do("GET", "/nodes/pve1/qemu/104/feature", "feature", "snapshot").object()
		assert.EqualValues(t, 0, feature["hasFeature"])
	})
}

func TestDisksMove(t *testing.T) {
	in(t, snapshotModel(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		const vm = "/nodes/pve1/qemu/104"
		move := func(kv ...string) reply { return c.do("POST", vm+"/move_disk", kv...) }
		assert.Equal(t, "500 you can't move to the same storage with same format", move("disk", "scsi0", "storage", "vmdata").line())
		assert.Equal(t, "500 disk 'scsi7' does not exist", move("disk", "scsi7", "storage", "files").line())
		assert.Equal(t, 400, move("disk", "scsi0", "storage", "local").status, "no place for images")
		assert.Equal(t, 400, move("disk", "scsi0").status)
		require.Equal(t, "OK", c.wait(move("disk", "scsi0", "storage", "files", "format", "qcow2", "delete", "1")))
		assert.Equal(t, "files:104/vm-104-disk-0.qcow2,size=256G", c.do("GET", vm+"/config").object()["scsi0"])
		for _, v := range s.Volumes() {
			assert.NotEqual(t, "vmdata:vm-104-disk-1", v.ID, "the source is gone")
		}
		require.Equal(t, "OK", c.wait(move("disk", "scsi0", "storage", "vmdata")))
		assert.Equal(t, "files:104/vm-104-disk-0.qcow2", c.do("GET", vm+"/config").object()["unused0"], "the source is kept unless told otherwise")
		require.Equal(t, 200, c.do("PUT", vm+"/unlink", "idlist", "unused0", "force", "1").status)
		assert.Nil(t, c.do("GET", vm+"/config").object()["unused0"])
	})
}

// TestAStartTakesTimeByItsMemory holds how long a start takes against what it is
// given (PX6): pinned memory takes long, and Proxmox's own limit knows that.
func TestAStartTakesTimeByItsMemory(t *testing.T) {
	m := EightA100()
	in(t, m, Options{}, func(t *testing.T, s *Sim, c *caller) {
		s.AddMapping("gpu", "", "node=pve1,path=0000:01:00.0,id=10de:20f1,iommugroup=21,subsystem-id=10de:145f")
		r := c.do("POST", "/nodes/pve1/qemu", "vmid", "300", "name", "big", "memory", "524288", "machine", "q35", "hostpci0", "mapping=gpu,pcie=1", "net0", "virtio,bridge=vmbr0")
		require.Equal(t, "OK", c.wait(r))
		exit := c.wait(c.do("POST", "/nodes/pve1/qemu/300/status/start", "timeout", "30"))
		assert.Regexp(t, `^start failed: command '/usr/bin/kvm -id 300 .*' failed: got timeout$`, exit)
		assert.Equal(t, "stopped", c.do("GET", "/nodes/pve1/qemu/300/status/current").object()["status"])
		began := time.Now()
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/300/status/start")), "512 GiB and a device: 2048 s and 5 more for the card")
		assert.InDelta(t, 130, time.Since(began).Seconds(), 5, "512 GiB at 4 GiB/s")
		s.state.Mu.Lock()
		defer s.state.Mu.Unlock()
		assert.Equal(t, (4*512+5)*time.Second, running.StartTimeout(s.state.VMs[300], false))
	})
}

func TestMachinesMigrate(t *testing.T) {
	m := TwoHosts()
	m.Roles[0].Privs = append(m.Roles[0].Privs, "VM.Migrate")
	m.VMs = []VM{{ID: 100, Node: "pve1", Name: "wanderer", Config: map[string]string{"memory": "1024", "scsi0": "vmdata:vm-100-disk-0,size=4G"}}}
	in(t, m, Options{}, func(t *testing.T, s *Sim, c *caller) {
		before := c.do("GET", "/nodes/pve1/qemu/100/migrate").object()
		assert.Equal(t, []any{"pve2"}, before["allowed_nodes"])
		assert.Equal(t, 400, c.do("POST", "/nodes/pve1/qemu/100/migrate", "target", "pve1").status)
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/100/migrate", "target", "pve2")))
		assert.Equal(t, 500, c.do("GET", "/nodes/pve1/qemu/100/config").status)
		assert.Equal(t, "vmdata:vm-100-disk-0,size=4G", c.do("GET", "/nodes/pve2/qemu/100/config").object()["scsi0"])
		require.Len(t, s.Volumes(), 1)
		assert.Equal(t, "pve2", s.Volumes()[0].Node)
	})
}
