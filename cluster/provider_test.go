package cluster_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// placesNodes expects that Kubernetes knows each VM's node by its VM, and on which host it is. Every up in a
// world ends with it.
func (w *world) placesNodes(t testing.TB, s *spec.Spec) {
	t.Helper()
	for _, n := range s.Nodes {
		var node corev1.Node
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(w.node(n.Name), &node))
		if n.External {
			assert.Equal(t, "k3s://"+n.Name, node.Spec.ProviderID, n.Name)
			continue
		}
		vm := w.vm(t, n.Name)
		assert.Equal(t, cmp.Or(w.knownAs[n.Name], spec.ProviderID(s.Proxmox.Region, vm.ID)), node.Spec.ProviderID, n.Name)
		assert.Equal(t, []string{s.Proxmox.Region, vm.Node, s.Proxmox.Region, vm.Node}, []string{
			node.Labels[corev1.LabelTopologyRegion], node.Labels[corev1.LabelTopologyZone],
			node.Labels[corev1.LabelFailureDomainBetaRegion], node.Labels[corev1.LabelFailureDomainBetaZone],
		}, n.Name)
	}
}

// joinedEarly makes every VM look to K3s' step as one whose K3s was configured before homelab gave IDs, from
// its first boot on, until done is called.
func (w *world) joinedEarly(s *spec.Spec) (done func()) {
	w.knownAs = map[string]string{}
	for _, n := range s.Nodes {
		w.knownAs[n.Name] = "k3s://" + n.Name
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		const config = "/etc/rancher/k3s/config.yaml"
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			for name, m := range w.guests() {
				if _, err := m.Disk().ReadFile(config); err != nil && w.knownAs[name] != "" {
					text := "node-name: " + name + "\n"
					if _, ours := spec.RegionOf(w.knownAs[name]); ours {
						text += "kubelet-arg: [provider-id=" + w.knownAs[name] + "]\n"
					}
					_ = m.Disk().WriteFile(config, []byte(text), 0o600)
				}
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// Nodes that joined before homelab gave IDs keep those of K3s: nothing differs, and nothing restarts. The doctor
// names them, and a node that is replaced gets its machine's.
func TestNodesThatJoinedEarly(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		want := parse(t, example(t, "eight-a100"))
		done := w.joinedEarly(want)
		w.up(t, want)
		done()
		time.Sleep(5 * time.Minute)
		before := w.now()
		assert.Empty(t, w.plan(t, want))
		report := w.up(t, want)
		assert.Equal(t, len(report.Steps), report.Count(converge.Unchanged))
		assert.Equal(t, changes{}, before.changes())
		found := w.examine(t, want)
		require.Len(t, found, 1)
		assert.Contains(t, found[0], "provider-id of nodes cp1, cp2, cp3, wk-gpu1, wk-gpu2, wk-gpu3, wk-gpu4: ")

		for _, name := range []string{"wk-gpu1", "cp2"} {
			require.NoError(t, w.verb(t, want, func(c *cluster.Cluster) (*converge.Graph, error) {
				return c.NodeReplace(t.Context(), name, false)
			}))
			delete(w.knownAs, name)
			w.up(t, want)
		}
		assert.Contains(t, w.examine(t, want)[0], "provider-id of nodes cp1, cp3, wk-gpu2, wk-gpu3, wk-gpu4: ")
	})
}

// A node with the ID of another machine is refused before the storage driver is installed, and replacing it cures
// that.
func TestVolumesOfAnotherMachine(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		want := w.claimToken(t)
		without := parse(t, strings.Split(proxmoxStorage, "storage:")[0])
		done := w.joinedEarly(without)
		w.knownAs = map[string]string{"wk1": "proxmox://disks/999"}
		w.up(t, without)
		done()
		before := w.now()
		c := w.cluster(t, want)
		defer c.Close()
		_, err := c.Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "wk1 is proxmox://disks/999 in Kubernetes, and its machine is proxmox://disks/")
		assert.Equal(t, changes{}, before.changes())
		require.NoError(t, w.verb(t, want, replacements(t.Context(), "wk1", false)))
		w.knownAs = nil
		w.up(t, want)
	})
}

// A cluster keeps its region: another one is refused before anything changes, by plan, up and replace.
func TestAnotherRegion(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		text := lab(example(t, "one-gpu"))
		w.up(t, parse(t, text))
		other := parse(t, replace(t, text, "endpoint: lab", "endpoint: lab\n  region: elsewhere"))
		before := w.now()
		c := w.cluster(t, other)
		defer c.Close()
		const cure = "write proxmox.region: one-gpu"
		plan, err := c.Up().Plan(t.Context())
		require.NoError(t, err)
		assert.ErrorContains(t, plan.Err(), cure)
		_, err = c.Up().Run(t.Context(), w.listen(t))
		assert.ErrorContains(t, err, cure)
		assert.ErrorContains(t, w.verb(t, other, func(c *cluster.Cluster) (*converge.Graph, error) {
			return c.NodeReplace(t.Context(), "gpu1", false)
		}), cure)
		assert.Equal(t, changes{}, before.changes())
	})
}

// K3s' cloud controller sets the zone to that of the older label, so up sets both for a machine that came from
// elsewhere, and nothing restarts for it.
func TestTheZoneFollowsTheMachine(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		want := parse(t, lab(example(t, "one-gpu")))
		w.up(t, want)
		label := func(key string) {
			require.NoError(t, w.kube.Clusters()[0].Apply(t.Context(), []byte("{apiVersion: v1, kind: Node, metadata: {name: server1, labels: {"+key+": moon}}}")))
			time.Sleep(time.Minute)
		}
		label(spec.ZoneLabel)
		assert.Equal(t, "pve1", w.nodes(t)["server1"].Labels[spec.ZoneLabel], "K3s restores it")
		label(corev1.LabelFailureDomainBetaZone)
		assert.Equal(t, "moon", w.nodes(t)["server1"].Labels[spec.ZoneLabel], "K3s follows")
		before := w.now()
		w.up(t, want)
		assert.Empty(t, before.changes().Guests)
		time.Sleep(time.Minute)
		w.placesNodes(t, want)
	})
}
