package hostprep

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/proxmox"
)

// GPUs of external machines are none of Proxmox's.
func TestWhoWantsGPUs(t *testing.T) {
	for want, nodes := range map[bool][]spec.Node{
		true:  {{Name: "cp1"}, {Name: "a", GPUs: spec.GPURequest{Count: 1}}},
		false: {{Name: "cp1"}, {Name: "x", External: true, GPUs: spec.GPURequest{Count: 1}}},
	} {
		assert.Equal(t, want, wantsGPUs((&spec.Spec{Nodes: nodes})))
	}
}

// The right to use the guest agent has another name since Proxmox VE 9.
func TestGuestAgentRight(t *testing.T) {
	for release, want := range map[string]string{"8.4": "VM.Monitor", "9.0": "VM.GuestAgent.Unrestricted"} {
		var rights []string
		for _, g := range Grants(&spec.Spec{Nodes: []spec.Node{{Name: "cp1", Host: "pve1"}}}, proxmox.Version{Version: release, Release: release}) {
			rights = append(rights, g.Privileges...)
		}
		for _, r := range []string{"VM.Monitor", "VM.GuestAgent.Unrestricted"} {
			assert.Equal(t, r == want, slices.Contains(rights, r), "%s of %s", r, release)
		}
	}
}

// A template of the file needs nothing for making one: no download, no storage of images, no bridge for its VM.
func TestRightsForATemplate(t *testing.T) {
	file := &spec.Spec{Network: spec.Network{Bridge: "vmbr9"}, Proxmox: spec.Proxmox{Hosts: []spec.Host{{Name: "pve1", TemplateStorage: "templates"}}},
		Image: spec.Image{SeedStorage: "isos", ImageStorage: "images"}}
	for _, bridge := range []string{"vmbr2", "vmbr1", "vmbr2"} {
		n := spec.Node{Host: "pve1", OSDisk: spec.OSDisk{DiskOptions: spec.DiskOptions{Storage: "disks"}}}
		n.Network.Bridge = bridge
		file.Nodes = append(file.Nodes, n)
	}
	rights := func() map[string][]string {
		out := map[string][]string{}
		for _, g := range Grants(file, proxmox.Version{Version: "9.0", Release: "9.0"}) {
			out[g.Path] = append(out[g.Path], g.Privileges...)
		}
		delete(out, "/vms")
		return out
	}
	use := []string{"SDN.Use"}
	isos := []string{"Datastore.Audit", "Datastore.AllocateTemplate", "Datastore.Allocate"}
	want := map[string][]string{"/storage/disks": {"Datastore.AllocateSpace"}, "/storage/isos": isos, "/sdn/zones/localnetwork/vmbr1": use, "/sdn/zones/localnetwork/vmbr2": use}
	file.Image.Template = "9000"
	assert.Equal(t, want, rights())
	file.Image.Template = ""
	want["/sdn/zones/localnetwork/vmbr9"], want["/storage/images"], want["/nodes/pve1"] = use, isos, []string{"Sys.AccessNetwork"}
	want["/storage/templates"] = []string{"Datastore.AllocateSpace", "Datastore.Audit"}
	assert.Equal(t, want, rights())
	bridges := bridgeGrants(file)
	assert.True(t, slices.IsSortedFunc(bridges, func(a, b proxmox.Grant) int { return strings.Compare(a.Path, b.Path) }))
}

// What homelab makes a mapping for needs the right to make one; of an existing mapping, the right to use it is enough.
func TestMappingRights(t *testing.T) {
	card := spec.GPURequest{Mapping: []string{"card"}}
	for want, n := range map[string]spec.Node{
		"/mapping/pci":      {Devices: []spec.Device{{PCI: "1ac1:089a"}}},
		"/mapping/usb":      {Devices: []spec.Device{{USB: "10c4:ea60"}}},
		"/mapping/pci/card": {GPUs: card},
		"/mapping/pci/tpu":  {Devices: []spec.Device{{PCI: "tpu"}}},
		"/mapping/usb/key":  {Devices: []spec.Device{{USB: "key"}}},
		"":                  {External: true, GPUs: card, Devices: []spec.Device{{USB: "key"}, {PCI: "1ac1:089a"}}},
	} {
		got := ""
		for _, g := range mappingGrants(&spec.Spec{Nodes: []spec.Node{{Name: "cp1"}, n, n}}) {
			got += g.Path
		}
		assert.Equal(t, want, got)
	}
}

// An entry on a path replaces what the user inherits there, so rights from above are left as they are, and so
// are those that no entry of the user explains: a group's.
func TestInheritedRights(t *testing.T) {
	a := Access{Prefix: "homelab-x", TokenID: "u@pve!t"}
	entry := func(path, role string) ACL { return ACL{Path: path, Who: "u@pve", Role: role, Propagate: true} }
	mine := entry("/", "homelab-x-vms")
	for name, tt := range map[string]struct {
		all  []ACL
		want bool
	}{
		"a group's": {nil, true}, "above": {[]ACL{entry("/vms", "r")}, true}, "root": {[]ACL{mine, entry("/", "r")}, true}, "ours": {[]ACL{mine}, false},
		"on it": {[]ACL{entry("/", "r"), entry("/vms/1", "r")}, false}, "beside it": {[]ACL{mine, entry("/vm", "r")}, false},
		"not for paths below": {[]ACL{mine, {Path: "/vms", Who: "u@pve", Role: "r"}}, false}, "another's": {[]ACL{mine, {Path: "/vms", Who: "v@pve", Role: "r", Propagate: true}}, false},
	} {
		s := AccessState{ACLs: tt.all, Owner: map[string]map[string]bool{"/vms/1": {"VM.Audit": true}}}
		assert.Equal(t, tt.want, a.inherits(s, "/vms/1"), name)
		assert.False(t, a.inherits(s, "/pool/x"), "%s: no rights there", name)
	}
}
