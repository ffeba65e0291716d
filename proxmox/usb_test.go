package proxmox_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A mapping that was made for a device that is not there is deleted again; one that was there before stays,
// since somebody may use it, and so does one for a device that is plugged in.
func TestMappingsOfUSBDevicesThatAreNotThere(t *testing.T) {
	plugged, missing := proxmox.USBDevice{ID: "10c4:ea60"}, proxmox.USBDevice{ID: "1a86:7523", Port: "1-9"}
	for name, tt := range map[string]struct {
		before, want *proxmox.USBDevice
		stays        bool
	}{
		"made, plugged in":    {want: &plugged, stays: true},
		"made, missing":       {want: &missing},
		"as it is":            {before: &plugged, want: &plugged, stays: true},
		"as it is, missing":   {before: &missing, want: &missing, stays: true},
		"rewritten, missing":  {before: &plugged, want: &missing, stays: true},
		"rewritten, it helps": {before: &missing, want: &plugged, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			model := pvesim.OneGPU()
			model.Hosts[0].USB = []pvesim.USBDevice{{Port: "1-3.2", ID: plugged.ID, Product: "CP2102N"}}
			if tt.before != nil {
				line := "node=pve1,id=" + tt.before.ID
				if tt.before.Port != "" {
					line += ",path=" + tt.before.Port
				}
				model.Mappings = []pvesim.PCIMapping{{ID: "key", USB: true, Map: []string{line}}}
			}
			bubble(t, model, pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
				err := c.PCI.RewriteUSBMapping(t.Context(), proxmox.USBMapping{ID: "key", Host: "pve1", Description: "x", Device: *tt.want})
				if tt.want == &plugged {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, "plug the device in")
				}
				left, err := c.PCI.USBMappings(t.Context(), "pve1")
				require.NoError(t, err)
				require.Equal(t, tt.stays, len(left) == 1)
				if tt.stays {
					assert.Equal(t, []proxmox.USBDevice{*tt.want}, left[0].Devices["pve1"])
				}
			})
		})
	}
}
