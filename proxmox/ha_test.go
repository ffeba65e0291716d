package proxmox_test

import (
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A VM that somebody put into Proxmox's HA stops, starts and goes when HA has done it, not when HA
// was asked to.
func TestVMOfHA(t *testing.T) {
	m := pvesim.EightA100()
	m.Users = append(m.Users, pvesim.User{ID: "root@pam", Password: rootPassword})
	bubble(t, m, pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		root := login(t, sim)
		template(t, c)
		spec := scratchNode(t, c)
		require.NoError(t, ensure(t.Context(), c, spec))
		vm := func() *proxmox.VM {
			vm, err := c.VMs.Get(t.Context(), owner, spec.Name)
			require.NoError(t, err)
			return vm
		}
		status, body := root.ask(t, sim, http.MethodPost, "/cluster/ha/resources", url.Values{"sid": {"vm:" + strconv.Itoa(vm().VMID)}})
		require.Equal(t, http.StatusOK, status, "%s", body)

		spec.Memory *= 2
		began := time.Now()
		require.NoError(t, ensure(t.Context(), c, spec))
		assert.True(t, vm().Running)
		assert.Empty(t, vm().Pending)
		assert.Empty(t, spec.Diff(vm()))
		assert.Greater(t, time.Since(began), 20*time.Second, "a round of HA to stop, another one to start")

		require.NoError(t, c.VMs.Remove(t.Context(), vm()))
		assert.Nil(t, vm())
		_, body = root.ask(t, sim, http.MethodGet, "/cluster/ha/resources", nil)
		assert.JSONEq(t, `{"data": []}`, string(body), "purge=1")
	})
}
