package cluster_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A running VM keeps the cards with which it was started, whatever its mapping says.
func TestOtherCardsAreARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.EightA100())
		defer w.close()
		file := replace(t, lab(example(t, "one-gpu")), "gpus: 1", "gpus: {pci: ['01:00']}")
		w.up(t, parse(t, file))
		first := w.vm(t, "gpu1").PCI
		assert.Contains(t, strings.Join(first, " "), "0000:01:00")

		file = replace(t, file, "01:00", "c1:00")
		require.Contains(t, strings.Join(w.plan(t, parse(t, file)), "\n"), "gpus/gpu1: cards")
		before := w.now()
		w.up(t, parse(t, file))
		assert.Equal(t, []string{"gpu1"}, before.changes().Restarted)
		assert.Contains(t, strings.Join(w.vm(t, "gpu1").PCI, " "), "0000:c1:00")
		assert.Empty(t, w.plan(t, parse(t, file)))
	})
}

func TestMappingOfAnotherIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.EightA100())
		defer w.close()
		file := replace(t, lab(example(t, "one-gpu")), "gpus: 1", "gpus: {pci: ['01:00']}")
		w.sim.AddMapping("one-gpu_gpu1", "for the workstation", "node=pve1,path=0000:c1:00,id=10de:20f1")
		kept := w.sim.Mappings()
		c := w.cluster(t, parse(t, file))
		_, err := c.Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "homelab did not create the resource mapping one-gpu_gpu1")
		assert.Equal(t, kept, w.sim.Mappings())
	})
}

// A template that image.template names carries our tag, and is not ours.
func TestTemplateOfAnotherIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		defer w.close()
		spec := parse(t, lab(example(t, "one-gpu")))
		w.sim.AddVM(pvesim.VM{ID: 900, Node: "pve1", Name: "golden", Config: map[string]string{
			"template": "1", "tags": "homelab-one-gpu", "memory": "2048", "cores": "2"}})
		w.up(t, spec)
		w.down(t, spec)
		assert.Contains(t, w.names(), "golden")
	})
}
