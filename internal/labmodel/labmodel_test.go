package labmodel_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/examples"
	"github.com/cps-gpu/homelab/internal/labmodel"
	"github.com/cps-gpu/homelab/internal/labneeds"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// inLab is an example's file, moved into the lab.
func inLab(t *testing.T, example string, changes ...string) *spec.Spec {
	t.Helper()
	file := "../../examples/" + example + "/cluster.yaml"
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(string(examples.WithoutPlatform(data))) {
		switch key, _, _ := strings.Cut(strings.TrimSpace(line), ":"); key {
		case "endpoint":
			line = "  endpoint: lab\n"
		case "token", "secret", "fingerprint", "ca":
			continue
		}
		lines = append(lines, line)
	}
	text := strings.NewReplacer(changes...).Replace(strings.Join(lines, ""))
	s, err := cluster.Parse(file, []byte(text))
	require.NoError(t, err, text)
	require.True(t, s.IsLab())
	return s
}

func lacks(m pvesim.Model, s *spec.Spec) []string {
	return labneeds.NeedsOf(s).Missing(labmodel.HardwareOf(m))
}

// TestEveryExampleGetsHostsThatFit: what is chosen is sound, can be written and
// read, and lacks nothing.
func TestEveryExampleGetsHostsThatFit(t *testing.T) {
	for example, want := range map[string]string{"one-gpu": "one-gpu", "eight-a100": "eight-a100", "mixed-hosts": ""} {
		t.Run(example, func(t *testing.T) {
			s := inLab(t, example)
			preset, m := labmodel.ModelFor(labneeds.NeedsOf(s))
			assert.Equal(t, want, preset)
			assert.Empty(t, lacks(m, s))
			text, err := m.YAML()
			require.NoError(t, err)
			_, err = pvesim.ParseModel("made.yaml", text)
			require.NoError(t, err, "%s", text)
			pvesim.New(m, pvesim.Options{}).Close()
		})
	}
}

// TestMadeToMeasure looks at what the example with unlike hosts gets.
func TestMadeToMeasure(t *testing.T) {
	_, m := labmodel.ModelFor(labneeds.NeedsOf(inLab(t, "mixed-hosts")))
	require.Len(t, m.Hosts, 2)
	atlas, boreas := m.Hosts[0], m.Hosts[1]
	assert.Equal(t, "atlas boreas", atlas.Name+" "+boreas.Name)
	assert.Equal(t, 64, atlas.CPUs)
	assert.Equal(t, 512*pvesim.GiB, atlas.Memory)
	assert.Equal(t, []string{"vmbr1"}, atlas.VLANAware, "the file has a VLAN on it")
	addresses := map[string]bool{}
	for _, d := range atlas.PCI {
		addresses[d.Address] = true
	}
	assert.Len(t, addresses, 4, "as many as the file declares")
	assert.True(t, addresses["0000:41:00.0"] && addresses["0000:c1:00.0"], "at the addresses that nodes ask for: %v", addresses)
	assert.Len(t, boreas.PCI, 1)
	var names []string
	for _, st := range boreas.Storages {
		names = append(names, st.Name)
	}
	assert.Contains(t, names, "local-lvm")
}

// TestMTUsOfBridges: nodes with less than usual need no other bridge.
func TestMTUsOfBridges(t *testing.T) {
	for mtu, bridge := range map[string]int{"1400": 0, "1500": 0, "9000": 9000} {
		s := inLab(t, "one-gpu", "network: {", "network: {mtu: "+mtu+", ")
		needs := labneeds.NeedsOf(s)
		needs.Hosts[0].Cores = 1000 // more than any preset has
		_, m := labmodel.ModelFor(needs)
		assert.Equal(t, bridge, m.Hosts[0].MTUs["vmbr0"], mtu)
		assert.NotContains(t, strings.Join(lacks(m, s), "\n"), "MTU")
		assert.Equal(t, bridge > 0, strings.Contains(strings.Join(lacks(pvesim.OneGPU(), s), "\n"), "pve1 has a bridge vmbr0 with an MTU of 1500, and not 9000"), mtu)
	}
}

func TestWhatAModelLacksIsNamed(t *testing.T) {
	s := inLab(t, "mixed-hosts")
	assert.Equal(t, []string{"there is no host atlas", "there is no host boreas"}, lacks(pvesim.OneGPU(), s))
	s = inLab(t, "eight-a100")
	one := pvesim.OneGPU()
	assert.Equal(t, []string{"pve1 has 16 CPUs, and not 32", "pve1 has 124GiB of memory to give, and not 1020GiB", "pve1 has 1 GPUs, and not 16", "pve1 has no A100"},
		lacks(one, inLab(t, "eight-a100", "cores: 16", "cores: 32", "gpus: 8", "gpus: 16")))
	one.Hosts[0].Bridges, one.Hosts[0].Storages = nil, one.Hosts[0].Storages[:1]
	lacks := strings.Join(lacks(one, s), "\n")
	assert.Contains(t, lacks, "pve1 has no bridge vmbr0\npve1 has no storage vmdata for images")
}

// TestCardsAndTemplatesThatAreNamed are made as the file has them.
func TestCardsAndTemplatesThatAreNamed(t *testing.T) {
	s := inLab(t, "eight-a100", "model: A100", "model: L40S", "\nk3s:\n", "\nimage: {template: golden}\nk3s:\n")
	preset, m := labmodel.ModelFor(labneeds.NeedsOf(s))
	assert.Empty(t, preset)
	assert.Empty(t, lacks(m, s))
	assert.Contains(t, m.Hosts[0].PCI[0].Name, "L40S")
	assert.NotEqual(t, "10de:20f1", m.Hosts[0].PCI[0].ID)
	require.Len(t, m.VMs, 1)
	assert.Equal(t, "golden", m.VMs[0].Name)

	s = inLab(t, "eight-a100", "gpus: {count: 2, model: A100}", "gpus: {mapping: [left]}", "count: 4", "count: 1", "[10.0.0.21-10.0.0.24]", "[10.0.0.21]")
	_, m = labmodel.ModelFor(labneeds.NeedsOf(s))
	assert.Empty(t, lacks(m, s))
	assert.Equal(t, "left", m.Mappings[0].ID)

	// One mapping of many cards, as docs/gpus.md has it.
	s = inLab(t, "eight-a100", "gpus: {count: 2, model: A100}", "gpus: {mapping: [cards, cards]}")
	_, m = labmodel.ModelFor(labneeds.NeedsOf(s))
	assert.Empty(t, lacks(m, s))
	require.Len(t, m.Mappings, 1)
	assert.Len(t, m.Mappings[0].Map, 8)
	m.Mappings[0].Map = m.Mappings[0].Map[:7]
	assert.Equal(t, []string{"pve1 has 7 cards in the mapping cards, and not 8"}, lacks(m, s))
}

// TestNodesThatMayBeAnywhereAreSpread: the file declares two hosts and leaves the
// choice open.
func TestNodesThatMayBeAnywhereAreSpread(t *testing.T) {
	s := inLab(t, "eight-a100", "  host: pve1\n", "  host: auto\n", "    pve1: {memory: 1TiB, gpus: 8, storage: {vmdata: 2TiB}}", "    left: {gpus: 4}\n    right: {gpus: 4}")
	preset, m := labmodel.ModelFor(labneeds.NeedsOf(s))
	assert.Empty(t, preset)
	assert.Empty(t, lacks(m, s))
	require.Len(t, m.Hosts, 2)
	assert.Len(t, m.Hosts[0].PCI, 4)
	assert.Len(t, m.Hosts[1].PCI, 4)
	assert.Equal(t, m.Hosts[0].Memory, m.Hosts[1].Memory)
}
