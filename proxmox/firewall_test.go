package proxmox_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// walled is a VM whose firewall has a rule and a group that somebody set by hand.
func walled(t *testing.T, c *proxmox.Client) *proxmox.VM {
	template(t, c)
	require.NoError(t, ensure(t.Context(), c, scratchNode(t, c)))
	vm, err := c.VMs.Get(t.Context(), owner, scratchNode(t, c).Name)
	require.NoError(t, err)
	for _, p := range []api.Params{{"type": "in", "action": "ACCEPT", "proto": "tcp", "dport": "22"}, {"type": "group", "action": "theirs", "enable": 1}} {
		require.NoError(t, c.Call(t.Context(), http.MethodPost, api.VMPath(vm.Host, vm.VMID, "firewall/rules"), p, nil))
	}
	return vm
}

// rulesOf are the actions of all rules of a VM.
func rulesOf(ctx context.Context, t *testing.T, c *proxmox.Client, vm *proxmox.VM) (out []string) {
	var all []struct{ Action string }
	require.NoError(t, c.Get(ctx, api.VMPath(vm.Host, vm.VMID, "firewall/rules"), nil, &all))
	for _, r := range all {
		out = append(out, r.Action)
	}
	return out
}

func TestFirewall(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		vm := walled(t, c)
		is := func() proxmox.Firewall {
			f, err := c.Firewall.Get(t.Context(), vm)
			require.NoError(t, err)
			return f
		}
		assert.Empty(t, is().Diff(nil), "a group that somebody set is not ours, and without groups the firewall may be off")
		since := len(sim.Requests())
		require.NoError(t, c.Firewall.Set(t.Context(), vm, nil))
		assert.Empty(t, mutations(sim, since))

		for _, want := range [][]string{{"k8s", "web"}, {"web", "k8s"}, {"web"}, {"k8s", "web", "db"}} {
			require.NotEmpty(t, is().Diff(want))
			require.NoError(t, c.Firewall.Set(t.Context(), vm, want))
			assert.Empty(t, is().Diff(want))
			assert.True(t, is().Enabled)
			assert.Equal(t, append(slices.Clone(want), "theirs", "ACCEPT"), rulesOf(t.Context(), t, c, vm), "ours first, the others stay")
		}
		require.NoError(t, c.Call(t.Context(), http.MethodPut, api.VMPath(vm.Host, vm.VMID, "firewall/rules/1"), api.Params{"enable": 0}, nil))
		require.NoError(t, c.Call(t.Context(), http.MethodPut, api.VMPath(vm.Host, vm.VMID, "firewall/options"), api.Params{"enable": 0}, nil))
		want := []string{"k8s", "web", "db"}
		assert.Equal(t, "security groups: k8s, -web, db → k8s, web, db; firewall: off → on", is().Diff(want).String())
		require.NoError(t, c.Firewall.Set(t.Context(), vm, want))
		assert.Empty(t, is().Diff(want))

		assert.Equal(t, "security groups: k8s, web, db → (none)", is().Diff([]string{}).String())
		require.NoError(t, c.Firewall.Set(t.Context(), vm, []string{}))
		assert.Equal(t, []string{"theirs", "ACCEPT"}, rulesOf(t.Context(), t, c, vm))
		assert.True(t, is().Enabled)
	})
}

// A change that ends at any of its requests, before or after Proxmox did it, is finished by the next run,
// and a group that is there before and after is there all the time.
func TestFirewallInterrupted(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		vm := walled(t, c)
		before, after := []string{"k8s", "web"}, []string{"db", "k8s"}
		hits := map[string]int{}
		for _, method := range []string{http.MethodPost, http.MethodDelete, http.MethodPut} {
			for nth := range 3 {
				for _, done := range []bool{false, true} {
					require.NoError(t, c.Firewall.Set(t.Context(), vm, before))
					require.NoError(t, c.Call(t.Context(), http.MethodPut, api.VMPath(vm.Host, vm.VMID, "firewall/options"), api.Params{"enable": 0}, nil))
					rule := sim.Fail(pvesim.Rule{Method: method, Path: ".*/firewall/.*", Skip: nth, Drop: true, After: done})
					_ = c.Firewall.Set(t.Context(), vm, after)
					hits[method] += rule.Hits()
					rule.Remove()
					assert.Contains(t, rulesOf(t.Context(), t, c, vm), "k8s")
					require.NoError(t, c.Firewall.Set(t.Context(), vm, after))
					f, err := c.Firewall.Get(t.Context(), vm)
					require.NoError(t, err)
					assert.Empty(t, f.Diff(after), "%s %d", method, nth)
					assert.Equal(t, append(slices.Clone(after), "theirs", "ACCEPT"), rulesOf(t.Context(), t, c, vm))
				}
			}
		}
		assert.Equal(t, map[string]int{http.MethodPost: 4, http.MethodDelete: 4, http.MethodPut: 2}, hits)
	})
}
