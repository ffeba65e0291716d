package cluster_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// One of two servers leaves: without its K3s, etcd would have no majority to let it go.
func TestTheSecondOfTwoServersLeaves(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
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

// A Raspberry Pi as the server and a PC as the agent: each gets K3s of its own architecture.
func TestMachinesOfTwoArchitectures(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		a, b := w.externalOf(t, "10.0.0.40", "arm64"), w.external(t, "10.0.0.41")
		defer a.Kill()
		defer b.Kill()
		keys := filepath.Join(t.TempDir(), "known_hosts")
		meet(t, keys, "10.0.0.40", a)
		meet(t, keys, "10.0.0.41", b)
		_, err := w.bare(t, parse(t, strangers), keys).Up().Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.Contains(t, content(t, a, "/usr/local/bin/k3s"), "arch: arm64")
		assert.Contains(t, content(t, b, "/usr/local/bin/k3s"), "arch: amd64")
		assert.Len(t, w.nodes(t), 2)

		newer := parse(t, strings.Replace(strangers, "name: strangers", "name: strangers\nk3s: {version: v1.36.6+k3s1}", 1))
		_, err = w.bare(t, newer, keys).Up().Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.Contains(t, content(t, a, "/usr/local/bin/k3s"), "v1.36.6+k3s1\narch: arm64")
	})
}

// An architecture that K3s does not serve is refused before anything is changed.
func TestMachineOfAnUnknownArchitecture(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		a := w.externalOf(t, "10.0.0.40", "riscv64")
		defer a.Kill()
		keys := filepath.Join(t.TempDir(), "known_hosts")
		meet(t, keys, "10.0.0.40", a)
		_, err := w.bare(t, parse(t, strings.Join(strings.Split(strangers, "\n")[:5], "\n")), keys).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "K3s has no release for riscv64: it has some for amd64, arm64 and arm")
		assert.False(t, a.Disk().Exists("/etc/rancher"))
	})
}
