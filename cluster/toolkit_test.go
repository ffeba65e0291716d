package cluster_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// fillToolkit fills the folder of a mirror with the packages of the simulated internet, and returns their digests, which
// are not those of the real ones.
func fillToolkit(t testing.TB, folder string) map[string]string {
	t.Helper()
	digests := map[string]string{}
	require.NoError(t, os.MkdirAll(folder, 0o700))
	for name := range (nvidia.Toolkit{}).Files() {
		data, err := guest.DefaultInternet()(nvidia.ToolkitURL(name))
		require.NoError(t, err)
		sum := sha256.Sum256(data)
		digests[name] = hex.EncodeToString(sum[:])
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), data, 0o600))
	}
	return digests
}

// A node that had the toolkit from NVIDIA's repository gets what it lacks from the folder, and forgets the repository. What
// is not in the folder, or not what it should be, is seen before anything changes.
func TestToolkitOfAFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var net internet
		w := newWorldWith(t, pvesim.OneGPU(), pvesim.Options{Internet: net.get})
		w.up(t, parse(t, small))
		gpu := w.guests()["gpu1"]
		const list = "/etc/apt/sources.list.d/nvidia-container-toolkit.list"
		require.True(t, gpu.Disk().Exists(list))
		ask(t, gpu, "apt-get", "remove", "-y", "--allow-change-held-packages", "nvidia-container-toolkit", "nvidia-container-toolkit-base")

		folder := t.TempDir()
		w.toolkit = fillToolkit(t, filepath.Join(folder, "nvidia"))
		require.NoError(t, os.Mkdir(filepath.Join(folder, "charts"), 0o700))
		spec := parse(t, small+"mirror: {registry: https://registry.home.arpa:5000, folder: "+folder+"}\ncharts: {folder: "+folder+"/charts}\n")
		fillK3s(t, filepath.Join(folder, "k3s"), spec.K3s.Version)
		one := filepath.Join(folder, "nvidia", "libnvidia-container1_1.20.1-1_amd64.deb")
		good, err := os.ReadFile(one)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(one, append(good, '!'), 0o600))
		before := w.now()
		err = w.tries(t, spec)
		require.ErrorContains(t, err, one+" is not the file of its checksum: get it again from https://nvidia.github.io/libnvidia-container/stable/deb/amd64/libnvidia-container1_1.20.1-1_amd64.deb")
		require.ErrorContains(t, err, "homelab images:mirror puts them there")
		assert.Equal(t, changes{}, before.changes())
		require.NoError(t, os.WriteFile(one, good, 0o600))

		net.off.Store(true) // all of it
		w.up(t, spec)
		assert.Contains(t, ask(t, gpu, "dpkg-query", "-W", "-f", "${Package}=${Version}\\n", "nvidia-container-toolkit*"), "nvidia-container-toolkit-base=1.20.1-1\n")
		assert.Contains(t, ask(t, gpu, "apt-mark", "showhold"), "nvidia-container-toolkit-base\n")
		assert.False(t, gpu.Disk().Exists(list), "nobody reaches it")
		assert.False(t, gpu.Disk().Exists("/var/cache/homelab-toolkit"))
		assert.Empty(t, w.plan(t, spec))
	})
}
