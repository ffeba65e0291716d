package session

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A VM that carries the cluster's tag and is not the cluster's is named by whatever looks
// at the cluster, with what to do, and stays when it goes.
func TestStraysAreNamed(t *testing.T) {
	inSite(t, func(t *testing.T, w *site) {
		const yaml = `
name: tiny
proxmox: {endpoint: lab, host: pve1}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools: {cp: {role: server, count: 1, addresses: [10.0.0.11]}}
`
		require.NoError(t, w.do(yaml, Options{}, with(UpFlags{}, Up)))
		w.sim.AddVM(pvesim.VM{ID: 900, Node: "pve1", Name: "annas-copy", Running: true, Config: map[string]string{"memory": "1024", "tags": "homelab-tiny;mine"}})
		time.Sleep(time.Minute)
		const want = "warning: VM 900 (annas-copy) on pve1 has the tag homelab-tiny but is not a machine of this cluster: it carries the tag homelab-tiny without a mark of its own. " +
			"homelab does not change, stop or destroy it\n"
		for name, look := range map[string]func(*Session, context.Context) error{"plan": Plan, "status": Status, "up": with(UpFlags{}, Up)} {
			require.NoError(t, w.do(yaml, Options{}, look), name)
			assert.Contains(t, w.talk.String(), want, name)
			assert.Contains(t, w.talk.String(), "qm set 900 --tags mine", name)
		}
		require.NoError(t, w.do(yaml, Options{}, with(DownFlags{ChangeFlags: ChangeFlags{Yes: true}}, Down)))
		assert.Contains(t, w.talk.String(), want)
		assert.True(t, slices.ContainsFunc(w.sim.VMs(), func(vm pvesim.VMState) bool { return vm.ID == 900 && vm.Running }))
	})
}
