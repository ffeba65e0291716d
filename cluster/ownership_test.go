package cluster_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A running VM keeps the cards with which it was started, whatever its mapping says.
func TestOtherCardsAreARestart(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
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

// A mapping that somebody deleted is put back. The machine that runs with its cards keeps them, and
// is asked to stop only if nothing shows which cards it has.
func TestDeletedMapping(t *testing.T) {
	for _, c := range []struct {
		model pvesim.Model
		stops string
	}{
		{pvesim.OneGPU(), ""},
		{pvesim.EightA100(), "its resource mapping was deleted, and which of the host's cards it has cannot be seen"},
	} {
		inWorld(t, c.model, func(t *testing.T, w *world) {
			spec := parse(t, lab(example(t, "one-gpu")))
			w.up(t, spec)
			kept, cards := w.sim.Mappings(), w.vm(t, "gpu1").PCI
			id, token := w.sim.Token()
			require.Equal(t, 200, request(t, w.sim.Client(), "DELETE", "/cluster/mapping/pci/one-gpu_gpu1", id+"="+token, ""))

			cluster := w.cluster(t, spec)
			plan, err := cluster.Up().Plan(t.Context())
			require.NoError(t, err)
			require.NoError(t, plan.Err())
			assert.True(t, plan.Changes())
			var costs []string
			for _, it := range plan.Items {
				for _, cost := range it.Costs {
					costs = append(costs, cost.Reason)
				}
			}
			if c.stops != "" {
				assert.Equal(t, []string{c.stops}, costs)
				return
			}
			assert.Empty(t, costs)
			before := w.now()
			w.up(t, spec)
			assert.Equal(t, kept, w.sim.Mappings())
			assert.Empty(t, before.changes().Restarted)
			assert.Equal(t, cards, w.vm(t, "gpu1").PCI)
			assert.Empty(t, w.plan(t, spec))
		})
	}
}

// A machine that lost its tag, its mark or all tags is the cluster's, and gets them back.
func TestLostTags(t *testing.T) {
	for name, rest := range map[string]func(tags string) string{
		"the tag":  func(tags string) string { return strings.Replace(tags, "homelab-one-gpu;", "", 1) },
		"the mark": func(string) string { return "homelab-one-gpu" },
		"all":      func(string) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
				spec := parse(t, lab(example(t, "one-gpu")))
				w.up(t, spec)
				all := w.inventory()
				for _, node := range []string{"server1", "gpu1"} {
					w.configure(t, node, "tags", rest(w.vm(t, node).Config["tags"]))
				}
				require.NotEqual(t, all, w.inventory())

				plan := strings.Join(w.plan(t, spec), "\n")
				assert.Contains(t, plan, "vm/server1: tags")
				assert.NotContains(t, plan, "gpus/")
				before := w.now()
				w.up(t, spec)
				assert.Empty(t, before.changes().Restarted)
				assert.Equal(t, all, w.inventory())

				w.configure(t, "gpu1", "tags", rest(w.vm(t, "gpu1").Config["tags"]))
				w.down(t, spec)
				assert.Empty(t, w.names())
			})
		})
	}
}

func TestMappingOfAnotherIsKept(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
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
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, lab(example(t, "one-gpu")))
		w.sim.AddVM(pvesim.VM{ID: 900, Node: "pve1", Name: "golden", Config: map[string]string{
			"template": "1", "tags": "homelab-one-gpu", "memory": "2048", "cores": "2"}})
		w.up(t, spec)
		w.down(t, spec)
		assert.Contains(t, w.names(), "golden")
	})
}
