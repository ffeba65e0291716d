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
		"RTX 4060": 8, "RTX 4060 Ti": 16, "RTX 3090": 24, "RTX 5090": 32, "A100 PCIe 80GB": 80, "L40S": 48, "T4": 16, "P40": 24, "H200": 141, "K80": 0,
	} {
		for _, g := range GPUsOfModel(model) {
			assert.Equal(t, want*unit.GiB, g.Memory(), "%s: %s", model, g.Name)
		}
	}
}

// Usable memory is that of torch.cuda.mem_get_info, in GiB, by the logs of vLLM's issues 10517, 14452,
// 16570 and 23278, and by nvidia-smi for T4 and L4.
func TestUsable(t *testing.T) {
	for model, want := range map[string]float64{
		"RTX 3090": 23.58, "RTX 5090": 31.35, "A100 PCIe 40GB": 39.38, "H100 80GB HBM3": 79.2, "L4": 22.2, "T4": 14.6, "K80": 0,
	} {
		for _, g := range GPUsOfModel(model) {
			assert.InEpsilon(t, want+1, float64(g.Usable())/float64(unit.GiB)+1, 0.015, "%s: %s", model, g.Name)
		}
	}
}

func TestMPSClients(t *testing.T) {
	for model, want := range map[string]int{"P40": 0, "GTX 1080": 0, "V100 PCIe 16GB": 16, "T4": 48, "RTX 4060": 48, "H100 PCIe": 48} {
		cards := GPUsOfModel(model)
		assert.NotEmpty(t, cards, model)
		for _, g := range cards {
			assert.Equal(t, want, g.MPSClients(), "%s: %s", model, g.Name)
		}
	}
}

// Cards that cannot be shared are told from a number that is too high, by the best card of the model.
func TestCheckMPS(t *testing.T) {
	for _, x := range []struct {
		model    string
		replicas int
		what, do string
	}{
		{"P40", 4, "the P40 (Pascal) cannot be shared by MPS: before Volta it limits no pod's memory", "write sharing: {strategy: time-slicing, replicas: 4}"},
		{"V100 PCIe 16GB", 16, "", ""},
		{"V100 PCIe 16GB", 17, "MPS serves at most 16 pods on a V100 PCIe 16GB and replicas is 17", "write replicas: 16 or less"},
		{"T4", 48, "", ""},
		{"T4", 49, "MPS serves at most 48 pods on a T4 and replicas is 49", "write replicas: 48 or less"},
	} {
		what, do := CheckMPS(x.model, GPUsOfModel(x.model), x.replicas)
		assert.Equal(t, x.what, what)
		assert.Equal(t, x.do, do)
	}
}
