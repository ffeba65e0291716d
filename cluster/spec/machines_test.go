package spec_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// TestMachines: what the file says of machines, by what they are.
func TestMachines(t *testing.T) {
	names := func(nodes []spec.Node) (out []string) {
		for _, n := range nodes {
			out = append(out, n.Name)
		}
		return out
	}
	address := netip.MustParsePrefix("10.0.0.11/24")
	s := &spec.Spec{Name: "a", Nodes: []spec.Node{
		{Name: "cp1", Role: spec.Server, Pool: "cp", Host: "pve1", Address: address, ResourcePool: "b", Protection: spec.Off, OSDisk: spec.OSDisk{DiskOptions: spec.DiskOptions{Storage: "first"}}},
		{Name: "wk1", Role: spec.Agent, Pool: "wk", Host: "pve1", GPUs: spec.GPURequest{Count: 2}, ResourcePool: "a", OSDisk: spec.OSDisk{DiskOptions: spec.DiskOptions{Storage: "second"}}},
		{Name: "wk2", Role: spec.Agent, Host: spec.AnyHost, ResourcePool: "b", Taints: []spec.Taint{{Key: "k", Effect: "NoSchedule"}}},
		{Name: "nuc", Role: spec.Agent, External: true, ResourcePool: "c", Taints: []spec.Taint{{Key: "k", Effect: "NoExecute"}}},
	}}
	s.Proxmox.Hosts = []spec.Host{{Name: "pve1"}, {Name: "pve2", TemplateStorage: "own"}}
	s.Image.TemplateStorage = "of all"
	assert.Equal(t, []string{"cp1"}, names(s.Servers()))
	assert.Equal(t, []string{"wk1", "wk2", "nuc"}, names(s.Agents()))
	assert.Equal(t, []string{"wk1"}, names(s.GPUNodes()))
	assert.Equal(t, 2, s.GPUCount())
	assert.Equal(t, "wk", s.OnlyGPUPool())
	assert.Equal(t, []string{"a", "b"}, s.ResourcePools())
	assert.True(t, s.HasPool("cp") && s.HasPool("wk2") && s.OwnsProtection("cp1") && s.HasMachine("nuc") && s.Nodes[2].Unplaced() && s.Nodes[1].DHCP())
	assert.False(t, s.HasPool("cp1") || s.OwnsProtection("wk1") || s.OwnsProtection("x") || s.HasMachine("x") || s.Nodes[0].Unplaced() || s.Nodes[0].DHCP() || s.IsLab() || s.HasProxmox() || s.Completed())
	n, ok := s.Node("wk2")
	assert.True(t, ok && n.Name == "wk2")
	_, ok = s.Node("x")
	assert.False(t, ok)

	assert.True(t, s.OpenAgents(), "wk1 has no taint")
	s.Nodes[1].Taints = []spec.Taint{{Key: "k", Effect: "PreferNoSchedule"}}
	assert.True(t, s.OpenAgents(), "a preference keeps nothing away")
	s.Nodes[1].Taints[0].Effect = "NoSchedule"
	assert.False(t, s.OpenAgents())

	s.Nodes[3].GPUs.Count = 1
	assert.Empty(t, s.OnlyGPUPool(), "there are two")
	assert.Empty(t, (&spec.Spec{}).OnlyGPUPool())

	assert.Equal(t, address.Addr(), s.APIAddress())
	s.K3s.VIP = netip.MustParseAddr("10.0.0.9")
	assert.Equal(t, s.K3s.VIP, s.APIAddress())

	assert.Equal(t, []string{"", "own", "of all"}, []string{s.TemplateStorage("pve1"), s.TemplateStorage("pve2"), s.TemplateStorage("pve3")})
	s.TemplateAsked = true
	s.TemplatesBeside()
	assert.Empty(t, s.TemplateStorage("pve1"), "the file names another")
	s.TemplateAsked = false
	s.TemplatesBeside()
	assert.Equal(t, []string{"first", "own"}, []string{s.TemplateStorage("pve1"), s.TemplateStorage("pve2")})

	assert.Equal(t, names(s.Nodes), names(s.Machines()))
	s.Platform.Storage.NFS = &spec.NFS{}
	assert.Equal(t, names(s.Nodes), names(s.Machines()))
	s.Platform.Storage.NFS.VM = &spec.NFSVM{Name: "files", Host: "pve2", Storage: "tank", Size: spec.GiB, Cores: 96, Memory: 2 * spec.GiB}
	files := s.Machines()[4]
	assert.Equal(t, "files", files.Name)
	assert.Equal(t, spec.FileServer, files.Role)
	assert.Equal(t, []spec.Size{spec.GiB, spec.GiB}, []spec.Size{files.Disks[0].Size, files.Disks[0].DiskOptions.Size})
	assert.NotEqual(t, spec.Size(spec.GiB), files.OSDisk.Size, "the system's disk has a size of its own")
	assert.Equal(t, []any{64, 96, "tank", "tank"}, []any{files.Network.Queues, files.Cores, files.OSDisk.Storage, files.Disks[0].Storage})
	assert.True(t, s.HasMachine("files"))
	assert.Equal(t, []string{"cp1", "wk1", "wk2", "nuc"}, names(s.Nodes), "it is not a node")
}

func TestIsWithin(t *testing.T) {
	for _, x := range []struct {
		path, mount string
		want        bool
	}{{"/a", "/a", true}, {"/a/b", "/a", true}, {"/a/b", "/a/", true}, {"/ab", "/a", false}, {"/", "/a", false}, {"/a", "/", true}, {"", "", true}, {"", "/", false}} {
		assert.Equal(t, x.want, spec.IsWithin(x.path, x.mount), "%+v", x)
	}
}

// TestVariants: each size of a profile is one, with what the profile says where the size says nothing.
func TestVariants(t *testing.T) {
	one, eight, small, large := spec.CPU{Limit: 1}, spec.CPU{Limit: 8}, spec.Memory{Limit: spec.GiB}, spec.Memory{Limit: 2 * spec.GiB}
	plain := spec.HubProfile{Name: "plain", CPU: one, GPUs: 1}
	sized := spec.HubProfile{Name: "sized", CPU: one, Memory: small, Sizes: []spec.HubSize{{Name: "s"}, {Name: "l", CPU: eight, Memory: large, GPUs: 2}}}
	assert.Equal(t, []spec.HubProfile{plain, {Name: "sized/s", CPU: one, Memory: small}, {Name: "sized/l", CPU: eight, Memory: large, GPUs: 2}}, spec.Variants(plain, sized))
	h := &spec.Hub{Profiles: []spec.HubProfile{plain, sized}, Shared: []spec.HubShare{{Name: "data"}}}
	assert.Same(t, &h.Profiles[1], h.Profile("sized/l"))
	assert.Same(t, &h.Profiles[0], h.Profile("plain"))
	assert.Nil(t, h.Profile("x"))
	assert.Same(t, &h.Shared[0], h.Share("data"))
	assert.Nil(t, h.Share("x"))
	for _, a := range []spec.HubAuth{{}, {Kind: spec.AuthOIDC}, {Kind: spec.AuthOIDC, OIDC: &spec.OIDCAuth{}}, {OIDC: &spec.OIDCAuth{GroupsClaim: "g"}}} {
		assert.False(t, a.Groups(), "%+v", a)
	}
	assert.True(t, spec.HubAuth{Kind: spec.AuthOIDC, OIDC: &spec.OIDCAuth{GroupsClaim: "g"}}.Groups())
}

func TestSharing(t *testing.T) {
	for _, x := range []struct {
		s      spec.Sharing
		name   string
		shared bool
	}{{spec.Sharing{}, "none", false}, {spec.Sharing{Strategy: spec.SharingMPS, Replicas: 4}, "mps-4", true}, {spec.Sharing{Strategy: spec.SharingTimeSlicing, Replicas: 1}, "time-slicing", true},
		{spec.Sharing{Strategy: spec.SharingMIG}, "mig", false}} {
		assert.Equal(t, x.name, x.s.Name())
		assert.Equal(t, x.shared, x.s.Shared(), x.name)
	}
	assert.Equal(t, "2 of 1g.5gb, 1 of 3g.20gb", spec.MIGLayout{Profiles: map[string]int{"3g.20gb": 1, "1g.5gb": 2}}.String())
	for d, want := range map[spec.Device]string{{PCI: "scanner"}: "scanner", {USB: "stick"}: "stick", {PCI: "0000:01:00.0"}: "", {USB: "1234:abcd"}: ""} {
		assert.Equal(t, want, d.NamedMapping())
	}
	assert.True(t, spec.LabGuests{Guests: "qemu"}.QEMU() && spec.LabGuests{ControlPlane: "real"}.Kubernetes() && spec.Kubernetes{CNI: "cilium"}.Cilium())
	assert.False(t, spec.LabGuests{}.QEMU() || spec.LabGuests{}.Kubernetes() || spec.K3s{}.Cilium())
}
