package pvesim

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// TestEveryPrivilegeIsMissed removes one privilege at a time and does what it was
// for.
func TestEveryPrivilegeIsMissed(t *testing.T) {
	const config = "/nodes/pve1/qemu/104/config"
	for _, x := range []struct {
		priv, method, path string
		kv                 []string
		want               string // status and reason, or the task's exit status
	}{
		{"VM.Audit", "GET", config, nil, "403 Permission check failed (/vms/104, VM.Audit)"},
		{"VM.Config.CPU", "PUT", config, []string{"cores", "1"}, "403 Permission check failed (/vms/104, VM.Config.CPU)"},
		{"VM.Config.Memory", "PUT", config, []string{"memory", "64"}, "403 Permission check failed (/vms/104, VM.Config.Memory)"},
		{"VM.Config.HWType", "PUT", config, []string{"machine", "q35"}, "403 Permission check failed (/vms/104, VM.Config.HWType)"},
		{"VM.Config.HWType", "POST", config, []string{"hostpci0", "mapping=gpu"}, "403 Permission check failed (/vms/104, VM.Config.HWType)"},
		{"Mapping.Use", "PUT", config, []string{"hostpci0", "mapping=gpu"}, "403 Permission check failed (/mapping/pci/gpu, Mapping.Use)"},
		{"Mapping.Use", "POST", config, []string{"hostpci0", "mapping=gpu"}, "403 Permission check failed (/mapping/pci/gpu, Mapping.Use)"},
		{"VM.Config.Options", "PUT", config, []string{"tags", "a"}, "403 Permission check failed (/vms/104, VM.Config.Options)"},
		{"VM.Config.Network", "PUT", config, []string{"net0", "virtio,bridge=vmbr0"}, "403 Permission check failed (/vms/104, VM.Config.Network)"},
		{"SDN.Use", "PUT", config, []string{"net0", "virtio,bridge=vmbr0"}, "403 Permission check failed (/sdn/zones/localnetwork/vmbr0, SDN.Use)"},
		{"VM.Config.CDROM", "PUT", config, []string{"ide2", "none,media=cdrom"}, "403 Permission check failed (/vms/104, VM.Config.CDROM)"},
		{"VM.Config.CDROM", "POST", config, []string{"ide2", "none,media=cdrom"}, "403 Permission check failed (/vms/104, VM.Config.CDROM)"},
		{"VM.Config.Options", "POST", config, []string{"tags", "a"}, "403 Permission check failed (/vms/104, VM.Config.Options)"},
		{"VM.Config.Options", "POST", "/nodes/pve1/qemu", []string{"vmid", "300", "tags", "a"}, "unable to create VM 300 - 403 Permission check failed (/vms/300, VM.Config.Options)"},
		{"VM.Config.CDROM", "POST", "/nodes/pve1/qemu", []string{"vmid", "300", "ide2", "none,media=cdrom"}, "OK"},
		{"VM.Config.Disk", "POST", "/nodes/pve1/qemu", []string{"vmid", "300", "scsi0", "vmdata:1"}, "OK"},
		{"SDN.Use", "PUT", config, []string{"net0", "virtio,bridge=vmbr0,tag=7"}, "403 Permission check failed (/sdn/zones/localnetwork/vmbr0/7, SDN.Use)"},
		{"VM.Config.Disk", "PUT", config, []string{"scsi4", "vmdata:1"}, "403 Permission check failed (/vms/104, VM.Config.Disk)"},
		{"Datastore.AllocateSpace", "PUT", config, []string{"scsi4", "vmdata:1"}, "403 Permission check failed (/storage/vmdata, Datastore.AllocateSpace)"},
		{"Datastore.AllocateSpace", "PUT", "/nodes/pve1/qemu/104/resize", []string{"disk", "scsi0", "size", "+1G"}, "403 Permission check failed (/storage/vmdata, Datastore.AllocateSpace)"},
		{"VM.PowerMgmt", "POST", "/nodes/pve1/qemu/104/status/start", nil, "403 Permission check failed (/vms/104, VM.PowerMgmt)"},
		{"VM.Allocate", "DELETE", "/nodes/pve1/qemu/104", nil, "403 Permission check failed (/vms/104, VM.Allocate)"},
		{"VM.Allocate", "POST", "/nodes/pve1/qemu", []string{"vmid", "300"}, "403 Permission check failed"},
		{"VM.Allocate", "POST", "/nodes/pve1/qemu/104/clone", []string{"newid", "300"}, "403 Permission check failed"},
		{"VM.Clone", "POST", "/nodes/pve1/qemu/104/clone", []string{"newid", "300"}, "403 Permission check failed (/vms/104, VM.Clone)"},
		{"Mapping.Modify", "POST", "/cluster/mapping/pci", []string{"id", "x2", "map", "node=pve1,path=0000:01:00,id=10de:20f1"}, "403 Permission check failed (/mapping/pci, Mapping.Modify)"},
		{"Sys.Audit", "GET", "/nodes/pve1/hardware/pci", nil, "403 Permission check failed (/, Sys.Audit|Sys.Modify)"},
		{"Sys.AccessNetwork", "POST", "/nodes/pve1/storage/local/download-url", []string{"content", "iso", "filename", "a.iso", "url", "https://x/a"}, "403 Permission check failed"},
		{"Datastore.Allocate", "DELETE", "/nodes/pve1/storage/local/content/local:iso/x.iso", nil, "403 Permission check failed (/storage/local, Datastore.Allocate)"},
		{"VM.GuestAgent.Unrestricted", "POST", "/nodes/pve1/qemu/104/agent/exec", []string{"command", "true"}, "403 Permission check failed (/vms/104, VM.GuestAgent.Unrestricted)"},
	} {
		in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
			s.state.Mappings["gpu"] = &world.Mapping{ID: "gpu", Entries: []string{"node=pve1,path=0000:01:00.0,id=10de:20f1,iommugroup=21,subsystem-id=10de:145f"}}
			s.Revoke(x.priv)
			r := c.do(x.method, x.path, x.kv...)
			got := strconv.Itoa(r.status) + " " + r.reason
			if r.status == 200 {
				got = c.wait(r)
			}
			assert.Equal(t, x.want, got, "%s without %s", x.path, x.priv)
		})
	}
}

func TestListsAreSilentlyEmpty(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		s.Revoke("VM.Audit", "Datastore.Audit", "Datastore.AllocateSpace", "Mapping.Audit", "Mapping.Use", "Mapping.Modify", "Sys.Audit", "SDN.Use")
		for _, path := range []string{"/nodes/pve1/qemu", "/nodes/pve1/storage", "/cluster/mapping/pci"} {
			assert.Equal(t, `{"data":[]}`, c.do("GET", path).body, path)
		}
		assert.NotContains(t, c.do("GET", "/nodes").body, "maxmem")
		assert.NotContains(t, c.do("GET", "/nodes/pve1/network").body, "vmbr0")
		r := c.upload("local", "iso", "x.iso", nil)
		assert.Equal(t, 200, r.status)
		s.Revoke("Datastore.AllocateTemplate")
		r = c.upload("local", "iso", "x.iso", nil)
		assert.Equal(t, []any{403, ""}, []any{r.status, r.body})
	})
}

func TestWrongTokensWait(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		for _, auth := range []string{"", "PVEAPIToken=homelab@pve!operator=wrong", "PVEAPIToken=nobody@pve!x=y", "PVEAPIToken=garbage"} {
			began := time.Now()
			c.auth = auth
			r := c.do("GET", "/version")
			want := "Authentication failed!"
			if auth == "" {
				want = "No ticket"
			}
			assert.Equal(t, []any{401, want, ""}, []any{r.status, r.reason, r.body})
			assert.Equal(t, 3*time.Second, time.Since(began))
		}
	})
}

func TestPrivilegeSeparation(t *testing.T) {
	m := EightA100()
	m.Tokens = append(m.Tokens, Token{ID: "homelab@pve!sep", Secret: "x", PrivSep: true})
	m.ACLs = append(m.ACLs, ACL{Path: "/vms/104", Who: "homelab@pve!sep", Role: model.OperatorRole},
		ACL{Path: "/vms/104", Who: "homelab@pve", Role: "PVEAuditor"})
	in(t, m, Options{}, func(t *testing.T, s *Sim, c *caller) {
		c.auth = "PVEAPIToken=homelab@pve!sep=x"
		assert.Equal(t, 403, c.do("GET", "/nodes/pve1/qemu/100/config").status, "the token has no rights of its own there")
		assert.Equal(t, 200, c.do("GET", "/nodes/pve1/qemu/104/config").status)
		assert.Equal(t, 403, c.do("POST", "/nodes/pve1/qemu/104/status/start").status, "the deeper ACL of the user replaces what he has above")
	})
}

func TestPermissionsOfTheOperator(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		all := c.do("GET", "/access/permissions").object()["/"].(map[string]any)
		assert.Len(t, all, len(OperatorPrivileges()))
		assert.Equal(t, 1.0, all["VM.Clone"])
		one := c.do("GET", "/access/permissions", "path", "/vms/104").object()
		assert.Contains(t, one["/vms/104"], "VM.Clone")
		assert.Equal(t, 403, c.do("POST", "/access/ticket", "username", "root@pam", "password", "x").status, "not with a token")
		r := (&caller{t: t, s: s}).do("POST", "/access/ticket", "username", "root@pam", "password", "x")
		assert.Equal(t, "401 authentication failure", strconv.Itoa(r.status)+" "+r.reason)
	})
}

func TestVersionEightHasOtherPrivileges(t *testing.T) {
	m := EightA100()
	m.Version = "8.4.1"
	in(t, m, Options{}, func(t *testing.T, s *Sim, c *caller) {
		assert.Equal(t, "8.4", c.do("GET", "/version").object()["release"])
		r := c.do("POST", "/nodes/pve1/qemu/104/agent/ping")
		assert.Equal(t, "403 Permission check failed (/vms/104, VM.Monitor)", strconv.Itoa(r.status)+" "+r.reason)
		s.SetRole(model.OperatorRole, append(OperatorPrivileges(), "VM.Monitor")...)
		assert.Equal(t, "No QEMU guest agent configured", c.do("POST", "/nodes/pve1/qemu/104/agent/ping").reason)
	})
}

func TestPoolsStandInForMachines(t *testing.T) {
	m := EightA100()
	m.ACLs = []ACL{{Path: "/pool/lab", Who: model.OperatorUser, Role: model.OperatorRole}}
	in(t, m, Options{}, func(t *testing.T, s *Sim, c *caller) {
		s.state.Pools["lab"] = &world.Pool{}
		assert.Equal(t, 403, c.do("GET", "/nodes/pve1/qemu/104/config").status)
		s.state.VMs[104].Pool = "lab"
		require.Equal(t, 200, c.do("GET", "/nodes/pve1/qemu/104/config").status)
		r := c.do("POST", "/nodes/pve1/qemu", "vmid", "300", "pool", "nope")
		assert.Equal(t, "Permission check failed (pool 'nope' does not exist)", r.reason)
		require.Equal(t, 200, c.do("POST", "/nodes/pve1/qemu", "vmid", "300", "pool", "lab").status)
		time.Sleep(time.Second)
		assert.Len(t, s.VMs(), 3)
	})
}
