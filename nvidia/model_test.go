package nvidia_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/nvidia"
)

// A model takes the cards that people call so, and none whose name only begins like it.
func TestIsModel(t *testing.T) {
	for _, c := range []struct {
		id, name, is, isNot string // models, with | between
	}{
		{"10de:26b5", "AD102GL [L40]", "L40|l40|NVIDIA L40|AD102GL", "L4|L40S|40|AD102"},
		{"10de:26b9", "AD102GL [L40S]", "L40S", "L40|L4"},
		{"10de:2204", "GA102 [GeForce RTX 3090]", "RTX 3090|GeForce RTX 3090|rtx 3090|RTX|GA102", "RTX 3090 Ti|RTX 30|3090 Ti|RTX 309"},
		{"10de:2203", "GA102 [GeForce RTX 3090 Ti]", "RTX 3090 Ti", "RTX 3090|GeForce RTX 3090"},
		{"10de:20f1", "GA100 [A100 PCIe 40GB]", "A100|A100 PCIe|A100-PCIE-40GB|GA100", "A10|A1|A100 80GB|A100 SXM4"},
		{"10de:2236", "GA102GL [A10]", "A10", "A100|A1|A10G"},
		{"10de:26b1", "AD102GL [RTX 6000 Ada Generation]", "RTX 6000 Ada|RTX 6000 Ada Generation", "RTX 6000|RTX A6000"},
		{"10de:1e30", "TU102GL [Quadro RTX 6000/8000]", "RTX 6000|Quadro RTX 6000", "RTX 6000 Ada"},
		{"10de:26b9", "", "L40S", "L40"}, // the host's PCI database is older than the card
		{"10de:fff1", "GZ100 [Z100 PCIe 40GB]", "Z100 PCIe 40GB|GZ100 [Z100 PCIe 40GB]|z100 pcie 40gb", "Z100|GZ100|RTX"},
		{"10de:fff1", "", "", "Z100"},
	} {
		id, err := nvidia.ParsePCIID(c.id)
		require.NoError(t, err)
		for model := range strings.SplitSeq(c.is, "|") {
			assert.True(t, nvidia.IsModel(model, id, c.name), "%s %s is %q", c.id, c.name, model)
		}
		for model := range strings.SplitSeq(c.isNot, "|") {
			assert.False(t, nvidia.IsModel(model, id, c.name), "%s %s is no %q", c.id, c.name, model)
		}
	}
	assert.False(t, nvidia.IsModel("-", nvidia.PCIID{}, ""), "a model that has no letters means none")
}

// Every name of the table is that of its own card, and a word that makes another card of it
// means another.
func TestEveryNameIsItsOwn(t *testing.T) {
	for _, g := range nvidia.GPUs() {
		assert.True(t, nvidia.IsModel(g.Name, g.ID, ""), g.Name)
		assert.False(t, nvidia.IsModel(g.Name+" Ti", g.ID, ""), g.Name)
	}
	assert.NotEmpty(t, nvidia.OfModel("A100"))
	assert.Empty(t, nvidia.OfModel("A1000000"))
}
