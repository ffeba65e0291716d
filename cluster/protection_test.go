package cluster_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// What the file protects, its own commands still remove, with consent that says so.
func TestProtection(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		untouched := w.inventory()
		text := replace(t, oneDisk, "addresses: [10.0.0.21]", "addresses: [10.0.0.21]\n    protection: true")
		w.up(t, parse(t, text))
		assert.Empty(t, w.plan(t, parse(t, text)))
		assert.Equal(t, "1", w.vm(t, "wk1").Config["protection"])
		assert.NotContains(t, w.vm(t, "cp1").Config, "protection")

		gone := parse(t, replace(t, text, "      scratch: {size: 100GiB, mount: /scratch}\n", "      scratch: null\n"))
		w.up(t, gone)
		assert.Empty(t, w.plan(t, gone))
		assert.Contains(t, w.vm(t, "wk1").Config["unused0"], "vmdata:", "a disk is detached")
		assert.Equal(t, "1", w.vm(t, "wk1").Config["protection"], "and the VM is protected again")

		was := w.vm(t, "wk1").Config["smbios1"]
		require.NoError(t, w.verb(t, gone, replacements(t.Context(), "wk1", true)))
		assert.NotEqual(t, was, w.vm(t, "wk1").Config["smbios1"])
		assert.Equal(t, "1", w.vm(t, "wk1").Config["protection"])

		c := w.cluster(t, gone)
		g, err := c.Down(t.Context())
		require.NoError(t, err)
		plan, err := g.Plan(t.Context())
		require.NoError(t, err)
		var why []string
		for _, cost := range (&converge.Agreement{}).NotAgreed(plan) {
			why = append(why, strings.TrimSpace(cost.Machine+" "+cost.Reason))
		}
		assert.Subset(t, why, []string{"cp1", "wk1 its protection is lifted"})
		c.Close()
		w.down(t, gone)
		assert.Equal(t, untouched, w.inventory())
	})
}

// A VM that somebody protects by hand stays, whatever is agreed to, and nothing of it is stopped.
func TestProtectionByHand(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, oneDisk)
		w.up(t, spec)
		id := w.vm(t, "wk1").ID
		w.set(t, id, `{"protection": 1}`)
		assert.Empty(t, w.plan(t, spec), "a file that says nothing of it leaves it")
		const cure = "it is protected in Proxmox; to lift that, as root on pve1: qm set "

		var no *cluster.RefusedError
		require.ErrorAs(t, w.verb(t, spec, replacements(t.Context(), "wk1", true)), &no)
		assert.Contains(t, no.Error(), cure)

		smaller := parse(t, oneDisk[:strings.Index(oneDisk, "  wk:")])
		c := w.cluster(t, smaller)
		defer c.Close()
		_, err := c.Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, cure)
		g, err := c.Down(t.Context())
		require.NoError(t, err)
		plan, err := g.Plan(t.Context())
		require.NoError(t, err)
		require.ErrorContains(t, plan.Err(), cure)
		require.True(t, converge.IsPermanent(plan.Err()))
		assert.True(t, w.vm(t, "wk1").Running)

		w.set(t, id, `{"protection": 0}`)
		w.up(t, smaller)
		w.down(t, smaller)
		assert.Empty(t, w.sim.VMs())
	})
}

// A balloon is there from a new machine's first start on; a running one gets it, or loses it, by a restart.
// A minimum that somebody set stays with it.
func TestBalloon(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		with := replace(t, oneDisk, "addresses: [10.0.0.21]", "addresses: [10.0.0.21]\n    balloon: true")
		w.up(t, parse(t, with))
		assert.Empty(t, w.plan(t, parse(t, with)))
		assert.NotContains(t, w.vm(t, "wk1").Config, "balloon")
		assert.Equal(t, "0", w.vm(t, "cp1").Config["balloon"])
		w.configure(t, "wk1", "balloon", "1024")
		assert.Empty(t, w.plan(t, parse(t, with)))

		for _, text := range []string{oneDisk, with} {
			assert.Contains(t, strings.Join(w.plan(t, parse(t, text)), "\n"), "(needs a restart)")
			before := w.now()
			w.up(t, parse(t, text))
			assert.Equal(t, []string{"wk1"}, before.changes().Restarted)
			assert.Empty(t, w.plan(t, parse(t, text)))
		}
		assert.NotContains(t, w.vm(t, "wk1").Config, "balloon")
	})
}
