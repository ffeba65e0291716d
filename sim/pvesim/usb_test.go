package pvesim

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// USB devices are those of the model: in the list, in what a check of mappings says, and at the start of a VM.
func TestUSB(t *testing.T) {
	m := OneGPU()
	m.Hosts[0].USB = []USBDevice{{Port: "1-3.2", ID: "10c4:ea60", Product: "CP2102N"}}
	want := map[string]string{
		"stick": "OK",
		"moved": "USB Mapping invalid (hardware probably changed): 'id' does not match for 'moved' (10c4:ea60 != 1a86:7523) ",
		"gone":  "USB Mapping invalid (hardware probably changed): usb device '1-9' not found ",
		"two":   "More than one USB mapping per host not supported",
		"none":  "USB device mapping not found for 'none'",
	}
	m.Mappings = []PCIMapping{
		{ID: "stick", USB: true, Map: []string{"node=pve1,id=10c4:ea60"}}, {ID: "moved", USB: true, Map: []string{"node=pve1,id=1a86:7523,path=1-3.2"}},
		{ID: "gone", USB: true, Map: []string{"node=pve1,id=1a86:7523,path=1-9"}}, {ID: "two", USB: true, Map: []string{"node=pve1,id=10c4:ea60", "node=pve1,id=10c4:ea60"}},
	}
	in(t, m, Options{}, func(t *testing.T, s *Sim, c *caller) {
		assert.Contains(t, asRoot(t, s).do("GET", "/nodes/pve1/hardware/usb").body, `"usbpath":"3.2","vendid":"10c4"`)
		assert.Contains(t, c.do("GET", "/cluster/mapping/usb", "check-node", "pve1").body, `"errors":[{"severity":"error","message":"Invalid configuration: usb device '1-9' not found\n`)
		for mapping, says := range want {
			assert.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", "301", "ostype", "l26", "usb0", "mapping="+mapping)))
			assert.Equal(t, says, c.wait(c.do("POST", "/nodes/pve1/qemu/301/status/start")))
			if says == "OK" {
				assert.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/301/status/stop")))
			}
			assert.Equal(t, "OK", c.wait(c.do("DELETE", "/nodes/pve1/qemu/301")))
		}
	})
}
