package cluster_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// One of two servers leaves: without its K3s, etcd would have no majority to let it go.
func TestTheSecondOfTwoServersLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		defer w.close()
		a, b := w.external(t, "10.0.0.40"), w.external(t, "10.0.0.41")
		defer a.Kill()
		defer b.Kill()
		spec := parse(t, `
name: pair
k3s: {vip: 10.0.0.50}
nodes:
  a: {role: server, external: ops@10.0.0.40}
  b: {role: server, external: ops@10.0.0.41}
`)
		keys := filepath.Join(t.TempDir(), "known_hosts")
		meet(t, keys, "10.0.0.40", a)
		meet(t, keys, "10.0.0.41", b)
		_, err := w.bare(t, spec, keys).Up().Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"a", "b"}, a.EtcdMembers())
		g, err := w.bare(t, spec, keys).NodeRemove(t.Context(), "b", false)
		require.NoError(t, err)
		_, err = g.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.Equal(t, []string{"a"}, a.EtcdMembers())
		assert.Contains(t, w.nodes(t), "a")
		assert.NotContains(t, w.nodes(t), "b")
		assert.False(t, b.Disk().Exists("/usr/local/bin/k3s"))
	})
}
