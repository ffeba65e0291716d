package pvesim

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withTicket asks with a session's cookie, as a browser writes it.
func (c *caller) withTicket(cookie, path string) reply {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "https://pve/api2/json"+path, nil)
	require.NoError(c.t, err)
	r.Header.Set("Cookie", "PVEAuthCookie="+cookie)
	bare := &caller{t: c.t, s: c.s}
	return bare.send(r)
}

func TestLogins(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		login := kv("username", "student3@pve", "password", "long-enough-1")
		c.walk([]step{
			{"POST", "/access/users", kv("userid", "student3@pve", "password", "long-enough-1"), ""},
		})
		nobody := &caller{t: t, s: s}
		nobody.walk([]step{
			{"POST", "/access/ticket", login, ""},
			{"POST", "/access/ticket", kv("username", "student3@pve", "password", "wrong"), "401 authentication failure"},
		})
		ticket, _ := nobody.do("POST", "/access/ticket", login...).object()["ticket"].(string)
		for what, cookie := range map[string]string{"as it is": ticket, "escaped": url.QueryEscape(ticket)} {
			assert.Equal(t, "200 OK", c.withTicket(cookie, "/version").line(), what)
		}
		assert.Equal(t, 401, c.withTicket(ticket+"x", "/version").status)
		c.walk([]step{{"PUT", "/access/users/student3@pve", kv("enable", "0"), ""}})
		nobody.walk([]step{{"POST", "/access/ticket", login, "401 authentication failure"}})
		assert.Equal(t, 401, c.withTicket(ticket, "/version").status, "who is disabled has no session either")
	})
}

func TestRolesOfProxmox(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		var roles []struct {
			RoleID  string `json:"roleid"`
			Special int    `json:"special"`
		}
		require.NoError(t, json.Unmarshal(c.do("GET", "/access/roles").Data, &roles))
		special := map[string]int{}
		for _, r := range roles {
			special[r.RoleID] = r.Special
		}
		for _, name := range []string{"Administrator", "NoAccess", "PVEAdmin", "PVEAuditor", "PVEDatastoreAdmin", "PVEDatastoreUser", "PVEMappingUser", "PVEPoolAdmin",
			"PVEPoolUser", "PVESDNUser", "PVESysAdmin", "PVETemplateUser", "PVEUserAdmin", "PVEVMAdmin", "PVEVMUser"} {
			assert.Equal(t, 1, special[name], name)
		}
		assert.Contains(t, c.do("GET", "/access/roles/PVEVMUser").object(), "VM.PowerMgmt")
		assert.NotContains(t, c.do("GET", "/access/roles/PVEVMUser").object(), "VM.Allocate")
		c.walk([]step{
			{"DELETE", "/access/roles/PVEVMUser", nil, "500 auto-generated role 'PVEVMUser' cannot be deleted"},
			{"PUT", "/access/acl", kv("path", "/vms", "roles", "PVEVMUser", "users", "homelab@pve"), ""},
		})
	})
}

// TestPrivilegesComeBeforeWhatIsNotThere asks for what pvesim has no code for.
func TestPrivilegesComeBeforeWhatIsNotThere(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		root := asRoot(t, s)
		c.walk([]step{
			{"POST", "/cluster/sdn/zones", kv("zone", "zone1", "type", "simple"), "403 Permission check failed (/sdn/zones, SDN.Allocate)"},
			{"POST", "/cluster/sdn/zones", kv("type", "simple"), "403 Permission check failed (/sdn/zones, SDN.Allocate)"},
		})
		root.walk([]step{
			{"POST", "/cluster/sdn/zones", kv("zone", "zone1", "type", "simple"), "501 Method 'POST /cluster/sdn/zones' not implemented"},
			{"POST", "/cluster/sdn/zones", kv("zone", "zone1"), "400 Parameter verification failed."},
		})
	})
}

func TestMembersThatDoNotExist(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		c.walk([]step{
			{"POST", "/pools", kv("poolid", "lab"), ""},
			{"PUT", "/pools/lab", kv("vms", "104,9999"), ""},
			{"PUT", "/pools/lab", kv("vms", "104", "delete", "1"), ""},
			{"POST", "/storage", kv("storage", "nothing", "type", "dir", "path", "/srv/nothing", "content", "none", "nodes", ""), ""},
			{"GET", "/nodes/pve1/storage/absent/status", nil, "400 Parameter verification failed."},
		})
		made := c.do("GET", "/storage/nothing").object()
		assert.Equal(t, "none", made["content"])
		assert.NotContains(t, made, "nodes")
	})
}
