package pvesim

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a copy of a VM has of its own, and what of its source: seen on real daemons for a
// clone, and in restore_update_config_line of qemu-server 9.2.6 for a backup.
func TestWhatCopiesCarry(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", "300", "name", "source", "memory", "64", "tags", "a;a_300_3dd750ce",
			"description", "notes", "net0", "virtio=02:1F:88:0A:9E:31,bridge=vmbr0", "scsi0", "vmdata:1",
			"smbios1", "uuid=3dd750ce-d910-44d0-9493-525c0be4e687,manufacturer=QUJD,base64=1")))
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/300/clone", "newid", "301", "full", "1")))
		backup := s.Backup(300)
		s.Restore(backup, 302, false)
		s.Restore(backup, 303, true)
		confs := map[int]map[string]string{}
		for _, vm := range s.VMs() {
			confs[vm.ID] = vm.Config
		}
		for id, keeps := range map[int]struct{ uuid, address bool }{301: {}, 302: {true, true}, 303: {}} {
			conf := confs[id]
			assert.Equal(t, []string{"a;a_300_3dd750ce", "notes"}, []string{conf["tags"], strings.TrimSpace(conf["description"])}, "%d", id)
			assert.Equal(t, keeps.uuid, strings.Contains(conf["smbios1"], "uuid=3dd750ce"), "%d: %s", id, conf["smbios1"])
			assert.Contains(t, conf["smbios1"], "manufacturer=QUJD")
			assert.Equal(t, keeps.address, strings.Contains(conf["net0"], "02:1F:88:0A:9E:31"), "%d: %s", id, conf["net0"])
			assert.NotEqual(t, confs[300]["vmgenid"], conf["vmgenid"])
			assert.NotEqual(t, confs[300]["scsi0"], conf["scsi0"])
			require.Equal(t, "OK", c.wait(c.do("DELETE", "/nodes/pve1/qemu/"+strconv.Itoa(id))))
		}
		assert.Equal(t, "Copy-of-VM-source", confs[301]["name"])
		assert.Equal(t, "source", confs[302]["name"])
	})
}
