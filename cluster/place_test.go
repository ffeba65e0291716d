package cluster_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/placement"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// anywhere lets Proxmox's two hosts carry nodes wherever there is room.
const anywhere = `
name: small
proxmox: {endpoint: lab, host: auto, hosts: {pve1: {}, pve2: {}}}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {version: v1.36.5+k3s1}
defaults: {storage: vmdata}
nodes:
  cp1: {role: server, address: 10.0.0.11, cores: 2, memory: 4GiB}
  any1: {role: agent, address: 10.0.0.21, cores: 8, memory: 32GiB, gpus: 1}
  any2: {role: agent, address: 10.0.0.22, cores: 8, memory: 32GiB, gpus: 1}
  gamer: {role: agent, address: 10.0.0.23, cores: 8, memory: 32GiB, gpus: {count: 1, model: RTX}}
`

// placed says on which host each node is to be.
func (w *world) placed(t *testing.T, file string) (string, error) {
	t.Helper()
	id, token := w.sim.Token()
	pve, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: w.sim.Client()})
	require.NoError(t, err)
	before := parse(t, file)
	spec, err := placement.Place(t.Context(), before, pve)
	if err != nil {
		return "", err
	}
	assert.Equal(t, parse(t, file), before, "a spec does not change")
	var out []string
	for _, n := range spec.Nodes {
		out = append(out, n.Name+":"+n.Host)
	}
	return strings.Join(out, " "), nil
}

func TestPlace(t *testing.T) {
	inWorld(t, pvesim.TwoHosts(), func(t *testing.T, w *world) {
		// Both hosts have two cards: the one with more memory is first, then the other.
		const want = "cp1:pve2 any1:pve2 any2:pve1 gamer:pve1"
		got, err := w.placed(t, anywhere)
		require.NoError(t, err)
		assert.Equal(t, want, got)

		id, token := w.sim.Token()
		pve, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: w.sim.Client()})
		require.NoError(t, err)
		spec, err := placement.Place(t.Context(), parse(t, anywhere), pve)
		require.NoError(t, err)
		plan := strings.Join(w.plan(t, spec), "\n")
		assert.Contains(t, plan, "gpus/any1: mapping of 1 GPU [0000:17:00: A100 PCIe 80GB, the first free one, IOMMU group 33 of its own, on pve2, which has 2 GPUs and 512GiB of memory free]")
		assert.Contains(t, plan, "gpus/gamer: mapping of 1 GPU [0000:01:00: GeForce RTX 4090")
		w.up(t, spec)

		// What is there stays, however full its host is by now, and whatever is added before it.
		w.sim.AddVM(pvesim.VM{ID: 400, Node: "pve2", Name: "big", Config: map[string]string{"memory": "450000"}})
		more := strings.Replace(anywhere, "  any1:", "  any0: {role: agent, address: 10.0.0.20, cores: 8, memory: 32GiB}\n  any1:", 1)
		got, err = w.placed(t, more)
		require.NoError(t, err)
		assert.Equal(t, "cp1:pve2 any0:pve1 any1:pve2 any2:pve1 gamer:pve1", got)
		again, err := placement.Place(t.Context(), parse(t, anywhere), pve)
		require.NoError(t, err)
		assert.Empty(t, w.plan(t, again))
	})
}

func TestPlaceSaysWhyNot(t *testing.T) {
	inWorld(t, pvesim.TwoHosts(), func(t *testing.T, w *world) {
		for want, change := range map[string][2]string{
			"no host has room for gamer (8 cores, 32GiB, 1 GPU of model H100): pve1 has 0 such GPUs free; pve2 has 0 such GPUs free": {"model: RTX", "model: H100"},
			"pve1 has 192GiB of memory left; pve2 has 480GiB of memory left":                                                         {"memory: 4GiB", "memory: 2TiB"},
			"pve1 has no storage fast; pve2 has no storage fast":                                                                     {"storage: vmdata", "storage: fast"},
			"there is no host pve7; Proxmox shows pve1, pve2":                                                                        {"pve2: {}", "pve7: {}"},
			"pve1 has 32 CPUs; pve2 has 64 CPUs":                                                                                     {"cores: 2,", "cores: 65,"},
		} {
			_, err := w.placed(t, replace(t, anywhere, change[0], change[1]))
			require.ErrorContains(t, err, want)
		}
		_, err := cluster.New(parse(t, anywhere), cluster.Backend{Dir: t.TempDir()})
		require.ErrorContains(t, err, "call placement.Place first")
	})
}

func TestServersKeepApart(t *testing.T) {
	inWorld(t, pvesim.TwoHosts(), func(t *testing.T, w *world) {
		got, err := w.placed(t, `
name: small
proxmox: {endpoint: lab, host: auto, hosts: {pve1: {}, pve2: {}}}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {vip: 10.0.0.100}
pools:
  cp: {role: server, count: 3, addresses: [10.0.0.11-13]}
  fixed: {count: 1, addresses: [10.0.0.21], host: pve1, gpus: 2}
`)
		require.NoError(t, err)
		assert.Equal(t, "cp1:pve2 cp2:pve1 cp3:pve2 fixed1:pve1", got)
	})
}

func TestAutoNeedsHosts(t *testing.T) {
	for want, change := range map[string][2]string{
		"which has a host already":                         {"gpus: {count: 1, model: RTX}", "adopt: true"},
		"has nothing to choose from":                       {", hosts: {pve1: {}, pve2: {}}", ""},
		"names its cards but not their host":               {"gpus: {count: 1, model: RTX}", "gpus: {pci: ['01:00']}"},
		"names mappings, which host: auto does not follow": {"gpus: {count: 1, model: RTX}", "gpus: {mapping: [card]}"},
		`there is no host "pve3" under proxmox.hosts`:      {"host: auto", "host: pve3"},
	} {
		_, err := cluster.Parse("cluster.yaml", []byte(replace(t, anywhere, change[0], change[1])))
		require.ErrorContains(t, err, want)
	}
}

// A Spec that was written in Go, and not read, would come up without driver and GPUs.
func TestNewRefusesASpecThatIsNotComplete(t *testing.T) {
	_, err := cluster.New(&spec.Spec{Name: "mine", Nodes: []spec.Node{{Name: "cp1", Role: spec.Server}}}, cluster.Backend{Dir: t.TempDir()})
	require.ErrorContains(t, err, "the spec has no defaults yet and is not checked: call cluster.Complete first")
}

// A Spec that was read without its platform's checks would come up with a profile that nobody can start.
func TestNewChecksThePlatformToo(t *testing.T) {
	const file = `
name: lab
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools: {cp: {role: server, count: 1, addresses: [10.0.0.11], memory: 8GiB}}
hub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}, profiles: {big: {memory: 64GiB}}}
charts: {values: {jupyterhub: {singleuser: {taste: sweet}}}, versions: {jupyterhub: 4.3.0}}
`
	_, err := cluster.Parse("cluster.yaml", []byte(file))
	var whole spec.Problems
	require.ErrorAs(t, err, &whole)
	light, err := clusterfile.Parse("cluster.yaml", []byte(file))
	require.NoError(t, err)
	_, err = cluster.New(light, cluster.Backend{Dir: t.TempDir()})
	var problems spec.Problems
	require.ErrorAs(t, err, &problems)
	said := func(all spec.Problems) (out []string) {
		for _, p := range all {
			out = append(out, p.What+"; "+p.Cure)
		}
		return out
	}
	require.ElementsMatch(t, said(whole), said(problems))
	require.Equal(t, `Platform.Charts.Values["jupyterhub"]["singleuser"]["taste"]`, problems[0].Path)
	require.Equal(t, "Platform.Hub.Profiles[0].Memory", problems[1].Path)
	before := *light
	require.Error(t, cluster.Complete(light))
	require.Equal(t, before, *light)
}
