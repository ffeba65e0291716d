package proxmox_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// rooted is a host on which root has a password, and a client that knows it.
func rooted(t *testing.T, password string, test func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client, asked *int)) {
	t.Helper()
	loginAs(t, pvesim.User{ID: "root@pam", Password: rootPassword}, password, test)
}

// loginAs is rooted with a user of one's own.
func loginAs(t *testing.T, user pvesim.User, password string, test func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client, asked *int)) {
	t.Helper()
	model := pvesim.EightA100()
	model.Users = append(model.Users, user)
	bubble(t, model, pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, plain *proxmox.Client) {
		template(t, plain)
		id, value := sim.Token()
		asked := 0
		c, err := proxmox.Dial(t.Context(), proxmox.Config{
			Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: sim.Client(),
			RootUser: user.ID, RootPassword: func(context.Context) (secret.Value, error) {
				asked++
				return secret.New(password), nil
			},
		})
		require.NoError(t, err)
		test(t, sim, c, &asked)
	})
}

func pinned(t *testing.T, c *proxmox.Client, name string) proxmox.VMSpec {
	spec := node(t, c, name)
	spec.NUMA, spec.Hugepages, spec.Affinity = true, "1024", "0-3"
	return spec
}

// The password is asked for once, and only what no token may set is sent with a ticket.
func TestRootTicket(t *testing.T) {
	rooted(t, rootPassword, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client, asked *int) {
		first, second := pinned(t, c, "cp1"), pinned(t, c, "cp2")
		require.NoError(t, ensure(t.Context(), c, first))
		require.NoError(t, ensure(t.Context(), c, second))
		assert.Equal(t, 1, *asked)
		for _, r := range sim.Requests() {
			if r.User == "root@pam" && r.Path != "/access/ticket" {
				assert.Equal(t, http.MethodPut, r.Method)
				for key := range r.Params {
					assert.Contains(t, []string{"hugepages", "affinity"}, key, "nothing else")
				}
			}
		}
		vm, err := c.VMs.Get(t.Context(), owner, "cp1")
		require.NoError(t, err)
		assert.Equal(t, "1024 0-3", vm.Hugepages+" "+vm.Affinity)

		first.Hugepages = "" // no opinion: it stays, and nobody is asked
		require.NoError(t, ensure(t.Context(), c, first))
		first.Affinity = proxmox.None
		require.NoError(t, ensure(t.Context(), c, first))
		vm, err = c.VMs.Get(t.Context(), owner, "cp1")
		require.NoError(t, err)
		assert.Equal(t, "1024 ", vm.Hugepages+" "+vm.Affinity)
	})
}

// Proxmox at times drops the connection of the call after a login.
func TestRootTicketDropped(t *testing.T) {
	for _, after := range []bool{true, false} {
		rooted(t, rootPassword, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client, asked *int) {
			sim.Fail(pvesim.Rule{Method: "PUT", Path: ".*/config", Skip: 1, Drop: true, After: after, Times: 1})
			require.NoError(t, ensure(t.Context(), c, pinned(t, c, "cp1")))
			assert.Equal(t, 1, *asked)
		})
	}
}

func TestRootTicketRefused(t *testing.T) {
	rooted(t, "wrong horse", func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client, asked *int) {
		err := ensure(t.Context(), c, pinned(t, c, "cp1"))
		require.ErrorContains(t, err, "Proxmox does not accept root@pam with this password")
		assert.NotContains(t, err.Error(), "horse")
		for _, r := range sim.Requests() {
			assert.NotContains(t, r.Params.Encode(), "horse")
		}
	})
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		err := ensure(t.Context(), c, pinned(t, c, "cp1"))
		require.ErrorContains(t, err, "only root@pam itself may set this, not a token")
		require.ErrorContains(t, err, "qm set 102 --")
		assert.True(t, strings.Contains(err.Error(), "--hugepages 1024") && strings.Contains(err.Error(), "--affinity 0-3"))
	})
}

// A second factor cannot be given: nothing is sent with the half of a ticket that the
// password is worth, and what to type instead is said.
func TestRootTicketWithSecondFactor(t *testing.T) {
	loginAs(t, pvesim.User{ID: "root@pam", Password: rootPassword, TOTP: true}, rootPassword, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client, asked *int) {
		err := ensure(t.Context(), c, pinned(t, c, "cp1"))
		require.ErrorContains(t, err, "root@pam has a second factor, which is not supported\n  run on pve1: qm set 102 --")
		assert.Contains(t, err.Error(), "--hugepages 1024")
		assert.Contains(t, err.Error(), "--affinity 0-3")
		assert.Equal(t, 1, *asked, "it is not tried again: a user is locked out after some wrong answers")
		for _, r := range sim.Requests() {
			assert.NotEqual(t, "root@pam", r.User)
			assert.NotContains(t, r.Params, "hugepages")
		}
		vm, err := c.VMs.Get(t.Context(), owner, "cp1")
		require.NoError(t, err)
		require.NotNil(t, vm)
		assert.Empty(t, vm.Hugepages)
	})
	loginAs(t, pvesim.User{ID: "root@pam", Password: rootPassword, TOTP: true}, "wrong", func(t *testing.T, _ *pvesim.Sim, c *proxmox.Client, _ *int) {
		require.ErrorContains(t, ensure(t.Context(), c, pinned(t, c, "cp1")), "Proxmox does not accept root@pam with this password")
	})
}
