package cluster_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/distro"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// withVM is a cluster beside which a VM of another distribution runs.
func withVM() string {
	return `
name: vms
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
defaults: {tags: [nodes]}
guest: {packages: [htop], timezone: Europe/Vienna}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
vms:
  box:
    image: {url: ` + distro.ByName("debian-13").Image + `, sha512: ` + distro.ByName("debian-13").SHA512 + `}
    address: 10.0.0.40
    memory: 2GiB
    disks: {os: {size: 10GiB}, data: {size: 20GiB}}
`
}

// A VM of the file that is not a node goes the way of a node's machine, without Kubernetes.
func TestLifeOfAVM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		defer w.close()
		untouched := w.inventory()
		text := withVM()
		spec := parse(t, text)
		report := w.up(t, spec)
		t.Log(changedSteps(report))
		assert.Subset(t, changedSteps(report), []string{"seed/box", "vm/box", "guest/box"})
		assert.NotContains(t, w.nodes(t), "box")
		t.Log(w.vm(t, "box").Config)
		assert.Contains(t, w.vm(t, "box").Config["scsi1"], "serial=data")
		box := w.guests()["box"]
		os, err := box.Disk().ReadFile("/etc/os-release")
		require.NoError(t, err)
		assert.Contains(t, string(os), "trixie")

		before := w.now()
		assert.Empty(t, changedSteps(w.up(t, spec)))
		assert.Empty(t, w.plan(t, spec))
		assert.Equal(t, changes{}, before.changes())

		more := strings.NewReplacer("size: 20GiB", "size: 30GiB", "size: 10GiB", "size: 12GiB").Replace(text)
		spec = parse(t, more)
		t.Log(w.plan(t, spec))
		before = w.now()
		w.up(t, spec)
		assert.Empty(t, before.changes().Restarted)
		assert.Empty(t, w.plan(t, spec))

		spec = parse(t, replace(t, more, "memory: 2GiB", "memory: 4GiB"))
		t.Log(w.plan(t, spec))
		before = w.now()
		w.up(t, spec)
		assert.Equal(t, []string{"box"}, before.changes().Restarted)
		assert.Empty(t, before.changes().Kubernetes)
		assert.Empty(t, w.plan(t, spec))

		w.down(t, spec)
		assert.Equal(t, untouched, w.inventory())
	})
}
