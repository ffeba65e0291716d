package preflight

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

func findings(all []Finding) (out []string) {
	for _, f := range all {
		out = append(out, fmt.Sprintf("%s %s: %s [%s]", f.Verdict, f.Subject, f.Evidence, f.Cure))
	}
	return out
}

// TestAddressesThatOthersHave: who has an address or a MAC that is meant for a machine of ours, and whether that stops anything.
func TestAddressesThatOthersHave(t *testing.T) {
	at := netip.MustParseAddr("10.0.0.11")
	vm := func(name string, id int, tags ...string) proxmox.Resident {
		return proxmox.Resident{Summary: proxmox.Summary{Name: name, VMID: id, Host: "pve1", Tags: tags}}
	}
	lease := proxmox.Lease{Addr: at, VNet: "lab", Hostname: "printer"}
	const (
		change = "give it another address, or remove that machine, or its address in Proxmox"
		list   = "give it another address, or take it off the list: Datacenter, SDN, IPAM in the web interface"
	)
	for _, x := range []struct {
		name string
		do   func(w *Requirements, s *observation)
		want []string
	}{
		{"nobody", func(*Requirements, *observation) {}, nil},
		{"a VM", func(_ *Requirements, s *observation) {
			s.neighbours.is = []proxmox.Neighbour{{Resident: vm("win", 104), Addresses: []netip.Addr{at}}}
		}, []string{"error gpu1: 10.0.0.11 of gpu1 is taken: win (VM 104 on pve1) has it [" + change + "]"}},
		{"a container of another cluster", func(w *Requirements, s *observation) {
			w.Addresses[0].Place = "cluster.yaml:3:1"
			n := proxmox.Neighbour{Resident: vm("other1", 104, "x", "homelab-other_104_0a0b0c0d"), Claims: []proxmox.Range{{First: at, Last: at}}}
			n.Container = true
			s.neighbours.is = []proxmox.Neighbour{n}
		}, []string{"error gpu1: cluster.yaml:3:1: 10.0.0.11 of gpu1 is taken: other1 (container 104 on pve1) of cluster other has it [give it another address, or remove that cluster with its own file: cluster:down]"}},
		{"a stray with our tag", func(_ *Requirements, s *observation) {
			s.neighbours.is = []proxmox.Neighbour{{Resident: vm("old1", 104, "homelab-lab"), Addresses: []netip.Addr{at}}}
		}, []string{"warning gpu1: 10.0.0.11 of gpu1 is taken: old1 (VM 104 on pve1), which has this cluster's tag but is not its machine, has it [" + change + "]"}},
		{"a machine of ours", func(_ *Requirements, s *observation) {
			s.neighbours.is, s.marked.is = []proxmox.Neighbour{{Resident: vm("old1", 104), Addresses: []netip.Addr{at}}}, map[int]bool{104: true}
		}, nil},
		{"its namesake", func(_ *Requirements, s *observation) {
			s.neighbours.is = []proxmox.Neighbour{{Resident: vm("gpu1", 104), Addresses: []netip.Addr{at}}}
		}, nil},
		{"the machine exists", func(_ *Requirements, s *observation) {
			s.residents.is, s.marked.is = []proxmox.Resident{vm("gpu1", 103)}, map[int]bool{103: true}
			s.neighbours.is = []proxmox.Neighbour{{Resident: vm("win", 104), Addresses: []netip.Addr{at}, MACs: []string{"02:00:00:00:00:01"}}}
		}, nil},
		{"an address of a cluster that exists", func(w *Requirements, s *observation) {
			w.Addresses[0].Shared = true
			s.residents.is, s.marked.is = []proxmox.Resident{vm("gpu1", 103)}, map[int]bool{103: true}
			s.neighbours.is = []proxmox.Neighbour{{Resident: vm("win", 104), Addresses: []netip.Addr{at}}}
		}, []string{"warning gpu1: 10.0.0.11 of gpu1 is taken: win (VM 104 on pve1) has it [" + change + "]"}},
		{"external machines have it", func(w *Requirements, s *observation) {
			w.Addresses[0].Exists = true
			s.neighbours.is = []proxmox.Neighbour{{Resident: vm("win", 104), Addresses: []netip.Addr{at}}}
		}, nil},
		{"the list", func(_ *Requirements, s *observation) { s.leases.is = []proxmox.Lease{lease} },
			[]string{"error gpu1: 10.0.0.11 of gpu1 is taken: Proxmox's IPAM keeps it for printer [" + list + "]"}},
		{"the list, for ourselves", func(_ *Requirements, s *observation) {
			l := lease
			l.MAC = "02:00:00:00:00:0A"
			s.leases.is = []proxmox.Lease{l, {Addr: netip.MustParseAddr("10.0.0.12"), VNet: "lab"}, {Addr: at, VNet: "other"}}
		}, nil},
		{"the list, for a machine of ours", func(_ *Requirements, s *observation) {
			l := lease
			l.VMID, s.marked.is = 104, map[int]bool{104: true}
			s.leases.is = []proxmox.Lease{l}
		}, nil},
		{"something answers", func(_ *Requirements, s *observation) { s.answers[0].is = "an SSH server answers there" },
			[]string{"error gpu1: 10.0.0.11 of gpu1 is taken: an SSH server answers there [give it another address, or switch off what has it]"}},
		{"the host", func(_ *Requirements, s *observation) {
			s.byHost["pve1"].bridges.is = []proxmox.Bridge{{Name: "vmbr1"}, {Name: "vmbr0", CIDR: "10.0.0.11/24"}, {Name: "vmbr2", CIDR: "10.0.0.12/24"}}
		}, []string{"error gpu1: 10.0.0.11 of gpu1 is taken: host pve1 has 10.0.0.11 on vmbr0 [give it another address]"}},
		{"a MAC", func(_ *Requirements, s *observation) {
			s.neighbours.is = []proxmox.Neighbour{{Resident: vm("win", 104), MACs: []string{"", "02:00:00:00:00:0A"}}, {Resident: vm("gpu1", 105), MACs: []string{"02:00:00:00:00:0a"}}}
		}, []string{"error gpu1: the MAC of gpu1 is taken: win (VM 104 on pve1) has it [write another mac: for it, or remove the other: two machines with one MAC disturb each other]"}},
		{"bridges that cannot be seen", func(_ *Requirements, s *observation) { s.byHost["pve1"].bridges.err = errors.New("no\nask") }, []string{"skipped pve1: no [ask]"}},
		{"neighbours that cannot be seen", func(_ *Requirements, s *observation) { s.neighbours.err = errors.New("no"); s.answers[0].is = "x" }, []string{"skipped : no []"}},
		{"a list that cannot be seen", func(_ *Requirements, s *observation) { s.leases.err = errors.New("no"); s.answers[0].is = "x" },
			[]string{"skipped : no []", "error gpu1: 10.0.0.11 of gpu1 is taken: x [give it another address, or switch off what has it]"}},
	} {
		w := &Requirements{Owner: "homelab-lab", Hosts: []Host{{Name: "pve1"}}, VMs: []VM{{Name: "gpu1", Host: "pve1", NICs: []proxmox.NIC{{Bridge: "lab", MAC: "02:00:00:00:00:0a"}, {Bridge: "lab2"}}}},
			Addresses: []Address{{Range: proxmox.Range{First: at, Last: at}, Owner: "gpu1", By: []string{"gpu1"}}}}
		s := &observation{answers: make([]fact[string], 1), byHost: map[string]*hostObservation{"pve1": {}}}
		x.do(w, s)
		assert.Equal(t, x.want, findings(checkAddresses(w, s)), x.name)
	}
}

// TestWhoIsAsked: which of what runs keeps addresses from being dialled, and whose list is read.
func TestWhoIsAsked(t *testing.T) {
	w := &Requirements{VMs: []VM{{Name: "gpu1", NICs: []proxmox.NIC{{Bridge: "lab"}}}}, Addresses: []Address{{By: []string{"cp1"}}}}
	s := &observation{marked: fact[map[int]bool]{is: map[int]bool{104: true}}}
	resident := func(name string, running, container bool, id int) {
		r := proxmox.Resident{Summary: proxmox.Summary{Name: name, VMID: id, Running: running}}
		r.Container = container
		s.residents.is = []proxmox.Resident{r}
	}
	for _, x := range []struct {
		name            string
		running         bool
		id              int
		restless, named bool
	}{{"old1", true, 104, true, false}, {"old1", false, 104, false, false}, {"old1", true, 105, false, false}, {"gpu1", true, 104, false, true}, {"cp1", true, 104, false, false}} {
		resident(x.name, x.running, false, x.id)
		assert.Equal(t, x.restless, s.restless(w), "%+v", x)
		assert.Equal(t, x.named, s.namesake([]string{"gpu1"}), "%+v", x)
	}
	resident("gpu1", true, true, 104)
	assert.False(t, s.namesake([]string{"gpu1"}), "a container is not a copy of a VM")
	for _, b := range []proxmox.Bridge{{Name: "lab", IPAM: true}, {Name: "lab"}, {Name: "other", IPAM: true}} {
		s.byHost = map[string]*hostObservation{"pve1": {bridges: fact[[]proxmox.Bridge]{is: []proxmox.Bridge{b}}}}
		assert.Equal(t, b.Name == "lab" && b.IPAM, s.leased(w), "%+v", b)
	}
}

// TestClones: what a clone copies, and what keeps it from being one.
func TestClones(t *testing.T) {
	w := &Requirements{Hosts: []Host{{Name: "pve1"}}, VMs: []VM{{Name: "a", Disks: []proxmox.Disk{{Storage: "gone"}}}, {Name: "b", Disks: []proxmox.Disk{{Storage: "tank"}}}, {Name: "c"}}}
	seen := &hostObservation{storages: fact[[]proxmox.Storage]{is: []proxmox.Storage{{Name: "tank", Type: "lvmthin", Enabled: true, Active: true, Content: []string{"images"}}}}}
	whole := proxmox.Cloning{Mode: proxmox.FullClone, Size: 10 * proxmox.GiB, Reason: "tank is another storage"}
	unknown := proxmox.Cloning{Mode: proxmox.FullClone, Reason: "it is"}
	none := proxmox.Cloning{Reason: "no", Cure: "move it"}
	seen.clones.is = map[string]proxmox.Cloning{"a": none, "b": none, "c": none, "d": whole, "e": whole, "f": unknown, "g": {Mode: proxmox.LinkedClone}}
	assert.Equal(t, []string{"error pve1: no clone on pve1 can be made of the template, for b, c: no [move it]",
		"ok pve1: on pve1 the template is copied as a whole, 10GiB each time, for d, e: tank is another storage []",
		"ok pve1: on pve1 the template is copied as a whole for f: it is []"}, findings(checkClones(w, nil, w.Hosts[0], seen)))
	seen.storages.is[0].Active = false
	assert.Contains(t, findings(checkClones(w, nil, w.Hosts[0], seen))[0], ", for c: no")
	for err, verdict := range map[error]Verdict{errors.New("there is no template\n  make one"): Error, fmt.Errorf("x: %w", &api.Error{Message: "no"}): Skipped} {
		seen.clones.err = err
		found := checkClones(w, nil, w.Hosts[0], seen)
		assert.Equal(t, verdict, found[0].Verdict)
		if verdict == Error {
			assert.Equal(t, []string{"error pve1: there is no template [make one]"}, findings(found))
			assert.ErrorIs(t, found[0].Err, err)
		}
	}
}

// TestBridgesThatAreMissing: what to write instead of a name that is not one of the host's bridges.
func TestBridgesThatAreMissing(t *testing.T) {
	h := Host{Name: "pve1"}
	bridges := func(all ...proxmox.Bridge) *hostObservation {
		return &hostObservation{bridges: fact[[]proxmox.Bridge]{is: all}}
	}
	vmbr0 := proxmox.Bridge{Name: "vmbr0", Type: "bridge", Active: true}
	s := &observation{byHost: map[string]*hostObservation{"pve1": bridges(vmbr0), "pve2": bridges(vmbr0, proxmox.Bridge{Name: "blue", Type: "vnet"}, proxmox.Bridge{Name: "vmbr7", Type: "bridge"})}}
	const make = "write bridge: with one of them, or make it: System, Network in the web interface; a VNet of Proxmox's SDN is seen with SDN.Use on /sdn/zones/ZONE/"
	no := "VMs join bridges, no cards, bonds or VLANs of the host: write bridge: with one of them (and vlan: for a VLAN of it), or make one whose port is "
	for bridge, want := range map[string]string{
		"vmbr0.20": "it has vmbr0 [write bridge: vmbr0 and vlan: 20]", "vmbr1.20": "it has vmbr0 [" + no + "vmbr1.20]", "bond0": "it has vmbr0 [" + no + "bond0]",
		"vmbr9": "it has vmbr0 [" + make + "vmbr9]", "vmbr7": "it has vmbr0; pve2 has vmbr7 [" + make + "vmbr7]",
		"blue": "it has vmbr0; pve2 has the VNet blue, whose zone is not on pve1 [add pve1 to the nodes of its zone: Datacenter, SDN, Zones, and apply]",
	} {
		w := &Requirements{Hosts: []Host{h}, VMs: []VM{{Name: "a", Host: "pve1", NICs: []proxmox.NIC{{Bridge: bridge}, {Bridge: "vmbr0"}}}}}
		assert.Equal(t, []string{"error " + bridge + ": host pve1 has no bridge " + bridge + ", for a, or the token may not see it; " + want}, findings(checkNetworks(w, s, h, s.byHost["pve1"])))
	}
	w := &Requirements{VMs: []VM{{Name: "a", Host: "pve1", NICs: []proxmox.NIC{{Bridge: "blue", MTU: 1451}}}}}
	vnet := bridges(proxmox.Bridge{Name: "blue", Type: "vnet", Active: true})
	assert.Len(t, checkNetworks(w, s, h, vnet), 1)
	w.VMs[0].NICs[0].MTU = 1450
	assert.Empty(t, checkNetworks(w, s, h, vnet))
	assert.Equal(t, []string{"skipped pve1: host pve1 shows no bridge: the token may not see them; grant it SDN.Use on /sdn/zones/localnetwork []"}, findings(checkNetworks(w, s, h, bridges())))
	vnet.bridges.err = errors.New("no")
	assert.Equal(t, []string{"skipped pve1: no []"}, findings(checkNetworks(w, s, h, vnet)))
}

// TestRoomOfStorages: full is less than what is to be made, and nearly full less than a twentieth.
func TestRoomOfStorages(t *testing.T) {
	h := Host{Name: "pve1", Storages: []StorageUse{{Storage: "tank", Content: "images"}}}
	for free, want := range map[proxmox.Size]string{full - 1: "error", full: "warning", 5*proxmox.GiB - 1: "warning", 5 * proxmox.GiB: ""} {
		seen := &hostObservation{storages: fact[[]proxmox.Storage]{is: []proxmox.Storage{{Name: "tank", Enabled: true, Active: true, Total: 100 * proxmox.GiB, Free: free}}}}
		got := ""
		for _, f := range checkStorages(nil, &observation{}, h, seen) {
			got += string(f.Verdict)
		}
		assert.Equal(t, want, got, free)
	}
	assert.Equal(t, "a, b, c, d|a, b, c and 2 more", firstNames([]string{"a", "b", "c", "d"})+"|"+firstNames([]string{"a", "b", "c", "d", "e"}))
	w := &Requirements{VMs: []VM{{Name: "a", Host: "pve1", Disks: []proxmox.Disk{{Storage: "other"}}}, {Name: "b", Host: "pve1"}}}
	assert.Zero(t, newDisks(w, &observation{}, h, "tank"))
}

// TestCopies: claims are of copies of our machines only if all are, by mappings of ours.
func TestCopies(t *testing.T) {
	ours := &pci.Ledger{Mappings: []pci.MappingState{{Mapping: pci.Mapping{ID: "m", Description: "ours"}}, {Mapping: pci.Mapping{ID: "n", Description: "theirs"}}}}
	w := &Requirements{Owner: "homelab-lab", Mappings: func(_, description string) bool { return description == "ours" }}
	for mapping, want := range map[string]bool{"m": true, "n": false, "": false} {
		cl := pci.Claim{Tags: []string{"homelab-lab"}, Mapping: mapping}
		assert.Equal(t, want, copied(w, ours, []pci.Claim{cl}), mapping)
		assert.False(t, copied(&Requirements{Owner: w.Owner}, ours, []pci.Claim{cl}), "no mapping is ours")
		assert.False(t, copied(w, ours, []pci.Claim{cl, {}}))
	}
	assert.False(t, copied(w, ours, nil))
}

// TestVMIDsThatAreTaken: a number of the file may be another guest's, seen or not.
func TestVMIDsThatAreTaken(t *testing.T) {
	w := &Requirements{VMs: []VM{{Name: "a", VMID: 101}, {Name: "b", VMID: 102}, {Name: "c", VMID: 103}, {Name: "d", VMID: 104}, {Name: "e"}, {Name: "f", VMID: 106}}}
	s := &observation{marked: fact[map[int]bool]{is: map[int]bool{101: true}}, vmids: map[int]fact[bool]{103: {is: true}, 104: {err: errors.New("no")}}}
	s.residents.is = []proxmox.Resident{{Summary: proxmox.Summary{Name: "a", VMID: 101, Host: "pve1"}}, {Summary: proxmox.Summary{Name: "win", VMID: 102, Host: "pve2"}}}
	assert.Equal(t, []string{"error b: b has vmid 102 in the file, and that VM is win on pve2 [change or delete the vmid of b]",
		"error c: c has vmid 103 in the file, and that VM exists, invisible to the token [change or delete the vmid of c]", "skipped d: no []"}, findings(checkVMIDs(w, s)))
	s.residents.err = errors.New("no")
	for _, check := range []func(*Requirements, *observation) []Finding{checkVMIDs, checkStubs} {
		assert.Equal(t, []string{"skipped : no []"}, findings(check(w, s)))
	}
	assert.Empty(t, checkDisks(w, s), "the check of memory says it")
}
