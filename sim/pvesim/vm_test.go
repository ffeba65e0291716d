package pvesim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLifeOfAVM(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		c.template()
		began := time.Now()
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/900/clone", "newid", "201", "name", "wk1")))
		assert.InDelta(t, 1.6, time.Since(began).Seconds(), 0.3)
		require.Equal(t, "OK", c.wait(c.upload("local", "iso", "seed.iso", []byte("seed"))))
		r := c.do("POST", "/cluster/mapping/pci", "id", "gpu", "map", "node=pve1,path=0000:01:00.0,id=10de:20f1,iommugroup=21,subsystem-id=10de:145f")
		require.Equal(t, 200, r.status, r.body)
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/201/config", "cores", "8", "memory", "65536", "ide2", "local:iso/seed.iso,media=cdrom",
			"hostpci0", "mapping=gpu,pcie=1", "tags", "b;A;b", "net0", "virtio,bridge=vmbr0,queues=8")))
		require.Equal(t, "OK", c.wait(c.do("PUT", "/nodes/pve1/qemu/201/resize", "disk", "scsi0", "size", "40G")))
		conf := c.do("GET", "/nodes/pve1/qemu/201/config").object()
		assert.Equal(t, "a;b", conf["tags"])
		assert.Equal(t, "local:iso/seed.iso,media=cdrom,size=4", conf["ide2"])
		assert.Equal(t, "vmdata:base-900-disk-1/vm-201-disk-1,discard=on,iothread=1,size=40G", conf["scsi0"])
		assert.Equal(t, 8.0, conf["cores"])
		assert.Equal(t, "65536", conf["memory"])
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/201/status/start")))
		assert.Equal(t, "running", c.do("GET", "/nodes/pve1/qemu/201/status/current").object()["status"])
		assert.Equal(t, "base volume 'vmdata:base-900-disk-1' is still in use by linked cloned", c.wait(c.do("DELETE", "/nodes/pve1/qemu/900")))
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/201/status/shutdown")))
		require.Equal(t, "OK", c.wait(c.do("DELETE", "/nodes/pve1/qemu/201", "purge", "1", "destroy-unreferenced-disks", "1")))
		require.Equal(t, "OK", c.wait(c.do("DELETE", "/nodes/pve1/qemu/900", "purge", "1")))
		for _, v := range s.Volumes() {
			assert.Contains(t, []int{0, 100, 104}, v.Owner)
		}
	})
}

// Of the disks that bear a VM's number, a destroy takes those that its configuration names,
// and the others where that is asked for. What lies in a CD drive stays.
func TestDisksThatGoWithAVM(t *testing.T) {
	for strays, want := range map[string][]string{"0": {"vmdata:vm-300-disk-7", "vmdata:vm-300-disk-8"}, "1": nil} {
		in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
			for _, name := range []string{"vm-300-disk-6", "vm-300-disk-7", "vm-300-disk-8"} {
				require.Equal(t, 200, c.do("POST", "/nodes/pve1/storage/vmdata/content", "vmid", "300", "filename", name, "size", "1G").status)
			}
			require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", "300", "name", "x", "scsi0", "vmdata:1", "unused0", "vmdata:vm-300-disk-6",
				"ide3", "vmdata:vm-300-disk-8,media=cdrom")))
			require.Equal(t, "OK", c.wait(c.do("DELETE", "/nodes/pve1/qemu/300", "purge", "1", "destroy-unreferenced-disks", strays)))
			var left []string
			for _, v := range s.Volumes() {
				if v.Owner == 300 {
					left = append(left, v.ID)
				}
			}
			assert.Equal(t, want, left, strays)
		})
	}
}
