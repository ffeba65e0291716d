package cluster

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
)

// A reboot that waits costs what runs on the host, and nothing where none waits.
func TestCostsOfAReboot(t *testing.T) {
	p := &hostprep.HostPlan{Name: "pve1", State: hostprep.State{Guests: []string{"VM 100 web", "CT 101 dns"}}}
	assert.Empty(t, p.Costs())
	p.Reboot = []string{"a new kernel"}
	costs := p.Costs()
	require.Len(t, costs, 2)
	assert.Equal(t, converge.Cost{Machine: "CT 101 dns on pve1", Kind: converge.CostStop, Reason: "a reboot of pve1"}, costs[1])
}

// What the file asks of the hosts: whose mappings are ours, and which driver is for which
// release.
func TestWhatIsAskedOfTheHosts(t *testing.T) {
	c, _, stop := failingHosts(t, "pve1")
	defer stop()
	w := c.requirements()
	assert.True(t, w.Mappings("x", names.MappingNote(c.spec)))
	assert.False(t, w.Mappings(names.Mapping(c.spec, "wk1"), "somebody's"))
}

// Whose K3s it is, is asked of external machines alone: a VM of ours has ours.
func TestVMsAreNotAskedWhoseTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, stop := failingHosts(t, "pve1")
		defer stop()
		ctx := t.Context()
		require.NoError(t, c.members.CheckOwnServer(ctx, "nobody"))
		for _, n := range c.spec.Nodes {
			require.NoError(t, c.members.CheckOwnServer(ctx, n.Name), "nobody is there to answer")
		}
		outside, _, _ := failing(t, failingFile)
		require.Error(t, outside.members.CheckOwnServer(t.Context(), "a"), "nobody is there to answer")
		synctest.Wait()
	})
}

// A machine that goes is named, by its number where it has no name, with what is in it as
// far as that can be seen.
func TestCostsOfMachinesThatGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, stop := failingHosts(t, "pve1")
		defer stop()
		ctx := t.Context()
		for want, vm := range map[string]*proxmox.VM{"vm107": {VMID: 107}, "nameless": nil} {
			cost := c.destroys(ctx, "", "why", vm, nil)
			assert.Equal(t, want, cost.Machine)
			assert.Equal(t, converge.CostDestroy, cost.Kind)
		}
		assert.Equal(t, "wk1", c.destroys(ctx, "wk1", "why", &proxmox.VM{VMID: 107}, nil).Machine)
		assert.Contains(t, strings.Join(converge.LossTexts(c.destroys(ctx, "wk1", "why", nil, errors.New("no answer")).Holds), "; "), "its disks are not readable: no answer")
		synctest.Wait()
	})
}
