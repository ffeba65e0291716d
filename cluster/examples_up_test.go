package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// live brings an example up, finds that nothing is left to do, and takes it down.
func (w *world) live(t *testing.T, spec *spec.Spec, while func()) {
	t.Helper()
	before := w.inventory()
	w.up(t, spec)
	assert.Empty(t, w.plan(t, spec))
	while()
	w.down(t, spec)
	assert.Equal(t, before, w.inventory())
}

func TestOneGPUUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := pvesim.OneGPU()
		model.Hosts[0].Name = "pve" // as Proxmox's installer suggests
		model.Hosts[0].Storages[1].Name = "local-lvm"
		w := newWorld(t, model)
		spec := parse(t, example(t, "one-gpu"))
		w.live(t, spec, func() {
			assert.EqualValues(t, 1, w.nodes(t)["gpu1"].Count("nvidia.com/gpu"))
		})
	})
}

// mixedHosts is the site of the example: atlas with four A100, and boreas with one
// RTX 4090 and another storage.
func mixedHosts() pvesim.Model {
	model := pvesim.EightA100()
	atlas, boreas := model.Hosts[0], pvesim.OneGPU().Hosts[0]
	atlas.Name, boreas.Name = "atlas", "boreas"
	atlas.CPUs, boreas.CPUs = 64, 24
	atlas.Storages[1].Name, boreas.Storages[1].Name = "tank", "local-lvm"
	atlas.Storages[1].Size = 8 * pvesim.TiB
	atlas.Bridges, boreas.Bridges = []string{"vmbr1"}, []string{"vmbr1"}
	atlas.MTUs, boreas.MTUs = map[string]int{"vmbr1": 9000}, map[string]int{"vmbr1": 9000}
	model.Hosts, model.VMs = []pvesim.Host{atlas, boreas}, nil
	return model
}

func TestMixedHostsUp(t *testing.T) {
	inWorld(t, mixedHosts(), func(t *testing.T, w *world) {
		spec, err := cluster.Load("../examples/mixed-hosts/cluster.yaml")
		require.NoError(t, err)
		m := w.external(t, "172.16.40.60")
		defer m.Kill()
		line := fmt.Sprintf("172.16.40.60 %s\n", strings.TrimSpace(content(t, m, "/etc/ssh/ssh_host_ed25519_key.pub")))
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, "known_hosts"), []byte(line), 0o644))

		w.live(t, spec, func() {
			nodes := w.nodes(t)
			assert.Len(t, nodes, 6)
			assert.EqualValues(t, 2, nodes["gpu0"].Count("nvidia.com/gpu"), "two cards, each for one pod")
			assert.EqualValues(t, 4, nodes["gpu1"].Count("nvidia.com/gpu"), "one card for four")
			assert.Equal(t, "boreas", w.vm(t, "helen").Node)
			assert.Contains(t, w.vm(t, "helen").Config["scsi0"], "local-lvm:")
			assert.Contains(t, w.vm(t, "castor").Config["scsi0"], "tank:")
			assert.ElementsMatch(t, []string{"0000:41:00.0", "0000:c1:00.0"}, w.vm(t, "gpu0").PCI)
			assert.Equal(t, 4021, w.vm(t, "gpu1").ID)
		})
	})
}
