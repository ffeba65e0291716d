package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/backup"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// isRestored checks that the cluster is as it was when it had one ConfigMap, and that nothing is left to do.
func (w *world) isRestored(t *testing.T, s *spec.Spec) {
	t.Helper()
	assert.Equal(t, []string{"default/before"}, w.configMaps(t))
	time.Sleep(3 * time.Minute)
	var want []string
	for _, n := range s.Servers() {
		want = append(want, n.Name)
	}
	for _, name := range want {
		assert.Equal(t, want, w.guests()[name].EtcdMembers(), "as %s sees them", name)
	}
	for name, n := range w.nodes(t) {
		assert.True(t, n.Ready && !n.Cordoned, "%s: %s", name, n.Reason)
	}
}

// What was there when the backup was made with kubeadm is there again, and what came later is gone, on three servers
// and an agent: on the same machines, and on new ones, whose cluster had other authorities.
func TestRestoreWithKubeadm(t *testing.T) {
	for _, machines := range []string{"same", "new"} {
		t.Run(machines, func(t *testing.T) {
			inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
				s := kubeadmServers(t, 3, "")
				w.up(t, s)
				w.kubectlApply(t, "before")
				saved := w.node("cp1")["spec"].(map[string]any)["providerID"].(string)
				v, m := w.backup(t, s)
				assert.Equal(t, "kubeadm", m.Distribution())
				assert.Equal(t, s.K3s.Version, m.Version())
				r, _, err := v.open()
				require.NoError(t, err)
				facts, err := backup.Inspect(t.Context(), r, r.Snapshot, r.Token)
				require.NoError(t, err)
				assert.Contains(t, facts.Nodes, "cp3")
				for name, g := range w.guests() {
					assert.NotContains(t, ask(t, g, "sh", "-c", "ls /var/lib/homelab/etcd 2>/dev/null || true"), "homelab-backup", name)
				}
				w.kubectlApply(t, "after")
				if machines == "new" {
					w.down(t, s)
					w.up(t, s)
					assert.Empty(t, w.configMaps(t))
				}
				_, err = w.restore(t.Context(), t, s, v)
				require.NoError(t, err)
				w.isRestored(t, s)
				w.knownAs = map[string]string{"cp1": saved} // its Node is that of the snapshot
				w.up(t, s)                                  // it owns the labels of nodes that have registered again
				assert.Empty(t, w.plan(t, s))
				assert.NotContains(t, w.output.String(), "PRIVATE KEY")
				assert.NotContains(t, w.output.String(), "has not joined yet")
			})
		})
	}
}

// A restore that is cut short anywhere leaves no server that starts with the state of before, cluster:up says so, and
// repeating it comes to the same end.
func TestRestoreWithKubeadmCutShort(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		s := kubeadmServers(t, 3, "")
		w.up(t, s)
		w.kubectlApply(t, "before")
		v, _ := w.backup(t, s)
		finished, mine := false, share.Start(t, "restores with kubeadm cut short")
		for cut := time.Second; !finished; cut += 5 * time.Second {
			require.Less(t, cut, 15*time.Minute)
			if !mine.Next() {
				continue
			}
			w.kubectlApply(t, "after")
			ctx, cancel := context.WithTimeout(t.Context(), cut)
			_, err := w.restore(ctx, t, s, v)
			cancel()
			finished = err == nil
			if !finished {
				c := w.cluster(t, s)
				plan, err := c.Up().Plan(t.Context())
				require.NoError(t, err)
				c.Close()
				if err := plan.Err(); err != nil {
					assert.ErrorContains(t, err, "run cluster:restore again", "cut after %s", cut)
				}
			}
			_, err = w.restore(t.Context(), t, s, v)
			require.NoError(t, err, "cut after %s", cut)
			w.isRestored(t, s)
		}
		w.up(t, s)
		assert.Empty(t, w.plan(t, s))
	})
}

// Without etcdutl nothing is stopped, and with it the same command restores.
func TestRestoreWithKubeadmNeedsEtcdutl(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		s := kubeadmServers(t, 3, "")
		w.up(t, s)
		w.kubectlApply(t, "before")
		v, _ := w.backup(t, s)
		for _, n := range s.Servers() {
			w.sim.SetGuestFaults(w.vm(t, n.Name).ID, guest.Faults{EtcdutlMissing: true})
		}
		_, err := w.restore(t.Context(), t, s, v)
		require.ErrorContains(t, err, "has no etcdutl, which a restore needs: put that of the same release of etcd into /usr/local/bin. Nothing was stopped here")
		assert.Empty(t, w.plan(t, s), "the cluster runs as before")
		for _, n := range s.Servers() {
			w.sim.SetGuestFaults(w.vm(t, n.Name).ID, guest.Faults{})
		}
		_, err = w.restore(t.Context(), t, s, v)
		require.NoError(t, err)
		w.isRestored(t, s)
	})
}

// A backup of one distribution is nothing to the other.
func TestRestoreOfAnotherDistribution(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		s := kubeadmServers(t, 1, "")
		w.up(t, s)
		v, _ := w.backup(t, s)
		r, _, err := v.open()
		require.NoError(t, err)
		c := w.cluster(t, parse(t, safeServers))
		defer c.Close()
		_, err = c.Restore(r.Contents, v.open)
		require.ErrorContains(t, err, "the backup is of a cluster with distribution: kubeadm, and the file says k3s")
	})
}
