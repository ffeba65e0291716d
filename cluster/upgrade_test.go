package cluster_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// newer is the release that the examples are upgraded to.
const newer = "v1.36.6+k3s1"

// threeAndTwo is eight-a100 with three servers and two of its workers.
func threeAndTwo(t *testing.T) string {
	t.Helper()
	text := replace(t, example(t, "eight-a100"), "count: 4", "count: 2")
	return replace(t, text, "10.0.0.21-10.0.0.24", "10.0.0.21-10.0.0.22")
}

// upgraded is a file with another version.
func upgraded(t *testing.T, text string) *spec.Spec {
	t.Helper()
	return parse(t, replace(t, text, "v1.36.5+k3s1", newer))
}

// tries is up that may fail.
func (w *world) tries(t *testing.T, spec *spec.Spec) error {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	_, err := c.Up().Run(t.Context(), w.listen(t))
	return err
}

// snapshotsOf lists the snapshots before upgrades on a server.
func (w *world) snapshotsOf(t *testing.T, server string) []string {
	t.Helper()
	return regexp.MustCompile(`(?m)^homelab-before-\S+`).FindAllString(ask(t, w.guests()[server], "k3s", "etcd-snapshot", "ls"), -1)
}

func (w *world) versions(t *testing.T) map[string]string {
	out := map[string]string{}
	for name, n := range w.nodes(t) {
		out[name] = n.Version
	}
	return out
}

// Etcd is saved once, before the first server gets another version, also if the run that
// begins is cut off and repeated.
func TestSnapshotBeforeAnUpgrade(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		text := threeAndTwo(t)
		w.up(t, parse(t, text))
		time.Sleep(time.Minute)
		w.sim.SetGuestFaults(w.vm(t, "cp2").ID, guest.Faults{NodeNeverReady: true})
		err := w.tries(t, upgraded(t, text))
		require.Error(t, err)
		saved := w.snapshotsOf(t, "cp1")
		require.Len(t, saved, 1)
		assert.Regexp(t, `^homelab-before-v1\.36\.6-k3s1-cp1-\d+$`, saved[0])
		assert.Contains(t, w.output.String(), "the snapshot of etcd before the upgrade is "+saved[0]+" on cp1")
		assert.ErrorContains(t, err, "to go on: fix that, then run homelab cluster:up again: it goes on with cp2")
		assert.ErrorContains(t, err, "to go back: restore the snapshot "+saved[0]+", which is on cp1: docs/restore.md")
		now := w.versions(t)
		assert.Equal(t, newer, now["cp1"])
		for _, name := range []string{"cp3", "wk-gpu1", "wk-gpu2"} {
			assert.Equal(t, "v1.36.5+k3s1", now[name], "%s: nothing goes on after a sick server", name)
		}
		w.sim.SetGuestFaults(w.vm(t, "cp2").ID, guest.Faults{})
		_, err = w.guests()["cp2"].AgentExec([]string{"systemctl", "restart", "k3s"}, nil)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		w.up(t, upgraded(t, text))
		for _, server := range []string{"cp1", "cp2", "cp3"} {
			assert.Equal(t, map[bool][]string{true: saved, false: nil}[server == "cp1"], w.snapshotsOf(t, server))
		}
		time.Sleep(time.Minute)
		assert.Empty(t, w.plan(t, upgraded(t, text)))
	})
}

// A lone server keeps etcd too, and is saved as well.
func TestSnapshotOfALoneServer(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		text := duo + "k3s: {version: v1.36.5+k3s1}\n"
		w.up(t, parse(t, text))
		time.Sleep(time.Minute)
		w.up(t, upgraded(t, text))
		assert.Len(t, w.snapshotsOf(t, "cp1"), 1)
	})
}

// A server whose etcd member does not answer stops an upgrade before another one goes down,
// although its kubelet says that it is Ready.
func TestNoServerGoesDownWhileEtcdIsSick(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		text := threeAndTwo(t)
		w.up(t, parse(t, text))
		time.Sleep(time.Minute)
		for name, n := range w.nodes(t) {
			assert.Equal(t, map[string]string{"server": "True"}[n.Role], n.Voter, name)
		}
		sick := func(f guest.Faults) {
			w.sim.SetGuestFaults(w.vm(t, "cp3").ID, f)
			_, err := w.guests()["cp3"].AgentExec([]string{"systemctl", "restart", "k3s"}, nil)
			require.NoError(t, err)
			time.Sleep(time.Minute)
		}
		sick(guest.Faults{EtcdSick: true})
		n := w.nodes(t)["cp3"]
		require.True(t, n.Ready)
		require.Equal(t, "False", n.Voter)
		err := w.tries(t, upgraded(t, text))
		require.ErrorContains(t, err, "cp3: its etcd member is not well: Unhealthy: failed to check etcd member status")
		assert.ErrorContains(t, err, "to go on: fix that, then run homelab cluster:up again: it goes on with cp1")
		for name, v := range w.versions(t) {
			assert.Equal(t, "v1.36.5+k3s1", v, name)
		}
		assert.Empty(t, w.snapshotsOf(t, "cp1"), "nothing has begun")
		sick(guest.Faults{})
		w.up(t, upgraded(t, text))
		for name, v := range w.versions(t) {
			assert.Equal(t, newer, v, name)
		}
	})
}

// The step to a version that Kubernetes does not support is refused before anything changes,
// in the plan too.
func TestVersionsThatCannotBe(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		text := duo + "k3s: {version: v1.36.5+k3s1}\n"
		w.up(t, parse(t, text))
		time.Sleep(time.Minute)
		for version, why := range map[string]string{
			"v1.36.4+k3s1": "k3s cannot go from v1.36.5+k3s1 to v1.36.4+k3s1: Kubernetes cannot be downgraded: restore a snapshot from before the upgrade instead",
			"v1.38.0+k3s1": "k3s cannot go from v1.36.5+k3s1 to v1.38.0+k3s1: upgrade one minor version at a time: write a v1.37 release first",
		} {
			other := parse(t, replace(t, replace(t, text, "v1.36.5+k3s1", version), "role: server", "role: server, cores: 6"))
			before := w.now()
			err := w.tries(t, other)
			require.ErrorContains(t, err, why)
			assert.Equal(t, changes{}, before.changes(), version)
			c := w.cluster(t, other)
			plan, err := c.Up().Plan(t.Context())
			c.Close()
			require.NoError(t, err)
			require.ErrorContains(t, plan.Err(), why)
		}
		// An older agent can only be made again, as after a snapshot from before an upgrade.
		older := parse(t, replace(t, text, "v1.36.5+k3s1", "v1.36.4+k3s1"))
		require.ErrorContains(t, w.tries(t, parse(t, replace(t, replace(t, text, "v1.36.5+k3s1", "v1.36.4+k3s1"), "role: server", "role: server, cores: 6"))),
			"wk1: K3s cannot go from v1.36.5+k3s1 back to v1.36.4+k3s1 on a machine: homelab node:replace -node=NAME makes an agent again in that version")
		require.NoError(t, w.verb(t, older, replacements(t.Context(), "wk1", true)))
		assert.Equal(t, "v1.36.4+k3s1", w.versions(t)["wk1"])
		w.up(t, parse(t, text))

		// An agent that is made again would come in the version of the file.
		ahead := parse(t, replace(t, text, "v1.36.5+k3s1", newer))
		before := w.now()
		err := w.verb(t, ahead, replacements(t.Context(), "wk1", true))
		require.ErrorContains(t, err, "wk1: the server cp1 runs K3s v1.36.5+k3s1, and an agent with v1.36.6+k3s1 would be newer")
		assert.Equal(t, changes{}, before.changes())
	})
}

// Pods that hold GPUs have time to end. Then their node keeps its version, and the others
// are upgraded.
func TestPodsWithGPUsStopAnUpgrade(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		text := threeAndTwo(t)
		w.up(t, parse(t, text))
		time.Sleep(time.Minute)
		busy := lodger("training", "wk-gpu1", 2)
		pod := w.moveIn(t, busy)
		for _, it := range w.looks(t, upgraded(t, text)).Items {
			for _, cost := range it.Costs {
				assert.NotContains(t, converge.LossTexts(cost.Users), "pod default/"+pod+" (2 GPU)", "%s: it goes on", it.Step)
			}
		}
		begun := time.Now()
		err := w.tries(t, upgraded(t, text))
		require.ErrorContains(t, err, "wk-gpu1 keeps its version, because pods hold its GPUs after 1h: pod default/"+pod+" (2 GPU), of Deployment training")
		assert.InDelta(t, time.Hour.Minutes(), time.Since(begun).Minutes(), 15)
		assert.Equal(t, pod, w.running(t, busy), "it is the same pod")
		now := w.versions(t)
		assert.Equal(t, "v1.36.5+k3s1", now["wk-gpu1"])
		assert.Equal(t, newer, now["wk-gpu2"], "nobody waits for wk-gpu1")
		assert.False(t, w.nodes(t)["wk-gpu1"].Cordoned)

		// It ends by itself while the next run waits.
		done := make(chan error, 1)
		go func() { done <- w.tries(t, upgraded(t, text)) }()
		time.Sleep(20 * time.Minute)
		assert.Contains(t, w.output.String(), "wk-gpu1 waits for pods that hold GPUs: pod default/"+pod)
		require.NoError(t, w.api(t).Delete(t.Context(), busy))
		require.NoError(t, <-done)
		assert.Equal(t, newer, w.versions(t)["wk-gpu1"])
		assert.False(t, w.nodes(t)["wk-gpu1"].Cordoned)
	})
}

// The file may say otherwise.
func TestPodsWithGPUsAreEvicted(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		text := replace(t, threeAndTwo(t), "k3s:\n", "k3s:\n  upgrade: {gpuPods: evict, wait: 10m}\n")
		w.up(t, parse(t, text))
		time.Sleep(time.Minute)
		busy := lodger("training", "wk-gpu1", 2)
		pod := w.moveIn(t, busy)
		begun := time.Now()
		w.up(t, upgraded(t, text))
		assert.GreaterOrEqual(t, time.Since(begun), 10*time.Minute)
		assert.NotEqual(t, pod, w.running(t, busy))
		assert.Contains(t, w.output.String(), "evicting the pods that hold GPUs of wk-gpu1, as k3s.upgrade says: pod default/"+pod+" (2 GPU)")
		for name, v := range w.versions(t) {
			assert.Equal(t, newer, v, name)
		}
	})
}

// The files for nodes without internet are checked before the first node is touched.
func TestAirgapFilesThatAreWrong(t *testing.T) {
	dir := t.TempDir()
	fillK3s(t, dir, "v1.36.5+k3s1")
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		text := duo + "k3s: {version: v1.36.5+k3s1, airgap: " + dir + "}\n"
		w.up(t, parse(t, text))
		time.Sleep(time.Minute)
		before := w.now()
		refused := func(why string) {
			t.Helper()
			require.ErrorContains(t, w.tries(t, upgraded(t, text)), why)
			assert.Equal(t, changes{}, before.changes())
		}
		refused(filepath.Join(dir, "k3s") + " (k3s.airgap) is K3s v1.36.5+k3s1, and the file says v1.36.6+k3s1: get the three files of that release")
		fillK3s(t, dir, newer)
		images := filepath.Join(dir, "k3s-airgap-images-amd64.tar.zst")
		whole, err := os.ReadFile(images)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(images, whole[:len(whole)/2], 0o600))
		refused(images + " (k3s.airgap) is not the file of its checksum: get it again from https://github.com/k3s-io/k3s/releases/download/v1.36.6%2Bk3s1/k3s-airgap")
		require.NoError(t, os.WriteFile(images, whole, 0o600))
		w.up(t, upgraded(t, text))
		for name, v := range w.versions(t) {
			assert.Equal(t, newer, v, name)
		}
	})
}

// A node that is new in the file that upgrades joins when every server has the version: until
// then its kubelet would be newer than an API server.
func TestNewAgentOfAnUpgradeWaitsForTheServers(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		text := threeAndTwo(t)
		w.up(t, parse(t, text))
		time.Sleep(time.Minute)
		more := replace(t, replace(t, text, "count: 2\n", "count: 3\n"), "10.0.0.21-10.0.0.22", "10.0.0.21-10.0.0.23")
		spec := upgraded(t, more)
		oldest := newer
		done := make(chan error, 1)
		go func() { done <- w.tries(t, spec) }()
		for going := true; going; {
			select {
			case err := <-done:
				require.NoError(t, err)
				going = false
			case <-time.After(time.Second):
				for _, c := range w.kube.Clusters() {
					if c.HasNode("wk-gpu3") && oldest == newer {
						for name, v := range w.versions(t) {
							if strings.HasPrefix(name, "cp") {
								oldest = min(oldest, v)
							}
						}
						require.Equal(t, newer, oldest, "a server is older than wk-gpu3")
					}
				}
			}
		}
		assert.Equal(t, newer, w.versions(t)["wk-gpu3"])
		time.Sleep(time.Minute)
		assert.Empty(t, w.plan(t, spec))
	})
}

// A worker is made again from another template than the one it came from, which is baked before
// the old machine goes.
func TestReplaceFromANewTemplate(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		text := duo + "k3s: {version: v1.36.5+k3s1}\n"
		w.up(t, parse(t, text))
		time.Sleep(time.Minute)
		driver := parse(t, text+"nvidia: {driver: {flavour: proprietary}}\n")
		before := w.output.Len()
		require.NoError(t, w.verb(t, driver, replacements(t.Context(), "wk1", true)))
		said := w.output.String()[before:]
		baked, gone := strings.Index(said, "changed   template/pve1"), strings.Index(said, "acting    retire/wk1")
		require.Positive(t, baked)
		assert.Less(t, baked, gone, "the old machine goes once the template is there")
		time.Sleep(3 * time.Minute)
		assert.Empty(t, w.plan(t, driver))
	})
}
