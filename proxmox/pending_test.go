package proxmox_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// What waits for a VM's next start is not what it has, and a value that nobody of us
// has asked for is no reason to restart it.
func TestWhatWaitsIsSaid(t *testing.T) {
	const whose = "was set by somebody else, or for an earlier file, and counts from the VM's next start"
	for _, tt := range []struct {
		name     string
		byHand   url.Values
		cores    int // that the file wants; the VM runs with 4
		diff     string
		restarts bool
	}{
		{"nothing", nil, 4, "", false},
		{"somebody else's, and the VM is as it should be", url.Values{"cores": {"1"}}, 4, "cores: 1, pending → 4 [the VM runs with 4; 1 " + whose + "]", false},
		{"somebody else's, and the file wants a third", url.Values{"cores": {"1"}}, 8, "cores: 4 → 8 (needs a restart) [1 waits: it " + whose + "]", true},
		{"ours", url.Values{"cores": {"8"}}, 8, "cores: 4 → 8 (needs a restart) [set already; it counts from the VM's next start]", true},
		{"of what no file speaks of", url.Values{"vga": {"qxl"}}, 4, "", false},
		{"of what no file speaks of, beside ours", url.Values{"vga": {"qxl"}}, 8,
			"cores: 4 → 8 (needs a restart) [the restart also brings what somebody else has set: vga: std → qxl]", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			model := pvesim.EightA100()
			model.Users = append(model.Users, pvesim.User{ID: "root@pam", Password: rootPassword})
			bubble(t, model, pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
				template(t, c)
				spec := node(t, c, "cp1")
				require.NoError(t, ensure(t.Context(), c, spec))
				look := func() *proxmox.VM {
					vm, err := c.VMs.Get(t.Context(), owner, "cp1")
					require.NoError(t, err)
					return vm
				}
				if tt.byHand != nil {
					status, body := login(t, sim).ask(t, sim, http.MethodPut, fmt.Sprintf("/nodes/pve1/qemu/%d/config", look().VMID), tt.byHand)
					require.Equal(t, http.StatusOK, status, "%s", body)
				}
				spec.Cores = tt.cores
				assert.Equal(t, tt.diff, spec.Diff(look()).String())
				guestOf := func() *guest.Machine {
					all := sim.VMs()
					return all[slices.IndexFunc(all, func(vm pvesim.VMState) bool { return vm.Name == "cp1" })].Guest
				}
				machine := guestOf()
				require.NoError(t, c.VMs.Shape(t.Context(), spec, look()))
				assert.Empty(t, spec.Diff(look()).String())
				assert.Equal(t, tt.restarts, guestOf() != machine, "restarted")
			})
		})
	}
}
