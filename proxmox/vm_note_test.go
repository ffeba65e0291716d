package proxmox

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

func noted(config map[string]string) *VM {
	vm := vmOf(config, true)
	vm.VMID = 104
	return vm
}

// Our line of the notes is added to what people write, changes alone, and says whose the VM is.
func TestNote(t *testing.T) {
	const uuid, mark = "1b9d6bcd-0000-4000-8000-000000000001", "homelab-a100_104_1b9d6bcd"
	spec := VMSpec{Owner: "homelab-a100", Note: true, Claims: []string{"10.0.0.10", "10.0.0.200-10.0.0.219"}, Description: "A server."}
	notes := func(text string) []change {
		d := &differ{vm: noted(map[string]string{"smbios1": "uuid=" + uuid, "description": text})}
		spec.diffNotes(d, d.vm, uuid)
		return d.all
	}
	const line = "homelab: " + mark + " 10.0.0.10 10.0.0.200-10.0.0.219"
	for have, path := range map[string]string{
		"A server.\n\n" + line: "", "A server.\n\n" + line + "\n": "", line + "\nA server.": "",
		"A server.": "last line of the notes", "A server.\n\nhomelab: " + mark: "last line of the notes", "": "description", line: "description", "mine\n\n" + line: "description",
	} {
		changes := notes(have)
		if path == "" {
			assert.Empty(t, changes, have)
			continue
		}
		require.Len(t, changes, 1, have)
		assert.Equal(t, path, changes[0].Field.Path, have)
		assert.Equal(t, "A server.\n\n"+line, changes[0].Value, have)
	}

	spec.Description = ""
	assert.Empty(t, notes("by hand\n\n"+line), "what somebody wrote stays")
	assert.Equal(t, "by hand\n\n"+line, notes("by hand")[0].Value)
	spec.Description = "A server."

	vm := noted(map[string]string{"smbios1": "uuid=" + uuid, "description": "A server.\n\n" + line})
	assert.True(t, vm.OwnedBy("homelab-a100"))
	assert.False(t, vm.OwnedBy("homelab-a10"))
	var claims []string
	for _, r := range vm.claimedRanges() {
		claims = append(claims, r.String())
	}
	assert.Equal(t, spec.Claims, claims)
	vm.Tags = []string{"gpu"}
	assert.True(t, vm.OwnedBy("homelab-a100"))
	vm.Tags = []string{"homelab-b"}
	assert.False(t, vm.OwnedBy("homelab-a100"), "another cluster has taken it over")
	copied := noted(map[string]string{"smbios1": "uuid=" + strings.Replace(uuid, "1b", "2b", 1), "description": line})
	assert.False(t, copied.OwnedBy("homelab-a100"), "a copy has another UUID, or another VMID")
	copied = readVM("pve1", 105, []configEntry{{Key: "description", Value: (*wire.Text)(&vm.Description)}, {Key: "smbios1", Value: new(wire.Text("uuid=" + uuid))}}, true)
	assert.False(t, copied.OwnedBy("homelab-a100"))

	spec.Claims = []string{strings.Repeat("1", 500), "10.0.0.10"}
	assert.Less(t, len(notes("")[0].Value), 200, "Proxmox takes 8192 characters, and the file may have 8000")
}

// Addresses that a configuration names are read as Proxmox writes them.
func TestAddressesOfAConfiguration(t *testing.T) {
	vm := noted(map[string]string{"ipconfig0": "gw=10.0.0.1,ip=10.0.0.11/24,ip6=fd00::11/64", "ipconfig1": "ip=dhcp", "ipconfig2": "ip6=auto", "net0": "virtio=AA:BB,ip=10.0.0.99/24"})
	assert.Equal(t, []netip.Addr{netip.MustParseAddr("10.0.0.11"), netip.MustParseAddr("fd00::11")}, vm.Addresses())

	for text, want := range map[string]string{"10.0.0.1": "10.0.0.1", "10.0.0.1-10.0.0.9": "10.0.0.1-10.0.0.9", "10.0.0.8/30": "10.0.0.8-10.0.0.11", "fd00::/126": "fd00::-fd00::3", "x": "", "10.0.0.1-x": "", "": ""} {
		r, err := ParseRange(text)
		assert.Equal(t, want == "", err != nil, text)
		if err == nil {
			assert.Equal(t, want, r.String())
		}
	}
	in := func(a, b string) bool {
		x, _ := ParseRange(a)
		y, _ := ParseRange(b)
		assert.Equal(t, x.Overlaps(y), y.Overlaps(x))
		return x.Overlaps(y)
	}
	assert.True(t, in("10.0.0.1-10.0.0.9", "10.0.0.9-10.0.0.12"))
	assert.True(t, in("10.0.0.0/24", "10.0.0.9"))
	assert.False(t, in("10.0.0.1-10.0.0.9", "10.0.0.10"))
	assert.False(t, in("10.0.0.1", "::ffff:a00:1"))
}

// A VM uses a mapping in the slots that name it, whatever else these say, and in no other.
func TestSlotsOfAUSBMapping(t *testing.T) {
	vm := noted(map[string]string{"usb0": "mapping=key", "usb1": "host=10c4:ea60", "usb2": "usb3=1,mapping=key", "usb3": "mapping=keys", "hostpci0": "mapping=key"})
	assert.Equal(t, []string{"usb0", "usb2"}, vm.USBSlots("key"))
	assert.Equal(t, []string{"usb3"}, vm.USBSlots("keys"))
	assert.Empty(t, vm.USBSlots("gone"))
}
