package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// verb runs a verb as a command would.
func (w *world) verb(t testing.TB, spec *spec.Spec, make func(*cluster.Cluster) (*converge.Graph, error)) error {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	g, err := make(c)
	if err != nil {
		return err
	}
	_, err = g.Run(t.Context(), w.listen(t))
	return err
}

func replacements(ctx context.Context, node string, force bool) func(*cluster.Cluster) (*converge.Graph, error) {
	return func(c *cluster.Cluster) (*converge.Graph, error) { return c.NodeReplace(ctx, node, force) }
}

func cycled(ctx context.Context, node string, force bool) func(*cluster.Cluster) (*converge.Graph, error) {
	return func(c *cluster.Cluster) (*converge.Graph, error) { return c.NodeCycle(ctx, node, force) }
}

func drainState(node string) func(*cluster.Cluster) (*converge.Graph, error) {
	return func(c *cluster.Cluster) (*converge.Graph, error) { return c.NodeDrain(node) }
}

func uncordoned(node string) func(*cluster.Cluster) (*converge.Graph, error) {
	return func(c *cluster.Cluster) (*converge.Graph, error) { return c.NodeUncordon(node) }
}

func TestDrainAndUncordon(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, lab(example(t, "one-gpu")))
		w.up(t, spec)
		before := w.now()
		require.NoError(t, w.verb(t, spec, drainState("gpu1")))
		assert.True(t, w.nodes(t)["gpu1"].Cordoned)
		again := w.now()
		require.NoError(t, w.verb(t, spec, drainState("gpu1")))
		assert.Equal(t, changes{}, again.changes(), "it is drained already")
		require.NoError(t, w.verb(t, spec, uncordoned("gpu1")))
		assert.False(t, w.nodes(t)["gpu1"].Cordoned)
		assert.Empty(t, before.changes().Proxmox)
		assert.Empty(t, before.changes().Restarted)
	})
}

// A card is reset only when its VM stops: the guest's own reboot is not enough.
func TestCycle(t *testing.T) {
	for _, node := range []string{"wk-gpu2", "cp1", "cp3"} {
		t.Run(node, func(t *testing.T) {
			t.Parallel()
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				spec := parse(t, example(t, "eight-a100"))
				w.up(t, spec)
				time.Sleep(time.Minute)
				inventory, before, boot := w.inventory(), w.now(), w.nodes(t)[node].BootID
				require.NoError(t, w.verb(t, spec, cycled(t.Context(), node, false)))
				assert.Equal(t, []string{node}, before.changes().Restarted)
				assert.Len(t, before.changes().Proxmox, 2, "off and on: %v", before.changes().Proxmox)
				assert.Equal(t, inventory, w.inventory())
				after := w.nodes(t)[node]
				assert.NotEqual(t, boot, after.BootID)
				assert.True(t, after.Ready)
				assert.False(t, after.Cordoned)
				spec2, _ := spec.Node(node)
				assert.EqualValues(t, spec2.GPUs.Count, after.Count("nvidia.com/gpu"))
				time.Sleep(3 * time.Minute) // the services of its boot end, and what still dialled it gives up
				assert.Empty(t, w.plan(t, spec))
			})
		})
	}
}

// The machine is another one, everything else is as it was.
func TestReplace(t *testing.T) {
	for _, node := range []string{"wk-gpu1", "cp1", "cp2"} {
		t.Run(node, func(t *testing.T) {
			t.Parallel()
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				spec := parse(t, example(t, "eight-a100"))
				w.up(t, spec)
				time.Sleep(time.Minute)
				inventory, machines := w.inventory(), w.guests()
				old := w.vm(t, node).Config["smbios1"]
				require.NoError(t, w.verb(t, spec, replacements(t.Context(), node, false)))
				assert.NotEqual(t, old, w.vm(t, node).Config["smbios1"])
				w.recovers(t, spec, inventory)
				for name, m := range w.guests() {
					assert.Equal(t, name != node, m == machines[name], "%s was not touched", name)
				}
			})
		})
	}
}

// A replacement that dies at any request that changes something is finished by another,
// or by up.
func TestCrashWhileReplacing(t *testing.T) {
	spec := parse(t, lab(example(t, "one-gpu")))
	var want []string
	var requests []pvesim.Request
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.up(t, spec)
		time.Sleep(time.Minute)
		w.sim.ForgetRequests()
		require.NoError(t, w.verb(t, spec, replacements(t.Context(), "gpu1", true)))
		want, requests = w.inventory(), w.sim.Requests()[1:]
	})
	mine := share.Start(t, "deaths while replacing a worker")
	for i, r := range requests {
		if !r.Mutating {
			continue
		}
		for _, early := range []bool{true, false} {
			if !mine.Next() {
				continue
			}
			t.Run(fmt.Sprintf("%d before=%t %s", i+1, early, r.Method), func(t *testing.T) {
				t.Parallel()
				inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
					w.up(t, spec)
					time.Sleep(time.Minute)
					ctx, blow := context.WithCancel(t.Context())
					defer blow()
					f := &fuse{next: w.sim.Client().Transport, n: 1 + i + 1, before: early, blow: blow}
					c := w.clusterOver(t, spec, f)
					g, err := c.NodeReplace(ctx, "gpu1", true)
					if err == nil {
						_, err = g.Run(ctx, w.listen(t))
					}
					c.Close()
					require.ErrorIs(t, err, context.Canceled)
					time.Sleep(processStart + time.Duration(i%3)*20*time.Second)
					if i%2 == 0 {
						require.NoError(t, w.verb(t, spec, replacements(t.Context(), "gpu1", true)))
					}
					w.recovers(t, spec, want)
				})
			})
		}
	}
}

func TestVerbsRefuse(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		text := example(t, "eight-a100")
		spec := parse(t, text)
		w.up(t, spec)
		time.Sleep(time.Minute)
		before := w.now()
		refused := func(err error, reason string) {
			t.Helper()
			var no *cluster.RefusedError
			require.ErrorAs(t, err, &no)
			assert.Contains(t, no.Error(), reason)
		}
		var unknown *cluster.UnknownNodeError
		require.ErrorAs(t, w.verb(t, spec, drainState("wk-gpu9")), &unknown)
		assert.Contains(t, unknown.Error(), "did you mean wk-gpu")
		require.ErrorAs(t, w.verb(t, spec, drainState("")), &unknown)
		assert.Contains(t, unknown.Error(), "which node?")

		data := parse(t, replace(t, text, "{size: 200GiB, mount: /scratch}", "{size: 200GiB, mount: /scratch, role: data}"))
		refused(w.verb(t, data, replacements(t.Context(), "wk-gpu1", false)), "what is on disk scratch (200GiB) would be destroyed with its machine")
		assert.Empty(t, before.changes().Proxmox)

		// One server of three is away: no other may go.
		w.byHand(t, spec, "cp2", "stop")
		before = w.now()
		for _, verb := range []func(context.Context, string, bool) func(*cluster.Cluster) (*converge.Graph, error){replacements, cycled} {
			refused(w.verb(t, spec, verb(t.Context(), "cp1", false)), "without it 1 of 3 servers would be left, and etcd needs more than half: bring cp2 back first")
		}
		assert.Equal(t, changes{}, before.changes())
		require.NoError(t, w.verb(t, spec, replacements(t.Context(), "cp2", false)), "the one that is away may be replaced")
		assert.Empty(t, w.plan(t, spec))
	})
}

// The only server of a cluster is replaced when that is asked for twice.
func TestLoneServer(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, lab(example(t, "one-gpu")))
		w.up(t, spec)
		time.Sleep(time.Minute)
		var no *cluster.RefusedError
		require.ErrorAs(t, w.verb(t, spec, replacements(t.Context(), "server1", false)), &no)
		assert.Contains(t, no.Error(), "it is the only server")
		require.NoError(t, w.verb(t, spec, cycled(t.Context(), "server1", false)))
		time.Sleep(3 * time.Minute)
		assert.Empty(t, w.plan(t, spec))
		require.NoError(t, w.verb(t, spec, replacements(t.Context(), "server1", true)))
		time.Sleep(3 * time.Minute)
		require.NoError(t, w.verb(t, spec, replacements(t.Context(), "gpu1", false)), "the others follow")
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
	})
}
