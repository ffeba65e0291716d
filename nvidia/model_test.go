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
		{"10de:2203", "GA102 [GeForce RTX 3090 Ti]", "rtx3090ti|RTX 3090Ti|3090ti|RTX3090 Ti", "rtx3090|3090|RTX3090"},
		{"10de:2204", "GA102 [GeForce RTX 3090]", "rtx3090|geforce-rtx-3090|3090", "rtx3090ti|rtx309"},
		{"10de:1c03", "GP106 [GeForce GTX 1060 6GB]", "gtx1060|GTX 1060 6GB|gtx1060-6gb|GTX 1060 6 GB", "GTX 1060 3GB"},
		{"10de:1db6", "GV100GL [Tesla V100 PCIe 32GB]", "V100 32GB|V100-32GB|V100 PCIe|Tesla V100", "V100 16GB|V100 SXM2|V100S"},
		{"10de:20b5", "GA100 [A100 PCIe 80GB]", "A100 80GB|A100-PCIE-80GB|A100 80GB PCIe", "A100 40GB|A100 SXM4"},
		{"10de:20b2", "GA100 [A100 SXM4 80GB]", "A100 80GB|A100 SXM4", "A100 40GB"},
		{"10de:2805", "AD106 [GeForce RTX 4060 Ti 16GB]", "RTX 4060 Ti|RTX 4060 Ti 16GB|rtx4060ti", "RTX 4060|RTX 4060 Ti 8GB"},
		{"10de:2803", "AD106 [GeForce RTX 4060 Ti]", "RTX 4060 Ti", "RTX 4060|RTX 4060 Ti 16GB"},
		{"10de:1e30", "TU102GL [Quadro RTX 6000/8000]", "RTX 8000|Quadro RTX 8000|TU102GL [Quadro RTX 6000/8000]", "6000 RTX|8000 RTX"},
		{"10de:249d", "GA104M [GeForce RTX 3070 Mobile / Max-Q]", "RTX 3070 Mobile|RTX 3070 Max-Q|RTX 3070 Laptop GPU|GA104M", "RTX 3070|RTX 3070 Ti"},
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
		assert.True(t, nvidia.IsModel(strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(g.Name, "NVIDIA ")), " ", ""), g.ID, ""), g.Name)
	}
	assert.NotEmpty(t, nvidia.GPUsOfModel("A100"))
	assert.Empty(t, nvidia.GPUsOfModel("A1000000"))
}
