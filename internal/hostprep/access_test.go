package hostprep_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

func access() hostprep.Access {
	return hostprep.Access{
		Owner: "a test", Prefix: "homelab-test", TokenID: "homelab@pve!cluster",
		Grants: []proxmox.Grant{
			{Path: "/vms", Privileges: []string{"VM.Allocate", "VM.Audit"}, Propagate: true, Reason: "make machines"},
			{Path: "/storage/local", Privileges: []string{"Datastore.Audit"}, Reason: "see it"},
		},
		Storages: []hostprep.Storage{{Name: "local", Content: []string{"iso", "import"}, Why: []string{"first-boot ISOs", "the cloud image"}}},
	}
}

func lookAt(t *testing.T, a hostprep.Access, r remote.Runner) hostprep.AccessState {
	t.Helper()
	s, err := a.ObserveAccess(t.Context(), r)
	require.NoError(t, err)
	return s
}

func ids(changes []*hostprep.Change) (out []string) {
	for _, c := range changes {
		out = append(out, c.ID)
	}
	return out
}

// bare is a host on which nobody was granted anything.
func bare() pvesim.Model {
	m := pvesim.OneGPU()
	m.Roles, m.Users, m.Tokens, m.ACLs = nil, nil, nil, nil
	return m
}

func TestAccess(t *testing.T) {
	in(t, "from nothing", func(t *testing.T) {
		m := bare()
		m.Hosts[0].Storages[0].Content = []string{"backup"}
		_, r := root(t, m)
		a := access()
		s := lookAt(t, a, r)
		assert.Equal(t, []string{hostprep.Storages, hostprep.Role, hostprep.User, hostprep.RoleGrants}, ids(a.Changes(s)))
		for _, id := range []string{hostprep.Storages, hostprep.Role, hostprep.User} {
			require.NoError(t, hostprep.Apply(t.Context(), r, a.Change(lookAt(t, a, r), id)), id)
			assert.Nil(t, a.Change(lookAt(t, a, r), id), id)
		}
		first, err := a.MakeToken(t.Context(), r, lookAt(t, a, r))
		require.NoError(t, err)
		require.NoError(t, hostprep.Apply(t.Context(), r, a.Change(lookAt(t, a, r), hostprep.RoleGrants)))
		s = lookAt(t, a, r)
		assert.Empty(t, a.Changes(s))
		assert.Equal(t, &hostprep.TokenState{PrivSep: true}, s.Token)
		assert.ElementsMatch(t, []string{"backup", "iso", "import"}, s.Storages[0].Content)

		// Anew: the old one is gone, and so may be its grants.
		second, err := a.MakeToken(t.Context(), r, s)
		require.NoError(t, err)
		assert.NotEqual(t, first.Reveal(), second.Reveal())
		if c := a.Change(lookAt(t, a, r), hostprep.RoleGrants); c != nil {
			require.NoError(t, hostprep.Apply(t.Context(), r, c))
		}
		assert.Empty(t, a.Changes(lookAt(t, a, r)))
	})
	in(t, "a token that may enough already, however", func(t *testing.T) {
		m := bare()
		m.Users, m.Tokens = []pvesim.User{{ID: "homelab@pve"}}, []pvesim.Token{{ID: "homelab@pve!cluster", Secret: "x"}}
		m.ACLs = []pvesim.ACL{{Path: "/", Who: "homelab@pve", Role: "Administrator"}}
		_, r := root(t, m)
		assert.Empty(t, access().Changes(lookAt(t, access(), r)), "a role of ours would replace what comes from above")
	})
	in(t, "the admin's own account keeps what it has", func(t *testing.T) {
		m := bare()
		m.Users = []pvesim.User{{ID: "homelab@pve"}}
		m.ACLs = []pvesim.ACL{{Path: "/", Who: "homelab@pve", Role: "Administrator"}}
		_, r := root(t, m)
		_, err := access().MakeToken(t.Context(), r, lookAt(t, access(), r))
		require.NoError(t, err)
		for _, id := range []string{hostprep.Role, hostprep.RoleGrants} {
			c := access().Change(lookAt(t, access(), r), id)
			require.NotNil(t, c, id)
			for _, command := range c.Commands {
				assert.NotContains(t, command, "--users", "an entry further down would replace Administrator there")
			}
			require.NoError(t, hostprep.Apply(t.Context(), r, c))
		}
		assert.Empty(t, access().Changes(lookAt(t, access(), r)))
		assert.Empty(t, access().Notes(lookAt(t, access(), r)))
	})
	in(t, "somebody's account that may not enough is left alone", func(t *testing.T) {
		m := bare()
		m.Users = []pvesim.User{{ID: "homelab@pve"}}
		m.ACLs = []pvesim.ACL{{Path: "/", Who: "homelab@pve", Role: "PVEAuditor"}}
		_, r := root(t, m)
		for _, c := range access().Changes(lookAt(t, access(), r)) {
			for _, command := range c.Commands {
				assert.NotContains(t, command, "--users")
			}
		}
		assert.Equal(t, []string{"homelab@pve lacks VM.Allocate on /vms, where it inherits rights from a path above: a role there would replace those → " +
			"use a separate user for the cluster, e.g. token: homelab@pve!cluster, or grant the privileges yourself"}, fatal(access().Notes(lookAt(t, access(), r))))
	})
	in(t, "nor one that has its rights by a group", func(t *testing.T) {
		m := bare()
		m.Users, m.Groups = []pvesim.User{{ID: "homelab@pve"}}, []pvesim.Group{{ID: "ops", Users: []string{"homelab@pve"}}}
		m.ACLs = []pvesim.ACL{{Path: "/", Who: "@ops", Role: "PVEAuditor"}}
		_, r := root(t, m)
		assert.Len(t, fatal(access().Notes(lookAt(t, access(), r))), 1)
	})
	in(t, "a role that may too much", func(t *testing.T) {
		m := bare()
		m.Roles = []pvesim.Role{{ID: "homelab-test-vms", Privs: []string{"VM.Audit", "VM.Console"}}}
		_, r := root(t, m)
		c := access().Change(lookAt(t, access(), r), hostprep.Role)
		assert.Equal(t, []string{"pveum", "role", "modify", "homelab-test-vms", "--privs", "VM.Allocate,VM.Audit"}, c.Commands[0])
		assert.Equal(t, "pveum role modify homelab-test-vms --privs VM.Audit,VM.Console", c.Undo[0])
	})
	in(t, "root's own token", func(t *testing.T) {
		_, r := root(t, bare())
		a := access()
		a.TokenID = "root@pam!cluster"
		for _, c := range a.Change(lookAt(t, a, r), hostprep.RoleGrants).Commands {
			assert.NotContains(t, c, "--users", "root may do everything")
		}
		assert.Nil(t, a.Change(lookAt(t, a, r), hostprep.User))
	})
}

func TestAccessNotes(t *testing.T) {
	in(t, "storages", func(t *testing.T) {
		m := bare()
		m.Version = "8.2.4"
		m.Hosts[0].Storages[0].Content = []string{"iso"}
		_, r := root(t, m)
		a := access()
		a.Storages = append(a.Storages, hostprep.Storage{Name: "vmdata", Content: []string{"iso"}, Why: []string{"first-boot ISOs"}},
			hostprep.Storage{Name: "fast", Content: []string{"images"}, Why: []string{"the disk of cp1"}})
		s := lookAt(t, a, r)
		assert.Equal(t, []string{
			"Proxmox VE 8.2.4 does not know the content type import: upgrade to 8.4 or newer → name another storage in the file",
			"vmdata is of type zfspool and cannot hold iso → name another storage in the file",
			"there is no storage fast, for the disk of cp1 → name another in the file (there are local, vmdata), or make it",
		}, fatal(a.Notes(s)))
		assert.NotContains(t, strings.Join(ids(a.Changes(s)), " "), hostprep.Storages, "nothing that Proxmox would refuse is tried")
	})
}
