package cluster_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// ownersDriver is what the owner of an external machine with a GPU does: a driver, and NVIDIA's container toolkit.
const ownersDriver = `set -e
apt-get update
apt-get install -y linux-generic linux-modules-nvidia-580-server-open-generic nvidia-headless-no-dkms-580-server-open nvidia-utils-580-server libnvidia-decode-580-server
mkdir -p /etc/apt/keyrings
echo '-----BEGIN PGP PUBLIC KEY BLOCK-----' > /etc/apt/keyrings/nvidia.asc
echo 'deb [signed-by=/etc/apt/keyrings/nvidia.asc] https://nvidia.github.io/libnvidia-container/stable/deb/amd64 /' > /etc/apt/sources.list.d/nvidia.list
apt-get update
apt-get install -y nvidia-container-toolkit`

// The GPUs of a machine that nobody here made are verified. It has no driver of homelab's: the file only says how many
// there are.
func TestVerifyOfAnExternalMachine(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		card := guest.PCI{Vendor: 0x10de, Device: 0x20f1, Class: 0x030200, Address: "0000:01:00.0", Host: "0000:41:00.0"}
		a, b := w.external(t, "10.0.0.40"), w.externalOf(t, "10.0.0.41", "amd64", card)
		defer a.Kill()
		defer b.Kill()
		keys := filepath.Join(t.TempDir(), "known_hosts")
		meet(t, keys, "10.0.0.40", a)
		meet(t, keys, "10.0.0.41", b)
		s := parse(t, "name: strangers\nnodes:\n  a: {role: server, external: ops@10.0.0.40}\n  b: {external: ops@10.0.0.41, gpus: 1}\n")
		_, err := w.bare(t, s, keys).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "driver/b: not there after 10s: driver: not loaded → a driver of NVIDIA's [the machine is external: install it there]")
		signer, err := ssh.LoadSigner(filepath.Join(w.dir, "id_ed25519"))
		require.NoError(t, err)
		owner := ssh.New(ssh.Config{Addr: "10.0.0.41:22", User: "ops", Signers: []ssh.Signer{signer}, HostKeys: ssh.NewKnownHosts(keys).HostKeys, Dial: w.sim.Network().Dial})
		require.NoError(t, remote.Run(t.Context(), owner, "sudo", "sh", "-c", ownersDriver))
		require.NoError(t, owner.Close())
		b.Kill()
		require.NoError(t, b.Boot(t.Context()))
		time.Sleep(time.Minute)
		_, err = w.bare(t, s, keys).Up().Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.Equal(t, int64(1), w.nodes(t)["b"].Count("nvidia.com/gpu"))

		c := w.bare(t, s, keys)
		g, v := c.GPUVerify(cluster.VerifyQuick, 0)
		_, err = g.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		require.NoError(t, v.Clean(t.Context()))
		results := v.Results()
		require.Len(t, results, 1)
		assert.True(t, results[0].Passed)
		assert.Equal(t, []string{"b", "NVIDIA A100-PCIE-40GB"}, []string{results[0].Node, results[0].Name})
	})
}

// One of three servers that nobody here made joins again after its machine was installed again: etcd forgets the old one.
func TestReplaceOfAnExternalServer(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		keys := filepath.Join(t.TempDir(), "known_hosts")
		addresses := []string{"10.0.0.40", "10.0.0.41", "10.0.0.42"}
		machines := map[string]*guest.Machine{}
		for _, a := range addresses {
			machines[a] = w.external(t, a)
			meet(t, keys, a, machines[a])
		}
		defer func() {
			for _, m := range machines {
				m.Kill()
			}
		}()
		s := parse(t, "name: three\nk3s: {vip: 10.0.0.50}\nnodes:\n  a: {role: server, external: ops@10.0.0.40}\n  b: {role: server, external: ops@10.0.0.41}\n  c: {role: server, external: ops@10.0.0.42}\n")
		_, err := w.bare(t, s, keys).Up().Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"a", "b", "c"}, machines["10.0.0.40"].EtcdMembers())

		machines["10.0.0.41"].Kill()
		machines["10.0.0.41"] = w.external(t, "10.0.0.41")
		keys = filepath.Join(t.TempDir(), "known_hosts")
		for a, m := range machines {
			meet(t, keys, a, m)
		}
		g, err := w.bare(t, s, keys).NodeReplace(t.Context(), "b", false)
		require.NoError(t, err)
		_, err = g.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"a", "b", "c"}, machines["10.0.0.40"].EtcdMembers())
		for name, n := range w.nodes(t) {
			assert.True(t, n.Ready && !n.Cordoned, name)
		}
		assert.True(t, machines["10.0.0.41"].Disk().Exists("/usr/local/bin/k3s"))
		plan, err := w.bare(t, s, keys).Up().Plan(t.Context())
		require.NoError(t, err)
		assert.False(t, plan.Changes())
	})
}
