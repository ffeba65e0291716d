package cluster_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// neighbours is another cluster whose file names an agent of strangers.
const neighbours = `
name: neighbours
nodes:
  x: {role: server, external: ops@10.0.0.42}
  b: {external: ops@10.0.0.41}
`

// elsewhere is bare for a cluster with files of its own.
func (w *world) elsewhere(t testing.TB, text, keys, dir string) *cluster.Cluster {
	t.Helper()
	signer, err := ssh.LoadSigner(filepath.Join(w.dir, "id_ed25519"))
	require.NoError(t, err)
	c, err := cluster.New(parse(t, text), cluster.Backend{
		Signers: []ssh.Signer{signer}, Dial: w.sim.Network().Dial, Dir: dir, KnownHosts: ssh.NewKnownHosts(keys),
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// An external machine whose K3s is of another cluster is named and left alone, by up and by
// down, whatever its node is called, and also where its mark is lost; the others of the file are not
// kept from anything.
func TestK3sOfAnotherClusterIsLeftAlone(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		a, b, x := w.external(t, "10.0.0.40"), w.external(t, "10.0.0.41"), w.external(t, "10.0.0.42")
		keys := filepath.Join(t.TempDir(), "known_hosts")
		for addr, m := range map[string]*guest.Machine{"10.0.0.40": a, "10.0.0.41": b, "10.0.0.42": x} {
			defer m.Kill()
			meet(t, keys, addr, m)
		}
		_, err := w.bare(t, parse(t, strangers), keys).Up().Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		config := content(t, b, "/etc/rancher/k3s/config.yaml")

		untouched := func(text string) {
			t.Helper()
			dir := t.TempDir()
			_, err := w.elsewhere(t, text, keys, dir).Up().Run(t.Context(), nil)
			require.ErrorContains(t, err, "to another cluster")
			_, err = w.elsewhere(t, text, keys, dir).RotateCerts().Run(t.Context(), nil)
			require.ErrorContains(t, err, "to another cluster")
			g, err := w.elsewhere(t, text, keys, dir).Down(t.Context())
			require.NoError(t, err)
			var said []string
			_, err = g.Run(t.Context(), func(e converge.Event) { said = append(said, e.Message) })
			require.NoError(t, err)
			assert.Contains(t, strings.Join(said, "\n"), "left alone: K3s ")
			for _, m := range []*guest.Machine{a, b} {
				assert.True(t, m.Disk().Exists("/usr/local/bin/k3s"))
			}
			assert.Equal(t, config, content(t, b, "/etc/rancher/k3s/config.yaml"))
			assert.True(t, w.nodes(t)["b"].Ready)
			assert.False(t, x.Disk().Exists("/usr/local/bin/k3s"), "what is ours goes")
		}
		taken := strings.NewReplacer("role: server, external: ops@10.0.0.42", "external: ops@10.0.0.42",
			"b: {external", "a: {role: server, external: ops@10.0.0.40}\n  b: {external").Replace(neighbours)
		untouched(neighbours)
		untouched(taken)
		plan, err := w.bare(t, parse(t, strangers), keys).Up().Plan(t.Context())
		require.NoError(t, err)
		require.NoError(t, plan.Err())
		for _, m := range []*guest.Machine{a, b} {
			require.NoError(t, m.Disk().Remove("/etc/rancher/k3s/homelab.cluster"))
		}
		untouched(neighbours)
		untouched(taken)

		// Its own cluster says how the mark is put back.
		_, err = w.bare(t, parse(t, strangers), keys).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "run there: echo strangers | sudo tee /etc/rancher/k3s/homelab.cluster")
		for _, m := range []*guest.Machine{a, b} {
			require.NoError(t, m.Disk().WriteFile("/etc/rancher/k3s/homelab.cluster", []byte("strangers\n"), 0o644))
		}
		_, err = w.bare(t, parse(t, strangers), keys).Up().Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		w.bareDown(t, parse(t, strangers), keys)
		assert.False(t, b.Disk().Exists("/usr/local/bin/k3s"))
	})
}

// An address of the API that changes in the file is no other cluster: what has joined by
// the old one is known by the authority that it trusts.
func TestExternalNodeFollowsTheAddressOfTheAPI(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		m := w.external(t, "10.0.0.40")
		defer m.Kill()
		meet(t, filepath.Join(w.dir, "known_hosts"), "10.0.0.40", m)
		text := duo + "nodes:\n  edge: {external: ops@10.0.0.40}\nk3s: {tlsSANs: [10.0.0.9]}\n"
		w.up(t, parse(t, text))
		moved := parse(t, replace(t, text, "{tlsSANs: [10.0.0.9]}", "{vip: 10.0.0.9}"))
		w.up(t, moved)
		assert.Empty(t, w.plan(t, moved))
		assert.Contains(t, content(t, m, "/etc/rancher/k3s/config.yaml"), "server: https://10.0.0.9:6443")
		w.down(t, moved)
		assert.False(t, m.Disk().Exists("/usr/local/bin/k3s"))
	})
}
