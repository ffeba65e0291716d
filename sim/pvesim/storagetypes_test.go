package pvesim

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// storageOf is a host with a storage of a type beside local and vmdata.
func storageOf(kind string, shared bool, config map[string]string) Model {
	m := EightA100()
	m.Hosts[0].Storages = append(m.Hosts[0].Storages,
		Storage{Name: "it", Type: kind, Content: []string{"images"}, Shared: shared, Size: 100 * GiB, Config: config})
	return m
}

// What a template's disks are called, and whether they can be cloned without being copied, is
// the storage plugin's affair (pve-storage, volume_has_feature).
func TestTemplatesOnEachTypeOfStorage(t *testing.T) {
	for kind, want := range map[string]struct{ template, linked, whole string }{
		"dir":     {"it:300/base-300-disk-0.raw", "it:300/base-300-disk-0.raw/301/vm-301-disk-0.qcow2", "it:302/vm-302-disk-0.raw"},
		"nfs":     {"it:300/base-300-disk-0.raw", "it:300/base-300-disk-0.raw/301/vm-301-disk-0.qcow2", "it:302/vm-302-disk-0.raw"},
		"cifs":    {"it:300/base-300-disk-0.raw", "it:300/base-300-disk-0.raw/301/vm-301-disk-0.qcow2", "it:302/vm-302-disk-0.raw"},
		"btrfs":   {"it:300/base-300-disk-0.raw", "it:301/vm-301-disk-0.raw", "it:302/vm-302-disk-0.raw"},
		"zfspool": {"it:base-300-disk-0", "it:base-300-disk-0/vm-301-disk-0", "it:vm-302-disk-0"},
		"rbd":     {"it:base-300-disk-0", "it:base-300-disk-0/vm-301-disk-0", "it:vm-302-disk-0"},
		"lvmthin": {"it:base-300-disk-0", "it:vm-301-disk-0", "it:vm-302-disk-0"},
		"lvm":     {"it:vm-300-disk-0", "Linked clone feature is not supported for 'it:vm-300-disk-0' (scsi0)", "it:vm-302-disk-0"},
	} {
		in(t, storageOf(kind, false, nil), Options{}, func(t *testing.T, s *Sim, c *caller) {
			disk := func(id string) string {
				conf := c.do("GET", "/nodes/pve1/qemu/"+id+"/config").object()
				volume, _, _ := strings.Cut(conf["scsi0"].(string), ",")
				return volume
			}
			require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", "300", "name", "t", "scsi0", "it:8")), kind)
			require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/300/template")), kind)
			assert.Equal(t, want.template, disk("300"), kind)
			r := c.do("POST", "/nodes/pve1/qemu/300/clone", "newid", "301")
			if !strings.HasPrefix(want.linked, "it:") {
				assert.Contains(t, r.body, want.linked, kind)
			} else if assert.Equal(t, "OK", c.wait(r), kind) {
				assert.Equal(t, want.linked, disk("301"), kind)
			}
			require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/300/clone", "newid", "302", "full", "1", "storage", "it")), kind)
			assert.Equal(t, want.whole, disk("302"), kind)
		})
	}
}

// Nothing can be made on a LUN, and a volume group gives out whole sizes.
func TestStoragesWithoutRoom(t *testing.T) {
	in(t, storageOf("iscsi", true, nil), Options{}, func(t *testing.T, s *Sim, c *caller) {
		assert.Contains(t, c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", "300", "scsi0", "it:8")), "can't allocate space in iscsi storage")
	})
	in(t, storageOf("lvm", false, map[string]string{"vgname": "vg0"}), Options{}, func(t *testing.T, s *Sim, c *caller) {
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", "300", "scsi0", "it:60")))
		assert.EqualValues(t, 40*GiB, c.do("GET", "/nodes/pve1/storage/it/status").object()["avail"])
		assert.Contains(t, c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", "301", "scsi0", "it:60")),
			`lvcreate 'vg0/vm-301-disk-0' error:   Volume group "vg0" has insufficient free space (10240 extents): 15360 required.`)
		assert.Contains(t, c.wait(c.do("PUT", "/nodes/pve1/qemu/300/resize", "disk", "scsi0", "size", "101G")), "error resizing volume '/dev/it/vm-300-disk-0':   Insufficient free space: 10496 extents needed, but only 10240 available")
		assert.Contains(t, c.do("POST", "/nodes/pve1/qemu", "vmid", "301", "scsi0", "gone:1").body, "storage 'gone' does not exist")
	})
	in(t, storageOf("lvm", false, map[string]string{"snapshot-as-volume-chain": "1"}), Options{}, func(t *testing.T, s *Sim, c *caller) {
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", "300", "scsi0", "it:8")))
		assert.Contains(t, c.do("GET", "/nodes/pve1/qemu/300/config").object()["scsi0"], "it:vm-300-disk-0.qcow2")
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/300/template")))
		assert.Contains(t, c.do("POST", "/nodes/pve1/qemu/300/clone", "newid", "301").body, "Linked clone feature is not supported")
	})
}

// A clone for another node is made on the source's, so all of the source must be shared, and
// the storage for the copies too (API2/Qemu.pm, clone_vm).
func TestClonesForAnotherNode(t *testing.T) {
	m := TwoHosts()
	for i := range m.Hosts {
		m.Hosts[i].Storages = append(m.Hosts[i].Storages,
			Storage{Name: "nas", Type: "nfs", Content: []string{"images", "iso"}, Shared: true, Size: TiB},
			Storage{Name: "san", Type: "lvm", Content: []string{"images"}, Shared: true, Size: TiB},
			Storage{Name: "off", Type: "nfs", Content: []string{"images"}, Shared: true, Size: TiB, Disabled: true},
			Storage{Name: "isos", Type: "nfs", Content: []string{"iso"}, Shared: true, Size: TiB})
	}
	in(t, m, Options{}, func(t *testing.T, s *Sim, c *caller) {
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", "300", "name", "t", "efidisk0", "nas:1", "scsi0", "nas:8")))
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", "301", "name", "l", "scsi0", "vmdata:8")))
		for _, id := range []string{"300", "301"} {
			require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/"+id+"/template")))
		}
		clone := func(id string, more ...string) string {
			return c.do("POST", "/nodes/pve1/qemu/"+id+"/clone", append([]string{"newid", "400", "name", "n"}, more...)...).body
		}
		assert.Contains(t, clone("300", "target", "pve2", "full", "1", "storage", "vmdata"), "can't clone to non-shared storage 'vmdata'")
		assert.Contains(t, clone("301", "target", "pve2"), "can't clone VM to node 'pve2' (VM uses local storage)")
		assert.Contains(t, clone("301", "target", "pve2", "full", "1", "storage", "nas"), "can't clone VM to node 'pve2' (VM uses local storage)")
		assert.Contains(t, clone("300", "full", "1", "storage", "off"), "storage 'off' is disabled")
		assert.Contains(t, clone("300", "full", "1", "storage", "isos"), "storage 'isos' does not support vm images")
		assert.Contains(t, clone("300", "full", "1", "storage", "nowhere"), "storage 'nowhere' does not exist")

		r := c.do("POST", "/nodes/pve1/qemu/300/clone", "newid", "400", "name", "n", "target", "pve2", "full", "1", "storage", "san")
		time.Sleep(3 * time.Second) // of the first drive's copy, the second's being under way
		half := c.do("GET", "/nodes/pve1/qemu/400/config").object()
		assert.Equal(t, []any{"n", "clone", nil}, []any{half["name"], half["lock"], half["scsi0"]}, "it has a name, and one of its drives")
		assert.Contains(t, half["efidisk0"], "san:vm-400-disk-0")
		require.Equal(t, "OK", c.wait(r))
		assert.Contains(t, c.do("GET", "/nodes/pve2/qemu/400/config").object()["scsi0"], "san:vm-400-disk-1")
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/300/clone", "newid", "401", "target", "pve2")), "linked, on the shared storage")
	})
}

// A directory storage keeps its files where its section says, also a recorded one.
func TestPathOfADirectory(t *testing.T) {
	in(t, storageOf("dir", false, map[string]string{"path": "/srv/it"}), Options{}, func(t *testing.T, s *Sim, c *caller) {
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", "300", "scsi0", "it:8")))
		info := c.do("GET", "/nodes/pve1/storage/it/content/it:300%2Fvm-300-disk-0.raw").object()
		assert.Equal(t, "/srv/it/images/300/vm-300-disk-0.raw", info["path"])
	})
}
