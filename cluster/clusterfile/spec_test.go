package clusterfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/platform"
)

func parsed(t *testing.T, text string) *spec.Spec {
	t.Helper()
	s, err := Parse("cluster.yaml", []byte(text), platform.Check)
	require.NoError(t, err)
	return s
}

func nodeOf(t *testing.T, s *spec.Spec, name string) spec.Node {
	t.Helper()
	n, ok := s.Node(name)
	require.True(t, ok, name)
	return n
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run go test ./cluster -update")
	assert.Equal(t, string(want), got)
}

// TestGood holds the whole Spec of each good file against a golden one.
func TestGood(t *testing.T) {
	for _, file := range goodFiles(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if name == "cluster" {
			name = filepath.Base(filepath.Dir(file))
		}
		t.Run(name, func(t *testing.T) {
			s, err := Load(file, platform.Check)
			require.NoError(t, err)
			b, err := json.MarshalIndent(flat(t, s), "", " ")
			require.NoError(t, err)
			golden(t, "testdata/good/"+name+".json", string(b)+"\n")
		})
	}
}

func TestWarnings(t *testing.T) {
	files, err := filepath.Glob("testdata/warn/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		s := parsed(t, string(data))
		golden(t, strings.TrimSuffix(file, ".yaml")+".txt", spec.Problems(s.Warnings).Error()+"\n")
	}
}

func TestSmallestFileIsSmall(t *testing.T) {
	for _, file := range []string{"testdata/good/smallest.yaml", "../../examples/one-gpu/cluster.yaml"} {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.LessOrEqual(t, bytes.Count(b, []byte("\n")), 15, file)
		s, err := Load(file, platform.Check)
		require.NoError(t, err)
		assert.Len(t, s.Servers(), 1)
		assert.Len(t, s.GPUNodes(), 1)
		assert.Empty(t, s.Warnings)
		assert.Equal(t, s.Servers()[0].Address.Addr(), s.APIAddress(), "a lone server is the API itself")
	}
}

// TestEightA100 compares the example with what the project promises.
func TestEightA100(t *testing.T) {
	s, err := Load("../../examples/eight-a100/cluster.yaml", platform.Check)
	require.NoError(t, err)
	assert.True(t, s.IsLab())
	assert.Equal(t, "10.0.0.100", s.APIAddress().String())
	require.Len(t, s.Servers(), 3)
	require.Len(t, s.Agents(), 4)
	gpus := 0
	for i, n := range s.Servers() {
		assert.Equal(t, fmt.Sprintf("cp%d", i+1), n.Name)
		assert.Equal(t, fmt.Sprintf("10.0.0.%d/24", 11+i), n.Address.String())
		assert.Equal(t, 16*spec.GiB, n.Memory)
		assert.Equal(t, 50*spec.GiB, n.OSDisk.Size)
		assert.Empty(t, n.Taints)
	}
	for i, n := range s.Agents() {
		assert.Equal(t, fmt.Sprintf("wk-gpu%d", i+1), n.Name)
		assert.Equal(t, fmt.Sprintf("10.0.0.%d/24", 21+i), n.Address.String())
		assert.Equal(t, n.Cores, n.Network.Queues)
		require.Len(t, n.Disks, 1)
		assert.Equal(t, spec.RoleScratch, n.Disks[0].Role)
		assert.Equal(t, "[nvidia.com/gpu=present:NoSchedule]", fmt.Sprint(n.Taints))
		gpus += n.GPUs.Count
	}
	assert.Equal(t, 8, gpus)
	assert.Empty(t, s.Warnings)
}

// TestEightA100Platform holds what runs on the example against what the project promises.
func TestEightA100Platform(t *testing.T) {
	text, err := os.ReadFile("../../examples/eight-a100/cluster.yaml")
	require.NoError(t, err)
	s := parsed(t, string(text))
	p := s.Platform
	assert.Equal(t, "10.0.0.30:/export/k3s", p.Storage.NFS.Server+":"+p.Storage.NFS.Export)
	assert.Equal(t, "nfs", p.Storage.Default)
	assert.Equal(t, []string{"wk-gpu1", "wk-gpu2", "wk-gpu3", "wk-gpu4"}, p.Storage.Scratch.Nodes)
	assert.Equal(t, []string{"servicelb", "local-storage"}, s.K3s.Disable)
	assert.Nil(t, p.Fleet, "Rancher brings its own")
	assert.Equal(t, 3, p.Rancher.Replicas)
	assert.True(t, p.Monitoring.GPUs.IsOn())
	atOnce := map[int]int{}
	for i, row := range platform.Fit(s).Rows {
		atOnce[p.Hub.Profiles[i].GPUs] = row.Total
	}
	assert.Equal(t, 8, atOnce[1])
	assert.Equal(t, 4, atOnce[2])
	assert.Positive(t, atOnce[0])

	four := strings.Replace(string(text), "gpus: 2\n      pool", "gpus: 4\n      pool", 1)
	_, err = Parse("cluster.yaml", []byte(four), platform.Check)
	require.ErrorContains(t, err, "no server of profile gpu-2 can ever start: on wk-gpu a node has 2 GPUs of 4; the largest that fits: 2 GPUs, 8 cores, 48GiB on wk-gpu")
}

const layered = `
name: lab
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1, dns: [10.0.0.2], mtu: 9000}
defaults:
  memory: 4GiB
  labels: {a: defaults, b: defaults, c: defaults}
  network: {mtu: 1400}
pools:
  cp:
    role: server
    count: 3
    addresses: [10.0.0.11-10.0.0.13]
    memory: 8GiB
    labels: {b: pool, c: pool, d: pool}
    disks: {scratch: {size: 100GiB}}
k3s: {vip: 10.0.0.100}
nodes:
  cp2:
    memory: null
    labels: {c: node, d: null}
    disks: {scratch: {size: 200GiB, mount: /scratch}}
    network: {mtu: null, dns: [10.0.0.3]}
  cp3:
    address: 10.0.0.33
    disks: null
  cp4: {pool: cp, address: 10.0.0.14}
`

func TestLayers(t *testing.T) {
	s := parsed(t, layered)
	one, two, three, four := nodeOf(t, s, "cp1"), nodeOf(t, s, "cp2"), nodeOf(t, s, "cp3"), nodeOf(t, s, "cp4")
	assert.Equal(t, 8*spec.GiB, one.Memory)
	assert.Equal(t, map[string]string{"a": "defaults", "b": "pool", "c": "pool", "d": "pool"}, one.Labels)
	assert.Equal(t, 1400, one.Network.MTU)
	assert.Equal(t, "[10.0.0.2]", fmt.Sprint(one.Network.DNS))

	assert.Equal(t, 8*spec.GiB, two.Memory, "null unsets, and then the built-in default holds")
	assert.Equal(t, map[string]string{"a": "defaults", "b": "pool", "c": "node"}, two.Labels)
	assert.Equal(t, 0, two.Network.MTU)
	assert.Equal(t, "[10.0.0.3]", fmt.Sprint(two.Network.DNS), "lists are replaced")
	assert.Equal(t, 200*spec.GiB, two.Disks[0].Size)
	assert.Equal(t, "ext4", two.Disks[0].FS)

	assert.Equal(t, "10.0.0.33/24", three.Address.String())
	assert.Empty(t, three.Disks)
	assert.Equal(t, "cp", four.Pool)
	assert.Equal(t, 9000, s.Network.MTU)
	require.Len(t, s.Warnings, 1, "four servers")
}

func TestOverridingANodeMovesNoOther(t *testing.T) {
	s := parsed(t, strings.Replace(layered, "cp3:", "cp1:", 1))
	assert.Equal(t, "10.0.0.33/24", nodeOf(t, s, "cp1").Address.String())
	assert.Equal(t, "10.0.0.12/24", nodeOf(t, s, "cp2").Address.String())
	assert.Equal(t, "10.0.0.13/24", nodeOf(t, s, "cp3").Address.String())
}

const gpuPool = `
name: lab
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
  gpu: {count: 2, addresses: [10.0.0.21-10.0.0.22], gpus: {count: 2, model: A100, rombar: false}}
nodes:
  gpu2: %s
`

func TestGPULayers(t *testing.T) {
	for own, want := range map[string]string{
		"{}":                              "2 A100 [] [] false true",
		"{gpus: 1}":                       "1 A100 [] [] false true",
		"{gpus: {pci: [C1:00.1, 01:00]}}": "2 A100 [0000:c1:00 0000:01:00] [] false true",
		"{gpus: {mapping: [a100-0]}}":     "1 A100 [] [a100-0] false true",
		"{gpus: {pci: [C1:00], model: null, allFunctions: false}}": "1  [0000:c1:00.0] [] false false",
		"{gpus: null}": "0  [] [] true true",
		"{gpus: 0}":    "0 A100 [] [] false true",
	} {
		s := parsed(t, fmt.Sprintf(gpuPool, own))
		g := nodeOf(t, s, "gpu2").GPUs
		assert.Equal(t, want, fmt.Sprint(g.Count, " ", g.Model, " ", g.PCI, " ", g.Mapping, " ", g.ROMBar, " ", g.AllFunctions), own)
		assert.Equal(t, 2, nodeOf(t, s, "gpu1").GPUs.Count)
	}
}

func TestDefaultTaint(t *testing.T) {
	for own, want := range map[string]string{
		"{}": "[nvidia.com/gpu=present:NoSchedule]", "{taints: []}": "[]", "{taints: null}": "[nvidia.com/gpu=present:NoSchedule]",
		"{taints: [dedicated:NoExecute]}": "[dedicated:NoExecute]", "{gpus: null}": "[]", "{role: server}": "[]",
	} {
		text := strings.Replace(fmt.Sprintf(gpuPool, own), "name: lab", "k3s: {vip: 10.0.0.100}\nname: lab", 1)
		assert.Equal(t, want, fmt.Sprint(nodeOf(t, parsed(t, text), "gpu2").Taints), own)
	}
}

func TestEndpoints(t *testing.T) {
	for in, want := range map[string]string{
		"lab": "lab", "10.0.0.5": "https://10.0.0.5:8006", "pve.home.arpa:443": "https://pve.home.arpa:443", "https://10.0.0.5/": "https://10.0.0.5:8006",
		"https://10.0.0.5:8006/api2/json/": "https://10.0.0.5:8006", "fd00::5": "https://[fd00::5]:8006", "'[fd00::5]:443'": "https://[fd00::5]:443",
	} {
		s := parsed(t, strings.Replace(layered, "{endpoint: lab}", "\n  endpoint: "+in+"\n  token: a@pve!b\n  secret: env:X", 1))
		assert.Equal(t, want, s.Proxmox.Endpoint)
	}
}

func TestTemplateStorageByHost(t *testing.T) {
	s, err := Load("../../examples/mixed-hosts/cluster.yaml", platform.Check)
	require.NoError(t, err)
	assert.Equal(t, "tank", s.TemplateStorage("atlas"))
	assert.Equal(t, "local-lvm", s.TemplateStorage("boreas"))
	edge := nodeOf(t, s, "edge")
	assert.True(t, edge.External)
	assert.Empty(t, edge.Host)
}

// TestManyNodes: a thousand nodes, each with an entry of its own, are read in the time that a person does not notice.
func TestManyNodes(t *testing.T) {
	var b strings.Builder
	b.WriteString("name: many\nproxmox: {endpoint: lab}\nnetwork: {prefix: 10.0.0.0/16, gateway: 10.0.0.1}\nk3s: {vip: 10.0.0.2, podCIDR: 10.64.0.0/12}\n" +
		"pools:\n  cp: {role: server, count: 3, addresses: [10.0.1.1-10.0.1.3]}\n  wk: {count: 1000, addresses: [10.0.2.1-10.0.9.255], gpus: 1}\nnodes:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "  wk%d: {memory: 32GiB, labels: {example.com/index: %d}}\n", i+1, i)
	}
	assert.Len(t, parsed(t, b.String()).Nodes, 1003)
}

// FuzzParse: no input makes Parse panic or loop, and an error is always Problems
// with places that are in the file.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.yaml")
	require.NoError(f, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Contains(data, []byte("/dev/")) || bytes.Contains(data, []byte("/proc/")) {
			t.Skip("not files of a cluster")
		}
		s, err := Parse("cluster.yaml", data, platform.Check)
		if err == nil {
			require.NotNil(t, s)
			require.NotEmpty(t, s.Servers())
			return
		}
		var problems spec.Problems
		require.ErrorAs(t, err, &problems)
		require.NotEmpty(t, problems)
		for _, p := range problems {
			assert.Positive(t, p.Line)
			assert.Positive(t, p.Column)
			assert.NotContains(t, p.Error(), "\n", "one line a problem")
			assert.NotEmpty(t, p.Cure, "a cure for: %s", p.What)
		}
	})
}

// TestMutatedPlatform takes the good platform files apart: a line less, a value of
// another kind, a key in another place. None makes Parse panic, and every problem
// says where and what to write. The choices are those of a fixed seed.
func TestMutatedPlatform(t *testing.T) {
	dice := rand.New(rand.NewPCG(4, 4))
	read := 0 // mutants that are files all the same
	values := []string{"", "null", "true", "false", "0", "-1", "3.5", "[]", "{}", "[a]", "{a: b}", "x", "10.0.0.300", "10.0.0.12", "env:X", "1GiB", "1h", "'", "\U0001f600"}
	for _, name := range []string{"platform", "short", "cilium", "github"} {
		text, err := os.ReadFile("testdata/good/" + name + ".yaml")
		require.NoError(t, err)
		lines := strings.Split(string(text), "\n")
		for range 150 {
			mutant := slices.Clone(lines)
			for range 1 + dice.IntN(3) {
				i := dice.IntN(len(mutant))
				key, _, isKey := strings.Cut(mutant[i], ": ")
				switch at := dice.IntN(4); {
				case at == 0:
					mutant = slices.Delete(mutant, i, i+1)
				case at == 1 && isKey:
					mutant[i] = key + ": " + values[dice.IntN(len(values))]
				case at == 2:
					j := dice.IntN(len(mutant))
					mutant[i], mutant[j] = mutant[j], mutant[i]
				default:
					mutant[i] = strings.Replace(mutant[i], ": ", ": {", 1)
				}
				if len(mutant) == 0 {
					break
				}
			}
			_, err := Parse("testdata/good/cluster.yaml", []byte(strings.Join(mutant, "\n")), platform.Check)
			var problems spec.Problems
			if err == nil {
				read++
				continue
			}
			require.ErrorAs(t, err, &problems)
			for _, p := range problems {
				assert.NotEmpty(t, p.Cure, p.What)
				assert.NotContains(t, p.Error(), "\n")
				assert.NotContains(t, p.Cure, "describes each key", "a check of our own is missing: %s", p.What)
			}
		}
	}
	assert.Greater(t, read, 20)
}
