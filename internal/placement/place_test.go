package placement_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/placement"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// hosts is what Proxmox has: pve1 with two RTX 4090, 32 CPUs and 256 GiB, pve2 with two A100, 64 and 512.
type hosts struct {
	model pvesim.Model
	sim   *pvesim.Sim
	want  *spec.Spec
}

func node(name, host string, role spec.Role, memory proxmox.Size, gpus int) spec.Node {
	n := spec.Node{Name: name, Host: host, Role: role, Cores: 4, Memory: memory * spec.GiB, GPUs: spec.GPURequest{Count: gpus}}
	n.OSDisk.Storage = "vmdata"
	return n
}

func (h *hosts) dial(t *testing.T) *proxmox.Client {
	t.Helper()
	id, token := h.sim.Token()
	pve, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: h.sim.Client()})
	require.NoError(t, err)
	return pve
}

// on runs a test with a spec of nodes on the two hosts, which change makes others.
func on(t *testing.T, change func(h *hosts), test func(t *testing.T, h *hosts, pve *proxmox.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &hosts{model: pvesim.TwoHosts(), want: &spec.Spec{Name: "lab", Nodes: []spec.Node{
			node("cp1", spec.AnyHost, spec.Server, 8, 0), node("wk1", spec.AnyHost, spec.Agent, 32, 0), node("gpu1", spec.AnyHost, spec.Agent, 32, 1),
		}}}
		h.want.Proxmox.Hosts = []spec.Host{{Name: "pve1"}, {Name: "pve2"}}
		if change != nil {
			change(h)
		}
		h.sim = pvesim.New(h.model, pvesim.Options{})
		defer h.sim.Close()
		test(t, h, h.dial(t))
	})
}

func vm(host, name string, gib string, config ...string) pvesim.VM {
	out := pvesim.VM{ID: 400, Node: host, Name: name, Config: map[string]string{"memory": gib + "000"}}
	for i := 0; i+1 < len(config); i += 2 {
		out.Config[config[i]] = config[i+1]
	}
	return out
}

// ours is a VM that is marked as this cluster's.
func ours(host, name, gib string, config ...string) pvesim.VM {
	return vm(host, name, gib, append(config, "smbios1", "uuid=0a0b0c0d-0000-4000-8000-000000000000", "tags", "homelab-lab;homelab-lab_400_0a0b0c0d")...)
}

// A node goes to the host with the most room, by what is there: of memory and cards, others' and ours.
func TestWhichHostANodeGets(t *testing.T) {
	note := names.MappingNote(&spec.Spec{Name: "lab"})
	type of = map[string]string
	for name, tt := range map[string]struct {
		change func(h *hosts)
		want   of
		why    of
	}{
		"the larger one": {nil, of{"cp1": "pve2", "wk1": "pve2", "gpu1": "pve2"},
			of{"gpu1": "on pve2, which has 2 GPUs and 512GiB of memory free", "cp1": "on pve2, which has 480GiB of memory free", "wk1": "on pve2, which has 472GiB of memory free"}},
		"less memory than another's VM leaves": {func(h *hosts) { h.model.VMs = append(h.model.VMs, vm("pve2", "big", "460")) }, of{"cp1": "pve1", "wk1": "pve1", "gpu1": "pve1"},
			of{"gpu1": "on pve1, which has 2 GPUs and 256GiB of memory free"}},
		"a template needs no memory": {func(h *hosts) { h.model.VMs = append(h.model.VMs, vm("pve2", "big", "460", "template", "1")) }, of{"cp1": "pve2", "gpu1": "pve2"}, nil},
		"another host's VM":          {func(h *hosts) { h.model.VMs = append(h.model.VMs, vm("pve1", "big", "200")) }, of{"cp1": "pve2"}, of{"cp1": "on pve2, which has 480GiB of memory free"}},
		"our VM, which the file gives less": {func(h *hosts) { h.model.VMs = append(h.model.VMs, ours("pve2", "wk1", "460")) }, of{"wk1": "pve2", "cp1": "pve2"},
			of{"wk1": "", "gpu1": "on pve2, which has 2 GPUs and 480GiB of memory free"}},
		"our VM stays where it is":    {func(h *hosts) { h.model.VMs = append(h.model.VMs, ours("pve1", "wk1", "1")) }, of{"wk1": "pve1", "cp1": "pve2"}, nil},
		"its name in another's hands": {func(h *hosts) { h.model.VMs = append(h.model.VMs, vm("pve1", "wk1", "1")) }, of{"wk1": "pve2"}, nil},
		"a template of its name":      {func(h *hosts) { h.model.VMs = append(h.model.VMs, ours("pve1", "wk1", "1", "template", "1")) }, of{"wk1": "pve2"}, nil},
		"the file says how much":      {func(h *hosts) { h.want.Proxmox.Hosts[1].Memory = 100 * spec.GiB }, of{"wk1": "pve1", "cp1": "pve1", "gpu1": "pve1"}, nil},
		"one is down": {func(h *hosts) { h.model.Hosts[1].Offline = true }, of{"wk1": "pve1", "cp1": "pve1", "gpu1": "pve1"},
			of{"wk1": "on pve1, which has 216GiB of memory free; pve2 is down"}},
		"the first is down": {func(h *hosts) {
			h.model.Hosts[1].Offline = true
			slices.Reverse(h.want.Proxmox.Hosts)
		}, of{"wk1": "pve1", "gpu1": "pve1"}, of{"gpu1": "on pve1, which has 2 GPUs and 256GiB of memory free; pve2 is down"}},
		"no storage there": {func(h *hosts) {
			for i, s := range h.model.Hosts[1].Storages {
				h.model.Hosts[1].Storages[i].Inactive = s.Name == "vmdata"
			}
		}, of{"wk1": "pve1", "gpu1": "pve1"}, of{"gpu1": "on pve1, which has 2 GPUs and 256GiB of memory free; pve2 has no storage vmdata"}},
		"a mapping of ours": {nil, of{"gpu1": "pve1"}, nil},
		"a card is another VM's": {func(h *hosts) { h.model.VMs = append(h.model.VMs, vm("pve2", "win", "1", "hostpci0", "0000:ca:00")) }, of{"gpu1": "pve1"},
			of{"gpu1": "on pve1, which has 2 GPUs and 256GiB of memory free"}},
		"a template claims none": {func(h *hosts) {
			h.model.VMs = append(h.model.VMs, vm("pve2", "win", "1", "hostpci0", "0000:ca:00", "template", "1"))
		}, of{"gpu1": "pve2"}, nil},
		"a card is wanted by name": {func(h *hosts) {
			n := node("named", "pve2", spec.Agent, 8, 1)
			n.GPUs.PCI = []spec.PCIAddress{{Bus: 0xca, Function: -1}}
			h.want.Nodes = append(h.want.Nodes, n)
		}, of{"gpu1": "pve1", "named": "pve2"}, nil},
		"servers keep apart": {func(h *hosts) {
			h.want.Nodes = []spec.Node{node("cp1", "pve2", spec.Server, 8, 0), node("cp2", spec.AnyHost, spec.Server, 8, 0), node("cp3", spec.AnyHost, spec.Server, 8, 0), node("wk1", spec.AnyHost, spec.Agent, 8, 0)}
		}, of{"cp2": "pve1", "cp3": "pve2", "wk1": "pve2"}, nil},
		"and from the first": {func(h *hosts) {
			h.want.Nodes = []spec.Node{node("cp1", "pve1", spec.Server, 8, 0), node("cp2", spec.AnyHost, spec.Server, 8, 0), node("cp3", spec.AnyHost, spec.Server, 8, 0)}
		}, of{"cp2": "pve2", "cp3": "pve2"}, nil},
		"those with cards come first": {func(h *hosts) {
			h.want.Nodes = []spec.Node{node("wk1", spec.AnyHost, spec.Agent, 200, 0), node("gpu1", spec.AnyHost, spec.Agent, 32, 2), node("gpu2", spec.AnyHost, spec.Agent, 32, 2)}
			h.want.Nodes[0].Cores, h.want.Nodes[1].GPUs.Model, h.want.Nodes[2].GPUs.Model = 33, "RTX 4090", "A100"
		}, of{"gpu1": "pve1", "gpu2": "pve2", "wk1": "pve2"}, of{"wk1": "on pve2, which has 480GiB of memory free; pve1 has 32 CPUs"}},
		"of equals the first": {func(h *hosts) { h.model.Hosts[0].Memory = h.model.Hosts[1].Memory }, of{"gpu1": "pve1", "cp1": "pve2", "wk1": "pve2"}, nil},
		"the file server": {func(h *hosts) {
			h.want.Platform.Storage.NFS = &spec.NFS{VM: &spec.NFSVM{Name: "files", Host: "pve2", Cores: 2, Memory: 300 * spec.GiB}}
		}, of{"gpu1": "pve1", "wk1": "pve1"}, nil},
		"a machine elsewhere": {func(h *hosts) {
			n := node("far", "", spec.Agent, 500, 0)
			n.External = true
			h.want.Nodes = append(h.want.Nodes, n)
		}, of{"gpu1": "pve2", "far": ""}, of{"gpu1": "on pve2, which has 2 GPUs and 512GiB of memory free"}},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, tt.change, func(t *testing.T, h *hosts, pve *proxmox.Client) {
				if name == "a mapping of ours" {
					h.sim.AddMapping("lab_gpu1", note, "node=pve1,path=0000:21:00,id=10de:2684,iommugroup=27")
				}
				before := strings.Join(hostsOf(h.want), " ")
				got, err := placement.Place(t.Context(), h.want, pve)
				require.NoError(t, err)
				for _, n := range got.Nodes {
					if host, said := tt.want[n.Name]; said {
						assert.Equal(t, host, n.Host, n.Name)
					}
					if why, said := tt.why[n.Name]; said {
						assert.Equal(t, why, got.Placed[n.Name], n.Name)
					}
				}
				assert.Equal(t, before, strings.Join(hostsOf(h.want), " "), "a spec does not change")
				assert.Empty(t, h.want.Placed)
			})
		})
	}
}

func hostsOf(s *spec.Spec) (out []string) {
	for _, n := range s.Nodes {
		out = append(out, n.Name+":"+n.Host)
	}
	for _, h := range s.Proxmox.Hosts {
		out = append(out, h.Name+":"+h.TemplateStorage)
	}
	return out
}

// Templates go beside the disks of a host's first node.
func TestTemplatesGoToWhereNodesArePlaced(t *testing.T) {
	on(t, nil, func(t *testing.T, h *hosts, pve *proxmox.Client) {
		got, err := placement.PlaceOnce(t.Context(), h.want, pve)
		require.NoError(t, err)
		assert.Equal(t, []string{"cp1:pve2", "wk1:pve2", "gpu1:pve2", "pve1:", "pve2:vmdata"}, hostsOf(got))
	})
}

// What is not known is not guessed: every look that fails is the error, and Place tries again.
func TestPlaceWithoutAnAnswer(t *testing.T) {
	for _, path := range []string{"/cluster/resources", "/nodes/pve2/storage", "/nodes/pve2/network", "/nodes/pve2/hardware/pci", "/cluster/mapping/pci", "/nodes"} {
		on(t, nil, func(t *testing.T, h *hosts, pve *proxmox.Client) {
			h.sim.Fail(pvesim.Rule{Method: http.MethodGet, Path: "^" + path + "$", Times: -1, Status: 500, Message: "broken " + path})
			_, err := placement.PlaceOnce(t.Context(), h.want, pve)
			require.ErrorContains(t, err, "choosing hosts: ")
			assert.ErrorContains(t, err, "broken "+path)
		})
	}
	on(t, nil, func(t *testing.T, h *hosts, pve *proxmox.Client) { // the second look at the VMs
		h.sim.Fail(pvesim.Rule{Method: http.MethodGet, Path: "^/nodes$", Delay: 10 * time.Second})
		h.sim.Fail(pvesim.Rule{Method: http.MethodGet, Path: "^/cluster/resources$", Skip: 1, Times: -1, Status: 500, Message: "broken"})
		_, err := placement.PlaceOnce(t.Context(), h.want, pve)
		assert.ErrorContains(t, err, "broken")
	})
	on(t, nil, func(t *testing.T, h *hosts, pve *proxmox.Client) {
		h.sim.Fail(pvesim.Rule{Method: http.MethodGet, Path: "^/nodes/pve2/storage$", Times: 6, Status: 595, Message: "no route to host"})
		got, err := placement.Place(t.Context(), h.want, pve)
		require.NoError(t, err)
		assert.Equal(t, "pve2", got.Nodes[0].Host)
	})
	on(t, nil, func(t *testing.T, h *hosts, pve *proxmox.Client) {
		h.sim.Fail(pvesim.Rule{Method: http.MethodGet, Path: "^/nodes/pve2/storage$", Times: -1, Status: 595, Message: "no route to host"})
		start := time.Now()
		_, err := placement.Place(t.Context(), h.want, pve)
		require.ErrorContains(t, err, "no route to host")
		assert.Greater(t, time.Since(start), 30*time.Second)
	})
}

// Where every node has a host nothing is asked, and nothing is changed.
func TestPlaceWithNothingToChoose(t *testing.T) {
	on(t, func(h *hosts) {
		for i := range h.want.Nodes {
			h.want.Nodes[i].Host = "pve1"
		}
	}, func(t *testing.T, h *hosts, pve *proxmox.Client) {
		h.sim.ForgetRequests()
		got, err := placement.Place(t.Context(), h.want, pve)
		require.NoError(t, err)
		assert.Same(t, h.want, got)
		assert.Empty(t, h.sim.Requests())
	})
}

// Where nothing is good for a node, it is said of each host why.
func TestNoHostForANode(t *testing.T) {
	for want, change := range map[string]func(h *hosts){
		"no host has room for wk1 (4 cores, 600GiB): pve1 has 256GiB of memory left; pve2 has 472GiB of memory left\n  give it less, or add a host under proxmox.hosts": func(h *hosts) { h.want.Nodes[1].Memory = 600 * spec.GiB },
		"no host has room for gpu1 (4 cores, 32GiB, 3 GPUs): pve1 has 2 such GPUs free; pve2 has 2 such GPUs free":                                                      func(h *hosts) { h.want.Nodes[2].GPUs.Count = 3 },
		"no host has room for gpu1 (4 cores, 32GiB, 1 GPU of model H100): pve1 has 0 such GPUs free; pve2 is down":                                                      func(h *hosts) { h.want.Nodes[2].GPUs.Model = "H100"; h.model.Hosts[1].Offline = true },
		"choosing hosts: there is no host pve3; Proxmox shows pve1, pve2":                                                                                               func(h *hosts) { h.want.Proxmox.Hosts[0].Name = "pve3" },
		"pve2 has 2 such GPUs free\n  all GPUs of a node are on one host: write more nodes with fewer GPUs each":                                                        func(h *hosts) { h.want.Nodes[2].GPUs.Count = 4 },
		"pve2 has 2 such GPUs free\n  give it less":                                                                                                                     func(h *hosts) { h.want.Nodes[2].GPUs.Count = 5 },
		"pve2 is down\n  give it less": func(h *hosts) { h.want.Nodes[2].GPUs.Count = 3; h.model.Hosts[1].Offline = true },
		"left\n  give it less":         func(h *hosts) { h.want.Nodes[2].Memory = 900 * spec.GiB },
	} {
		on(t, change, func(t *testing.T, h *hosts, pve *proxmox.Client) {
			start := time.Now()
			_, err := placement.Place(t.Context(), h.want, pve)
			require.ErrorContains(t, err, want)
			assert.Less(t, time.Since(start), time.Second, "waiting would not help")
		})
	}
}
