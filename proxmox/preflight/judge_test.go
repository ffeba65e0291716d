package preflight

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/proxmox"
)

// TestVLANsFindTheirWay has bridges that the simulator does not make.
func TestVLANsFindTheirWay(t *testing.T) {
	for name, c := range map[string]struct {
		bridge proxmox.Bridge
		say    string
	}{
		"one port":      {proxmox.Bridge{Type: "bridge", Ports: []string{"bond0"}}, ""},
		"several ports": {proxmox.Bridge{Type: "bridge", Ports: []string{"nic0", "nic1"}}, ""}, // the VLAN is made on each
		"no port":       {proxmox.Bridge{Type: "bridge"}, "has no port"},
		"aware, none":   {proxmox.Bridge{Type: "bridge", VLANAware: true}, ""},
		"aware, others": {proxmox.Bridge{Type: "bridge", VLANAware: true, VIDs: "2-19 21"}, "lets VLANs 2-19 21 through"},
		"Open vSwitch":  {proxmox.Bridge{Type: "OVSBridge"}, ""},
		"a vnet":        {proxmox.Bridge{Type: "vnet"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.bridge.Name, c.bridge.Active = "vmbr0", true
			found := plug{nic: proxmox.NIC{Bridge: "vmbr0", VLAN: 20}, vms: []string{"gpu1"}}.into("pve1", c.bridge)
			if c.say == "" {
				assert.Empty(t, found)
			} else if assert.Len(t, found, 1) {
				assert.Contains(t, found[0].Evidence, c.say)
			}
		})
	}
}
