package cluster_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// ownerDivides does to a VM what somebody does in the web interface.
func (w *world) byHand(t testing.TB, spec *spec.Spec, name, what string) {
	t.Helper()
	pve := w.cluster(t, spec).Proxmox
	vm, err := pve.VMs.Get(t.Context(), "homelab-"+spec.Name, name)
	require.NoError(t, err)
	require.NotNil(t, vm)
	switch what {
	case "stop":
		require.NoError(t, pve.VMs.Stop(t.Context(), vm))
	case "start":
		require.NoError(t, pve.VMs.Start(t.Context(), vm))
	case "destroy":
		require.NoError(t, pve.VMs.Remove(t.Context(), vm))
	}
	time.Sleep(time.Minute)
}

// What somebody did by hand is seen by a plan and mended by up, and nothing else is
// touched: the world is as it was.
func TestDriftIsMended(t *testing.T) {
	for _, tc := range []struct {
		node, what string
		plan       string // of the VM
	}{
		{"wk-gpu1", "stop", "vm/wk-gpu1: power: stopped → running"},
		{"cp2", "stop", "vm/cp2: power: stopped → running"},
		{"cp1", "stop", "vm/cp1: power: stopped → running"},
		{"wk-gpu1", "destroy", "vm/wk-gpu1: 16 cores, 128GiB, disk 100GiB + 200GiB, 2 GPUs"},
		{"cp3", "destroy", "vm/cp3: 4 cores, 16GiB, disk 50GiB"},
		{"cp1", "destroy", "vm/cp1: 4 cores, 16GiB, disk 50GiB"},
	} {
		t.Run(tc.what+" "+tc.node, func(t *testing.T) {
			t.Parallel()
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				spec := parse(t, example(t, "eight-a100"))
				w.up(t, spec)
				inventory, machines := w.inventory(), w.guests()
				w.byHand(t, spec, tc.node, tc.what)
				assert.Contains(t, w.plan(t, spec), tc.plan)
				w.recovers(t, spec, inventory)
				for name, m := range w.guests() {
					assert.Equal(t, name != tc.node, m == machines[name], "%s was not restarted", name)
				}
			})
		})
	}
}

// Labels, taints and a cordon that somebody changed come back; what others set stays.
func TestDriftInKubernetes(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, lab(example(t, "one-gpu")))
		w.up(t, spec)
		client := w.api(t)
		require.NoError(t, client.Cordon(t.Context(), "gpu1"))
		assert.Equal(t, []string{"node/gpu1: scheduling: cordoned → allowed"}, w.plan(t, spec))
		before := w.now()
		report := w.up(t, spec)
		assert.Equal(t, 1, report.Count(converge.Changed))
		assert.Equal(t, changes{Kubernetes: []string{"PATCH /api/v1/nodes/gpu1?fieldManager=homelab"}}, before.changes())
	})
}

// Servers can be removed as well, the first one of the file too: the others go on.
func TestRemovalOfAServer(t *testing.T) {
	text := func(names string, n int) string {
		return fmt.Sprintf(`
name: three
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {vip: 10.0.0.100}
pools:
  cp: {role: server, %s}
  wk: {count: 1, addresses: [10.0.0.2%d], gpus: 1, memory: 64GiB}
`, names, n)
	}
	all := text("names: [cp1, cp2, cp3], addresses: [10.0.0.11, 10.0.0.12, 10.0.0.13]", 1)
	for gone, rest := range map[string]string{
		"cp1": text("names: [cp2, cp3], addresses: [10.0.0.12, 10.0.0.13]", 1),
		"cp3": text("names: [cp1, cp2], addresses: [10.0.0.11, 10.0.0.12]", 1),
	} {
		t.Run(gone, func(t *testing.T) {
			inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
				w.up(t, parse(t, all))
				spec := parse(t, rest)
				machines := w.guests()
				w.up(t, spec)
				assert.Empty(t, w.plan(t, spec))
				assert.NotContains(t, w.nodes(t), gone)
				assert.Len(t, w.nodes(t), 3)
				assert.Len(t, w.kube.Clusters(), 1)
				for name, m := range w.guests() {
					assert.Same(t, machines[name], m, "%s was not restarted", name)
				}

				again := parse(t, all) // and it may come back
				w.up(t, again)
				assert.Empty(t, w.plan(t, again))
				assert.Len(t, w.nodes(t), 4)
				assert.Len(t, w.kube.Clusters(), 1)
			})
		})
	}
}

// Another version of K3s goes from node to node, servers first, never more than one
// away; no machine is made, so no template is baked.
func TestUpgrade(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		text := example(t, "eight-a100")
		w.up(t, parse(t, text))
		inventory, begin := w.inventory(), w.output.Len()
		spec := parse(t, replace(t, text, "v1.36.5+k3s1", "v1.36.6+k3s1"))
		var want, order []string
		for _, n := range spec.Nodes {
			want = append(want, "k3s/"+n.Name+": version: v1.36.5+k3s1 → v1.36.6+k3s1 (needs a restart)")
		}
		assert.Equal(t, want, w.plan(t, spec)[:7])
		before := w.now()
		w.up(t, spec)
		for _, n := range w.nodes(t) {
			assert.Equal(t, "v1.36.6+k3s1", n.Version)
			assert.True(t, n.Ready)
			assert.False(t, n.Cordoned)
		}
		assert.Empty(t, before.changes().Proxmox)
		assert.Empty(t, before.changes().Restarted)
		assert.Equal(t, inventory, w.inventory())
		assert.Empty(t, w.plan(t, spec))
		for _, m := range regexp.MustCompile(`k3s/(\S+) +draining`).FindAllStringSubmatch(w.output.String()[begin:], -1) {
			order = append(order, m[1])
		}
		require.Len(t, order, 7, "each once")
		assert.Equal(t, []string{"cp1", "cp2", "cp3"}, order[:3])
	})
}
