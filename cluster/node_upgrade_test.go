package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

func upgradedPackages(node string) func(*cluster.Cluster) (*converge.Graph, error) {
	return func(c *cluster.Cluster) (*converge.Graph, error) { return c.NodeUpgrade(node) }
}

// movesOn lets the archive of every machine bring a newer kernel.
func (w *world) movesOn(t testing.TB, more ...guest.Faults) {
	t.Helper()
	f := guest.Faults{}
	for _, m := range more {
		f = m
	}
	f.ArchiveMovesOn = true
	for _, vm := range w.sim.VMs() {
		w.sim.SetGuestFaults(vm.ID, f)
	}
}

// lookUpgrade is the plan of node:upgrade.
func (w *world) lookUpgrade(t testing.TB, spec *spec.Spec, node string) *converge.Plan {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	g, err := c.NodeUpgrade(node)
	require.NoError(t, err)
	plan, err := g.Plan(t.Context())
	require.NoError(t, err)
	require.NoError(t, plan.Err())
	return plan
}

// isNewest checks that every node runs the newest kernel, holds what it held, and works.
func (w *world) isNewest(t testing.TB, spec *spec.Spec, kernel string, held map[string]string) {
	t.Helper()
	nodes := w.nodes(t)
	for _, n := range spec.Nodes {
		m := w.guests()[n.Name]
		assert.Equal(t, kernel+"\n", ask(t, m, "uname", "-r"), n.Name)
		assert.Equal(t, held[n.Name], ask(t, m, "apt-mark", "showhold"), n.Name)
		assert.True(t, nodes[n.Name].Ready && !nodes[n.Name].Cordoned, n.Name)
		assert.EqualValues(t, n.GPUs.Count, nodes[n.Name].Count("nvidia.com/gpu"), n.Name)
		assert.Equal(t, spec.K3s.Version, nodes[n.Name].Version, n.Name)
	}
	assert.False(t, w.lookUpgrade(t, spec, "").Changes())
	assert.Empty(t, w.plan(t, spec))
}

func (w *world) heldBy(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, m := range w.guests() {
		out[name] = ask(t, m, "apt-mark", "showhold")
	}
	return out
}

// Kernel, driver and other packages move together, one node after the other, and only if they are asked
// to: a node whose packages are the newest is left alone.
func TestUpgradeOfPackages(t *testing.T) {
	for name, x := range map[string]struct{ text, kernel string }{
		"prebuilt":       {small, "6.8.0-92-generic"},
		"DKMS":           {dkmsOn("ubuntu-24.04"), "6.8.0-92-generic"},
		"DKMS on Debian": {dkmsOn("debian-13"), "6.12.110+deb13-amd64"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
				spec := parse(t, x.text)
				w.up(t, spec)
				time.Sleep(time.Minute)
				require.NoError(t, w.verb(t, spec, upgradedPackages("")))
				calm := w.now()
				require.NoError(t, w.verb(t, spec, upgradedPackages("")))
				assert.Empty(t, calm.changes().Restarted, "there is nothing to do")

				ask(t, w.guests()["gpu1"], "apt-mark", "hold", "curl") // a person's own
				held := w.heldBy(t)
				w.movesOn(t)
				plan := w.lookUpgrade(t, spec, "")
				var said []string
				for _, it := range plan.Items {
					for _, cost := range it.Costs {
						said = append(said, cost.Machine+": "+cost.Reason)
					}
				}
				require.Len(t, said, 2)
				assert.Contains(t, strings.Join(said, "\n"), " → "+x.kernel)
				assert.Contains(t, strings.Join(said, "\n"), "gpu1: ")
				before := w.now()
				require.NoError(t, w.verb(t, spec, upgradedPackages("gpu1")))
				assert.Equal(t, []string{"gpu1"}, before.changes().Restarted)
				require.NoError(t, w.verb(t, spec, upgradedPackages("")))
				w.isNewest(t, spec, x.kernel, held)
			})
		})
	}
}

// Modules that do not build leave the node on the kernel that it runs, with its pods and its GPUs, and
// no other node goes down.
func TestUpgradeWithoutModules(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, dkmsOn("debian-13"))
		w.up(t, spec)
		time.Sleep(time.Minute)
		require.NoError(t, w.verb(t, spec, upgradedPackages("")))
		held, running := w.heldBy(t), ask(t, w.guests()["gpu1"], "uname", "-r")
		w.movesOn(t, guest.Faults{ModuleDoesNotBuild: true})
		before := w.now()
		err := w.verb(t, spec, upgradedPackages("gpu1"))
		require.ErrorContains(t, err, "make.log ends with:")
		require.ErrorContains(t, err, "pin a newer branch (nvidia.driver.branch)")
		require.ErrorContains(t, err, "to go on: fix that, then run homelab node:upgrade again: it goes on with gpu1")
		assert.Empty(t, before.changes().Restarted)
		assert.Equal(t, running, ask(t, w.guests()["gpu1"], "uname", "-r"))
		assert.False(t, w.nodes(t)["gpu1"].Cordoned)
		assert.EqualValues(t, 1, w.nodes(t)["gpu1"].Count("nvidia.com/gpu"))
		assert.Equal(t, held["gpu1"], ask(t, w.guests()["gpu1"], "apt-mark", "showhold"))

		w.movesOn(t)
		require.NoError(t, w.verb(t, spec, upgradedPackages("")))
		w.isNewest(t, spec, "6.12.110+deb13-amd64", held)
	})
}

// Nodes go down one at a time, servers first, and one whose GPUs pods hold keeps its packages until they
// have ended.
func TestUpgradeOfPackagesTakesTurns(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		time.Sleep(time.Minute)
		held := w.heldBy(t)
		w.movesOn(t)
		busy := lodger("training", "wk-gpu1", 1)
		pod := w.moveIn(t, busy)
		before, servers, workers := w.now(), w.mostDown("cp"), w.mostDown("wk")
		err := w.verb(t, spec, upgradedPackages(""))
		require.ErrorContains(t, err, "wk-gpu1 keeps its packages, because pods hold its GPUs after 1h: pod default/"+pod)
		require.ErrorContains(t, err, "then run homelab node:upgrade again")
		assert.Equal(t, 1, servers())
		assert.Equal(t, 1, workers())
		assert.ElementsMatch(t, []string{"cp1", "cp2", "cp3", "wk-gpu2", "wk-gpu3", "wk-gpu4"}, before.changes().Restarted)
		assert.Equal(t, pod, w.running(t, busy))
		require.NoError(t, w.api(t).Delete(t.Context(), busy))
		require.NoError(t, w.verb(t, spec, upgradedPackages("")))
		w.isNewest(t, spec, "6.8.0-92-generic", held)
	})
}

// What homelab cannot do it refuses before anything changes.
func TestUpgradeOfPackagesIsRefused(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, small)
		w.up(t, spec)
		require.NoError(t, w.verb(t, spec, upgradedPackages("")))
		time.Sleep(time.Minute)
		m := w.guests()["cp1"] // of the template of gpu1
		ask(t, m, "apt-mark", "unhold", "linux-image-virtual")
		before := w.now()
		release := content(t, m, "/etc/os-release")
		for text, says := range map[string]string{
			"ID=rocky\nVERSION_ID=9\n": `the machine runs "rocky", and homelab upgrades only Debian and Ubuntu`,
			strings.Replace(release, `VERSION_ID="24.04"`, `VERSION_ID="22.04"`, 1): "homelab does not upgrade to another release",
		} {
			w.movesOn(t)
			require.NoError(t, m.Disk().WriteFile("/etc/os-release", []byte(text), 0o644))
			require.ErrorContains(t, w.verb(t, spec, upgradedPackages("cp1")), says)
		}
		require.NoError(t, m.Disk().WriteFile("/etc/os-release", []byte(release), 0o644))
		other := parse(t, replace(t, small, "gpus: 1}\n", "gpus: 1}\nnvidia: {driver: {branch: 595-server}}\n"))
		require.ErrorContains(t, w.verb(t, other, upgradedPackages("gpu1")), "its driver is not that of the file")
		var unknown *cluster.UnknownNodeError
		require.ErrorAs(t, w.verb(t, spec, upgradedPackages("gpu7")), &unknown)
		require.ErrorContains(t, w.verb(t, parse(t, strangers), upgradedPackages("a")), "the machine is external, so homelab does not upgrade its packages")
		require.ErrorContains(t, w.verb(t, parse(t, strangers), upgradedPackages("")), "none of its machines is a VM of Proxmox VE")
		assert.Empty(t, before.changes().Restarted)
	})
}

// A run that is killed at any moment is finished by another.
func TestKilledUpgradeOfPackages(t *testing.T) {
	spec := parse(t, dkmsOn("debian-13"))
	moment := func(e converge.Event) string { return fmt.Sprint(e.Step, " ", e.Kind, " ", e.Message) }
	var moments []string
	prepare := func(t *testing.T, then func(t *testing.T, w *world)) {
		inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
			w.up(t, spec)
			time.Sleep(time.Minute)
			w.movesOn(t)
			then(t, w)
		})
	}
	run := func(t *testing.T, w *world, at string) error {
		ctx, kill := context.WithCancel(t.Context())
		defer kill()
		c := w.cluster(t, spec)
		defer c.Close()
		g, err := c.NodeUpgrade("")
		require.NoError(t, err)
		listen := w.listen(t)
		_, err = g.Run(ctx, func(e converge.Event) {
			listen(e)
			if m := moment(e); m == at {
				kill()
			} else if !slices.Contains(moments, m) && at == "" {
				moments = append(moments, m)
			}
		})
		return err
	}
	prepare(t, func(t *testing.T, w *world) { require.NoError(t, run(t, w, "")) })
	require.Greater(t, len(moments), 20)
	for _, at := range moments {
		t.Run(strings.ReplaceAll(at, "/", " "), func(t *testing.T) {
			t.Parallel()
			prepare(t, func(t *testing.T, w *world) {
				held := w.heldBy(t)
				_ = run(t, w, at)
				time.Sleep(processStart)
				require.NoError(t, run(t, w, "again"))
				w.isNewest(t, spec, "6.12.110+deb13-amd64", held)
			})
		})
	}
}
