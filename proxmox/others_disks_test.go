package proxmox_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// rootCommand does what somebody else does to Proxmox.
func rootCommand(t *testing.T, sim *pvesim.Sim, method, path string, form url.Values) {
	t.Helper()
	id, value := sim.Token()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://pve1:8006/api2/json"+path, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", "PVEAPIToken="+id+"="+value)
	res, err := sim.Client().Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
}

// TestDisksThatAreNotOfTheVM: a disk that bears a VM's number and is in none of its slots may
// be in use elsewhere, by VM 100 here, or be all that is left of another VM of that number.
// It outlives the VM, and is named.
func TestDisksThatAreNotOfTheVM(t *testing.T) {
	for name, warnings := range map[string]int{"well": 0, "with warnings": 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
				template(t, c)
				require.NoError(t, ensure(t.Context(), c, scratchNode(t, c)))
				vm, err := c.VMs.Get(t.Context(), owner, "cp1")
				require.NoError(t, err)
				hung, orphan := fmt.Sprintf("vm-%d-disk-7", vm.VMID), fmt.Sprintf("vm-%d-disk-8", vm.VMID)
				for _, volume := range []string{hung, orphan} {
					rootCommand(t, sim, http.MethodPost, "/nodes/pve1/storage/vmdata/content", url.Values{"vmid": {fmt.Sprint(vm.VMID)}, "filename": {volume}, "size": {"1G"}})
				}
				rootCommand(t, sim, http.MethodPut, "/nodes/pve1/qemu/100/config", url.Values{"scsi9": {"vmdata:" + hung}})
				if warnings > 0 {
					sim.Fail(pvesim.Rule{Method: http.MethodDelete, Path: ".*/qemu/.*", TaskWarnings: warnings})
				}

				var said []string
				ctx := converge.WithProgress(t.Context(), func(u converge.ProgressUpdate) { said = append(said, u.String()) })
				require.NoError(t, c.VMs.Remove(ctx, vm))
				var left []string
				for _, v := range sim.Volumes() {
					if v.Owner == vm.VMID {
						left = append(left, v.ID)
					}
				}
				assert.Equal(t, []string{"vmdata:" + hung, "vmdata:" + orphan}, left, "its own are gone, these are not")
				assert.Contains(t, strings.Join(said, "\n"), "vmdata:"+hung+", vmdata:"+orphan)
			})
		})
	}
}
