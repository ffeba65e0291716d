package pvesim

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asRoot gives a Sim a token that may do everything, and calls with it.
func asRoot(t *testing.T, s *Sim) *caller {
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	s.state.Access.Tokens["root@pam!test"] = Token{ID: "root@pam!test", Secret: "s"}
	return &caller{t: t, s: s, auth: "PVEAPIToken=root@pam!test=s"}
}

func (r reply) line() string { return strconv.Itoa(r.status) + " " + r.reason }

// TestATokenFromNothing is what an administrator does once: role, user, token, ACL;
// and then the token may do what the role says, there and nowhere else.
func TestATokenFromNothing(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		root := asRoot(t, s)
		for _, step := range []struct {
			method, path string
			kv           []string
			want         string
		}{
			{"POST", "/access/roles", []string{"roleid", "Watcher", "privs", "VM.Audit VM.Monitor"}, "400 Parameter verification failed."},
			{"POST", "/access/roles", []string{"roleid", "PVEWatcher", "privs", "VM.Audit"}, "400 Parameter verification failed."},
			{"POST", "/access/roles", []string{"roleid", "Watcher", "privs", "VM.Audit"}, "200 OK"},
			{"POST", "/access/roles", []string{"roleid", "Watcher", "privs", "VM.Audit"}, "500 create role failed: role 'Watcher' already exists"},
			{"PUT", "/access/roles/Administrator", []string{"privs", "VM.Audit"}, "500 auto-generated role 'Administrator' cannot be modified"},
			{"POST", "/access/users", []string{"userid", "student3"}, "500 value 'student3' does not look like a valid user name"},
			{"POST", "/access/users", []string{"userid", "student3@pve", "groups", "ops"}, "500 create user failed: no such group 'ops'"},
			{"POST", "/access/groups", []string{"groupid", "ops"}, "200 OK"},
			{"POST", "/access/users", []string{"userid", "student3@pve", "groups", "ops", "password", "long enough"}, "200 OK"},
			{"PUT", "/access/acl", []string{"path", "/vms/100", "roles", "Watcher", "users", "adam@pve"}, "500 ACL update failed: user 'adam@pve' does not exist"},
			{"PUT", "/access/acl", []string{"path", "/nonsense", "roles", "Watcher", "groups", "ops"}, "400 Parameter verification failed."},
			{"PUT", "/access/acl", []string{"path", "/vms/100", "roles", "Watcher", "groups", "ops"}, "200 OK"},
		} {
			assert.Equal(t, step.want, root.do(step.method, step.path, step.kv...).line(), "%s %s %v", step.method, step.path, step.kv)
		}
		r := root.do("POST", "/access/users/student3@pve/token/t1", "privsep", "0", "comment", "hers")
		require.Equal(t, "200 OK", r.line(), r.body)
		made := r.object()
		assert.Equal(t, "student3@pve!t1", made["full-tokenid"])
		student3 := &caller{t: t, s: s, auth: "PVEAPIToken=student3@pve!t1=" + made["value"].(string)}
		assert.Equal(t, "200 OK", student3.do("GET", "/nodes/pve1/qemu/100/config").line())
		assert.Equal(t, "403 Permission check failed (/vms/104, VM.Audit)", student3.do("GET", "/nodes/pve1/qemu/104/config").line())
		assert.Equal(t, "403 Permission check failed (/access, Sys.Modify)", student3.do("POST", "/access/roles", "roleid", "Mine").line())
		assert.Equal(t, "403 Permission check failed", student3.do("GET", "/access/users/homelab@pve/token").line())
		assert.Equal(t, 400, root.do("POST", "/access/users/student3@pve/token/t1").status, "there already")
		assert.NotContains(t, root.do("GET", "/access/users/student3@pve").body, made["value"], "a secret is told once")

		require.Equal(t, "200 OK", root.do("DELETE", "/access/groups/ops").line())
		assert.Equal(t, 403, student3.do("GET", "/nodes/pve1/qemu/100/config").status, "with the group went what it was granted")
		require.Equal(t, "200 OK", root.do("DELETE", "/access/users/student3@pve/token/t1").line())
		assert.Equal(t, 401, student3.do("GET", "/version").status)
	})
}

// A password is half of the way in for who has a second factor: Proxmox answers 200
// with a ticket that opens nothing (PVE::API2::AccessControl, create_ticket_do).
func TestSecondFactor(t *testing.T) {
	m := EightA100()
	m.Users = append(m.Users, User{ID: "root@pam", Password: "p", TOTP: true})
	in(t, m, Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := &caller{t: t, s: s}
		r := c.do("POST", "/access/ticket", "username", "root@pam", "password", "p")
		require.Equal(t, "200 OK", r.line(), r.body)
		half := r.object()
		assert.EqualValues(t, 1, half["NeedTFA"])
		assert.NotContains(t, half, "cap")
		assert.Contains(t, half["ticket"], "PVE:!tfa!")
		assert.Equal(t, 401, c.do("POST", "/access/ticket", "username", "root@pam", "password", "p", "otp", "123456").status)
		assert.Empty(t, s.state.Access.Tickets, "it opens nothing")
		root := asRoot(t, s)
		assert.Contains(t, root.do("GET", "/access/tfa/root@pam").body, `"totp"`)
		assert.Contains(t, root.do("GET", "/access/tfa").body, `"totp"`)
	})
}

// Seen on real daemons, with bpg's provider, which sends scopes without any.
func TestPropertiesWithoutAValueAreNotKept(t *testing.T) {
	in(t, OneGPU(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		must := func(r reply) { t.Helper(); assert.Equal(t, 200, r.status, r.body) }
		must(c.do("POST", "/access/domains", "realm", "peer", "type", "openid", "issuer-url", "https://idp.example", "client-id", "x", "scopes", "", "comment", ""))
		realm := c.do("GET", "/access/domains/peer").object()
		assert.NotContains(t, realm, "scopes")
		assert.NotContains(t, realm, "comment")
		must(c.do("PUT", "/access/domains/peer", "scopes", "openid", "comment", "hi"))
		assert.Equal(t, "openid", c.do("GET", "/access/domains/peer").object()["scopes"])
		must(c.do("PUT", "/access/domains/peer", "scopes", "", "comment", ""))
		assert.NotContains(t, c.do("GET", "/access/domains/peer").body, "scopes")
	})
}
