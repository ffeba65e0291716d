package proxmox_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

var trees = []string{
	"/", "/vms", "/vms/100", "/vms/104", "/storage", "/storage/local", "/nodes", "/nodes/pve1", "/mapping", "/mapping/pci", "/mapping/pci/gpu",
	"/sdn", "/sdn/zones", "/sdn/zones/localnetwork", "/sdn/zones/localnetwork/vmbr0", "/sdn/zones/localnetwork/vmbr0/7", "/pool", "/pool/lab",
}

// randomACLs is a site where a token has roles at random places, as has its user.
func randomACLs(r *rand.Rand, separated bool) pvesim.Model {
	m := pvesim.EightA100()
	m.ACLs = nil
	m.Tokens[0].PrivSep = separated
	m.Roles = []pvesim.Role{{ID: "A", Privs: []string{"VM.Audit", "VM.Allocate", "SDN.Use"}}, {ID: "B", Privs: []string{"VM.Audit", "VM.Clone"}}}
	for range 1 + r.IntN(7) {
		role := []string{"A", "B", "A", "B", "NoAccess"}[r.IntN(5)]
		for _, who := range []string{m.Tokens[0].ID, m.Users[0].ID} {
			acl := pvesim.ACL{Path: trees[r.IntN(len(trees))], Who: who, Role: role, NoPropagate: r.IntN(3) == 0}
			there := func(a pvesim.ACL) bool { return a.Path == acl.Path && a.Who == who && a.Role == role } // once, in Proxmox
			if r.IntN(4) > 0 && !slices.ContainsFunc(m.ACLs, there) {
				m.ACLs = append(m.ACLs, acl)
			}
		}
	}
	return m
}

// What a proxmox.PermissionTree says of any path is what Proxmox says when it is asked for that
// path: always where the path was named before; otherwise unless something removes all
// of it again (NoAccess, or a separated token and its user that meet nowhere).
func TestPermissionsAreProxmoxs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 150 {
		separated := i%2 == 0
		m := randomACLs(r, separated)
		ambiguous := separated || slices.ContainsFunc(m.ACLs, func(a pvesim.ACL) bool { return a.Role == "NoAccess" })
		bubble(t, m, pvesim.Options{}, func(t *testing.T, _ *pvesim.Sim, c *proxmox.Client) {
			guessed, err := c.Permissions(t.Context())
			require.NoError(t, err)
			exact, err := c.Permissions(t.Context(), trees...)
			require.NoError(t, err)
			for _, where := range trees {
				one, err := c.Permissions(t.Context(), where)
				require.NoError(t, err)
				for _, privilege := range []string{"VM.Audit", "VM.Allocate", "VM.Clone", "SDN.Use", "VM.Backup"} {
					_, truth := exact[where][privilege]
					_, asked := one[where][privilege]
					assert.Equal(t, truth, asked || one.Has(where, privilege, false), "%s on %s: %+v", privilege, where, m.ACLs)
					assert.Equal(t, truth, exact.Has(where, privilege, false), "%s on %s: %+v", privilege, where, m.ACLs)
					if !ambiguous {
						assert.Equal(t, truth, guessed.Has(where, privilege, false), "guessed %s on %s: %+v", privilege, where, m.ACLs)
					}
				}
			}
		})
	}
}

// Every form in which Proxmox refuses becomes one message: privilege, path, command.
func TestEveryRefusalNamesItsCure(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		all := []string{"VM.Allocate", "VM.Config.CPU", "VM.Config.Disk"}
		c.SetGrantCommands(proxmox.MissingGrantCommands("homelab-a100", c.TokenID(), []proxmox.Grant{
			{Path: "/vms", Privileges: all, Propagate: true}, {Path: "/storage/local", Privileges: []string{"Datastore.AllocateTemplate"}},
			{Path: "/nodes/pve1", Privileges: []string{"Sys.AccessNetwork"}},
		}))
		const vms = "pveum role add homelab-a100-vms 2>/dev/null; pveum role modify homelab-a100-vms --privs VM.Allocate,VM.Config.CPU,VM.Config.Disk\n" +
			"    pveum acl modify /vms --users homelab@pve --roles homelab-a100-vms --propagate 1\n" +
			"    pveum acl modify /vms --tokens 'homelab@pve!operator' --roles homelab-a100-vms --propagate 1"
		for _, x := range []struct {
			name string
			err  api.Error
			want string
		}{
			{"named", api.Error{Status: 403, Method: "PUT", Path: "/nodes/pve1/qemu/100/config", Message: "Permission check failed (/vms/100, VM.Config.CPU)"},
				"lacks VM.Config.CPU on /vms/100; "},
			{"any of", api.Error{Status: 403, Method: "GET", Path: "/x", Message: "Permission check failed (/storage/local, Datastore.AllocateSpace|Datastore.Audit)"},
				"lacks one of Datastore.AllocateSpace, Datastore.Audit on /storage/local; add it to its role on that path: pveum role modify ROLE --append 1 --privs Datastore.AllocateSpace"},
			{"bare", api.Error{Status: 403, Method: "POST", Path: "/nodes/pve1/qemu", Message: "Permission check failed"},
				"it can only be this: the token homelab@pve!operator lacks VM.Allocate on /vms; "},
			{"bare clone", api.Error{Status: 403, Method: "POST", Path: "/nodes/pve1/qemu/100/clone", Message: "Permission check failed"},
				"lacks VM.Allocate on /vms; "},
			{"empty", api.Error{Status: 403, Method: "POST", Path: "/nodes/pve1/storage/local/upload"},
				"lacks Datastore.AllocateTemplate on /storage/local; "},
			{"bare download", api.Error{Status: 403, Method: "POST", Path: "/nodes/pve1/storage/local/download-url", Message: "Permission check failed"},
				"lacks Sys.AccessNetwork on /nodes/pve1; "},
			{"bare and unknown", api.Error{Status: 403, Method: "GET", Path: "/cluster/nope", Message: "Permission check failed"},
				"a privilege that Proxmox does not name; see pveum user token permissions homelab@pve operator"},
			{"inside an error", api.Error{Status: 500, Method: "PUT", Path: "/pools", Message: "update pools failed: 403 Permission check failed (/vms/100, VM.Allocate)"},
				"lacks VM.Allocate on /vms/100; "},
			{"a tag", api.Error{Status: 403, Method: "PUT", Path: "/x", Message: "Permission check failed (/, Sys.Modify for modifying tag 'prod')"},
				"lacks Sys.Modify on /; "},
			{"how a tag is let", api.Error{Status: 403, Method: "PUT", Path: "/x", Message: "Permission check failed (/, Sys.Modify for modifying tag 'prod')"},
				"it is for the tag prod; any token may set free tags, and this one needs nothing else, once root has run on a host: pvesh set /cluster/options --user-tag-access user-allow=free\n  first look at pvesh get /cluster/options: if its user-tag-access has a user-allow-list"},
			{"a pool", api.Error{Status: 403, Method: "POST", Path: "/nodes/pve1/qemu", Message: "Permission check failed (pool 'k3s' does not exist)"},
				"if a pool does not exist"},
			{"root's", api.Error{Status: 403, Method: "POST", Path: "/access/x", Message: "Permission check failed (user != root@pam)"},
				"only root@pam itself may do this"},
		} {
			x.err.Token = "homelab@pve!operator"
			assert.Contains(t, x.err.Error(), x.want, x.name)
			assert.True(t, x.err.IsPermission(), x.name)
			assert.True(t, converge.IsPermanent(&x.err), x.name)
		}
		sim.Revoke("VM.Allocate", "Datastore.AllocateTemplate", "Sys.AccessNetwork")
		_, err := c.VMs.Create(t.Context(), proxmox.CreateSpec{Name: "x", Host: "pve1", Owner: owner, Image: "local:import/a.qcow2", Storage: "vmdata", Cores: 1, Memory: proxmox.GiB})
		require.ErrorContains(t, err, "lacks VM.Allocate on /vms; run on a host as root:\n    "+vms)
		_, err = c.Storages.Upload(t.Context(), "pve1", "local", "x.iso", []byte("x"))
		require.ErrorContains(t, err, "lacks Datastore.AllocateTemplate on /storage/local; run on a host as root:\n    pveum role add homelab-a100-storage-local")
		_, err = c.Storages.Fetch(t.Context(), "pve1", "local", proxmox.Image{URL: imageURL, SHA256: strings.Repeat("0", 64), FileName: "a.qcow2"})
		require.ErrorContains(t, err, "lacks Datastore.AllocateTemplate on /storage/local; run on a host as root:")
	})
}
