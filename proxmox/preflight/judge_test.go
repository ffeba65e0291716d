package preflight

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// TestMemoryThatIsLentOut has containers, whose limits are no promises, and VMs whose
// memory is theirs on paper alone.
func TestMemoryThatIsLentOut(t *testing.T) {
	s := &observation{hosts: fact[[]proxmox.Host]{is: []proxmox.Host{{Name: "pve1", Online: true, Memory: 128 * proxmox.GiB}}},
		byHost: map[string]*hostObservation{"pve1": {status: fact[proxmox.HostStatus]{is: proxmox.HostStatus{Available: 100 * proxmox.GiB}}}}}
	w := &Requirements{Hosts: []Host{{Name: "pve1"}}, VMs: []VM{{Name: "gpu1", Host: "pve1", Memory: 64 * proxmox.GiB, GPUs: GPUs{Count: 1}}}}
	other := proxmox.Resident{Container: true, Used: proxmox.GiB, Summary: proxmox.Summary{Name: "web", VMID: 100, Host: "pve1", Running: true, Memory: 100 * proxmox.GiB}}
	s.residents.is = []proxmox.Resident{other}
	assert.Empty(t, checkMemory(w, s))

	other.Container = false
	s.residents.is = []proxmox.Resident{other}
	found := checkMemory(w, s)
	if assert.Len(t, found, 1) {
		assert.Equal(t, Warning, found[0].Verdict, "all of it is free now: %s", found[0])
	}
	s.byHost["pve1"].status.is.Available = 27 * proxmox.GiB
	assert.Equal(t, Error, checkMemory(w, s)[0].Verdict)
}

// TestWhoHasACard: a template alone never takes its cards.
func TestWhoHasACard(t *testing.T) {
	for name, c := range map[string]struct {
		claim pci.Claim
		taken bool
	}{
		"stopped":                       {pci.Claim{}, true},
		"ours":                          {pci.Claim{VMID: 104, Tags: []string{"homelab-small"}}, false},
		"a copy of ours":                {pci.Claim{VMID: 900, Tags: []string{"homelab-small"}}, true},
		"template":                      {pci.Claim{Template: true}, false},
		"mediated device":               {pci.Claim{Shared: true, Running: true}, true},
		"let go, but not yet restarted": {pci.Claim{Leaving: true, Running: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.taken, otherClaims(pci.Card{Claims: []pci.Claim{c.claim}}, map[int]bool{104: true}) != "")
		})
	}
}

// TestCandidatesAreOfTheHost: a mapping of several hosts has another card at the same
// address elsewhere.
func TestCandidatesAreOfTheHost(t *testing.T) {
	at := func(text string) proxmox.PCIAddress {
		a, err := proxmox.ParsePCIAddress(text)
		require.NoError(t, err)
		return a
	}
	m := pci.MappingState{Mapping: pci.Mapping{ID: "gpus", Devices: []pci.MappedDevice{
		{Host: "pve1", Address: at("41:00")}, {Host: "pve2", Address: at("01:00")}}}}
	card := func(text, device string) pci.GPU {
		return pci.GPU{Function: pci.Function{Address: at(text), Vendor: "10de", Device: device}}
	}
	seen := &hostObservation{cards: fact[[]pci.GPU]{is: []pci.GPU{card("01:00.0", "128b"), card("41:00.0", "20b5")}},
		mappings: fact[[]pci.MappingState]{is: []pci.MappingState{m}}}
	ids, _ := candidates(&Requirements{VMs: []VM{{Name: "gpu1", Host: "pve1", GPUs: GPUs{Count: 1, Mappings: []string{"gpus"}}}}}, nil, nil, seen, "pve1")
	if assert.Len(t, ids, 1) {
		assert.Equal(t, "10de:20b5", ids[0].String())
	}
}

// TestAVNetIsInAZoneOfItsOwn: what the file can only call a bridge of the host.
func TestAVNetIsInAZoneOfItsOwn(t *testing.T) {
	w := &Requirements{Grants: []proxmox.Grant{{Path: "/sdn/zones/localnetwork/blue", Privileges: []string{"SDN.Use"}, Propagate: true}}}
	for name, c := range map[string]struct {
		kind string
		have proxmox.PermissionTree
		want []Verdict
	}{
		"bridge":              {"bridge", proxmox.PermissionTree{"/sdn/zones/lan/blue": {"SDN.Use": true}}, []Verdict{Error}},
		"vnet":                {"vnet", proxmox.PermissionTree{"/sdn/zones/lan/blue": {"SDN.Use": false}}, nil},
		"its zone":            {"vnet", proxmox.PermissionTree{"/sdn/zones/lan": {"SDN.Use": true}}, nil},
		"its zone, no deeper": {"vnet", proxmox.PermissionTree{"/sdn/zones/lan": {"SDN.Use": false}}, []Verdict{Skipped}},
		"another vnet":        {"vnet", proxmox.PermissionTree{"/sdn/zones/lan/red": {"SDN.Use": true}}, []Verdict{Skipped}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &observation{token: "a@pve!b", permissions: fact[proxmox.PermissionTree]{is: c.have}, byHost: map[string]*hostObservation{
				"pve1": {bridges: fact[[]proxmox.Bridge]{is: []proxmox.Bridge{{Name: "blue", Type: c.kind, Active: true}}}}}}
			var got []Verdict
			for _, f := range checkGrants(w, s) {
				got = append(got, f.Verdict)
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// TestStoragesThatTakeNoFiles: there is nothing to paste for them, Proxmox refuses it.
func TestStoragesThatTakeNoFiles(t *testing.T) {
	thin := proxmox.Storage{Name: "local-lvm", Type: "lvmthin", Content: []string{"images", "rootdir"}}
	assert.NotContains(t, contentCure(thin, "import", []string{"import"}), "pvesm")
	none := proxmox.Storage{Name: "nas", Type: "nfs", Content: []string{"none"}}
	assert.Equal(t, "run on the host: `pvesm set nas --content import,iso`", contentCure(none, "import", []string{"import", "iso"}))
	assert.Contains(t, contentCure(proxmox.Storage{Name: "pool", Type: "zfspool", Content: []string{"rootdir"}}, "images", []string{"images"}), "rootdir,images")
}

// TestFullIsNoRoomForWhatIsMade: an ISO is small, and where nothing is made nothing is full.
func TestFullIsNoRoomForWhatIsMade(t *testing.T) {
	s := &observation{byHost: map[string]*hostObservation{"pve1": {storages: fact[[]proxmox.Storage]{is: []proxmox.Storage{
		{Name: "local", Active: true, Total: 100 * proxmox.GiB, Free: 500 * proxmox.MiB}}}}}}
	use := func(content string) *Requirements {
		return &Requirements{Hosts: []Host{{Name: "pve1", Storages: []StorageUse{{Storage: "local", Content: "iso"}, {Storage: "local", Content: content}}}}}
	}
	assert.Equal(t, Warning, check{host: checkStorages}.findings(use("iso"), s)[0].Verdict)
	assert.Equal(t, Error, check{host: checkStorages}.findings(use("images"), s)[0].Verdict)
	s.brief = true
	assert.Equal(t, Warning, check{host: checkStorages}.findings(use("images"), s)[0].Verdict)
}

// TestVLANsFindTheirWay: which bridges carry a VLAN. TestNetworksOfHosts of sim/pvesim has what a
// start says of the others.
func TestVLANsFindTheirWay(t *testing.T) {
	others := []proxmox.Bridge{{Name: "vmbr20", Type: "bridge", Ports: []string{"bond1.20"}}}
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
		"a vnet":        {proxmox.Bridge{Type: "vnet"}, "the VNet vmbr0 on pve1 is not VLAN-aware"},
		"an aware vnet": {proxmox.Bridge{Type: "vnet", VLANAware: true}, ""},
		"a long name":   {proxmox.Bridge{Type: "bridge", Ports: []string{"enp129s0f0np0"}}, "cannot make enp129s0f0np0.20 for VLAN 20"},
		"a taken port":  {proxmox.Bridge{Type: "bridge", Ports: []string{"bond1"}}, "interface bond1.20 already exist in bridge vmbr20"},
	} {
		t.Run(name, func(t *testing.T) {
			c.bridge.Name, c.bridge.Active = "vmbr0", true
			found := plug{nic: proxmox.NIC{Bridge: "vmbr0", VLAN: 20}, vms: []string{"gpu1"}}.checkBridge("pve1", c.bridge, others)
			if c.say == "" {
				assert.Empty(t, found)
			} else if assert.Len(t, found, 1) {
				assert.Contains(t, found[0].Evidence, c.say)
			}
		})
	}
}
