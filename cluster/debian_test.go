package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/distro"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

const debianCluster = `
name: deb
proxmox: {endpoint: lab}
image: debian-13
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
guest: {apt: {mirror: "http://mirror.example/debian"}}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
  wk:
    count: 1
    addresses: [10.0.0.21]
    disks:
      models: {size: 100GiB, mount: /models, fs: xfs}
`

// A cluster of Debian's machines comes up, and there is nothing to do after it.
func TestUpOnDebian(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, debianCluster)
		assert.Equal(t, "debian", spec.Access.User)
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
		m := w.guests()["wk1"]
		assert.Contains(t, ask(t, m, "cat", "/etc/os-release"), "ID=debian\n")
		assert.Equal(t, "/dev/sdb\n", ask(t, m, "findmnt", "-no", "SOURCE", "/models"))
		assert.Contains(t, ask(t, m, "cat", "/home/debian/.ssh/authorized_keys"), "ssh-ed25519 ")
		sources := ask(t, m, "cat", "/etc/apt/sources.list.d/debian.sources")
		assert.Contains(t, sources, "URIs: http://mirror.example/debian\n")
		assert.Contains(t, sources, "URIs: "+distro.ByName("debian-13").Security+"\n", "mirrors keep security updates elsewhere")
	})
}

func TestImageOfADistribution(t *testing.T) {
	load := func(text string) error {
		_, err := cluster.Parse("cluster.yaml", []byte(text))
		return err
	}
	spec := parse(t, debianCluster)
	assert.Equal(t, "trixie", spec.Image.Release)
	assert.Len(t, spec.Image.SHA512, 128)
	assert.Empty(t, spec.Image.SHA256)
	for wrong, says := range map[string]string{
		"image: debian-12": `distribution cannot be "debian-12"`,
		"image: {distribution: debian-13, url: 'https://x/y.qcow2', sha512: ab}":         "sha512 is not a SHA-512",
		"image: {url: 'https://cloud.debian.org/images/cloud/trixie/debian-13-x.qcow2'}": "debian-13-x.qcow2 is not an image of Ubuntu 24.04",
	} {
		require.ErrorContains(t, load(replace(t, debianCluster, "image: debian-13", wrong)), says)
	}
	gpus := replace(t, debianCluster, "    disks:\n", "    gpus: 1\n    disks:\n")
	require.ErrorContains(t, load(gpus), "Debian 13 has no prebuilt driver for its kernels in its archive")
	require.NoError(t, load(gpus+"nvidia: {driver: {mode: none}}\n"))
}
