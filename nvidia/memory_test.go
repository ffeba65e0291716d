package nvidia

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/proxmox/unit"
)

// Each size is that of a card in the table, and each model with one size has it.
func TestMemory(t *testing.T) {
	used := map[string]bool{}
	for _, g := range GPUs() {
		used[g.shortName()] = true
	}
	for name := range memories {
		assert.True(t, used[name], "no card is called %s", name)
	}
	for model, want := range map[string]unit.Size{
		"RTX 4060": 8, "RTX 4060 Ti": 16, "RTX 3090": 24, "RTX 5090": 32, "A100 PCIe 80GB": 80, "L40S": 48, "T4": 16, "P40": 0,
	} {
		for _, g := range OfModel(model) {
			assert.Equal(t, want*unit.GiB, g.Memory(), "%s: %s", model, g.Name)
		}
	}
}

func TestMPSClients(t *testing.T) {
	for model, want := range map[string]int{"P40": 0, "GTX 1080": 0, "V100 PCIe 16GB": 16, "T4": 48, "RTX 4060": 48, "H100 PCIe": 48} {
		cards := OfModel(model)
		assert.NotEmpty(t, cards, model)
		for _, g := range cards {
			assert.Equal(t, want, g.MPSClients(), "%s: %s", model, g.Name)
		}
	}
}
