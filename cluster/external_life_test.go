package cluster_test

import (
	"bytes"
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// Machines that nobody here made have a hub, go to another version one after the other, and come back from a backup.
func TestExternalLife(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		a, b, keys := w.pair(t)
		defer a.Kill()
		defer b.Kill()
		run := func(s *spec.Spec, g *converge.Graph) {
			t.Helper()
			_, err := g.Run(t.Context(), w.listen(t))
			require.NoError(t, err)
			plan, err := w.bare(t, s, keys).Up().Plan(t.Context())
			require.NoError(t, err)
			assert.False(t, plan.Changes())
		}
		hub := "hub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}}\ncharts: {offline: true, folder: " + charts(t) + "}\n"
		s := parse(t, strangers+hub)
		run(s, w.bare(t, s, keys).Up())
		assert.Contains(t, w.kube.Clusters()[0].Names("deployments.apps"), "jupyterhub/hub")

		s = parse(t, strangers+hub+"k3s: {version: v1.36.6+k3s1}\n")
		run(s, w.bare(t, s, keys).Up())
		for name, n := range w.nodes(t) {
			assert.Equal(t, "v1.36.6+k3s1", n.Version, name)
			assert.True(t, n.Ready && !n.Cordoned, name)
		}

		w.kubectlApply(t, "before")
		key, err := age.GenerateX25519Identity()
		require.NoError(t, err)
		var saved bytes.Buffer
		_, _, err = w.bare(t, s, keys).Backup(t.Context(), &saved, []age.Recipient{key.Recipient()})
		require.NoError(t, err)
		w.kubectlApply(t, "after")
		v := vault{key, saved.Bytes()}
		r, _, err := v.open()
		require.NoError(t, err)
		g, err := w.bare(t, s, keys).Restore(r.Contents, v.open)
		require.NoError(t, err)
		_, err = g.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.Equal(t, []string{"default/before"}, w.configMaps(t))
		run(s, w.bare(t, s, keys).Up())
		w.bareDown(t, s, keys)
	})
}
