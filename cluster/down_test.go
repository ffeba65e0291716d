package cluster_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// down runs Down and expects it to work.
func (w *world) down(t testing.TB, spec *spec.Spec) *converge.Report {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	g, err := c.Down(t.Context())
	require.NoError(t, err)
	report, err := g.Run(t.Context(), w.listen(t))
	require.NoError(t, err)
	return report
}

func TestDownLeavesNothing(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		untouched := w.inventory()
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		require.Greater(t, len(w.inventory()), len(untouched))

		w.down(t, spec)
		assert.Equal(t, untouched, w.inventory())
		assert.Equal(t, []string{"id_ed25519"}, w.files(t), "the login key is the user's")

		before := w.now()
		report := w.down(t, spec)
		assert.Zero(t, report.Count(converge.Changed), "a second time there is nothing to do")
		assert.Equal(t, changes{}, before.changes())

		w.up(t, spec) // and it can be made again
		assert.Empty(t, w.plan(t, spec))
	})
}

// files are those of this machine's folder.
func (w *world) files(t testing.TB) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(w.dir, path)
			out = append(out, name)
		}
		return err
	}))
	return out
}

// A machine that is called like one of ours and does not carry our tag is somebody
// else's: up says so once, and nobody touches it.
func TestNamesakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := pvesim.OneGPU()
		for i, name := range []string{"gpu1", "one-gpu-template-pve1-0123456789ab"} {
			model.VMs = append(model.VMs, pvesim.VM{ID: 140 + i, Node: "pve1", Name: name, Running: true, Config: map[string]string{
				"memory": "1024", "tags": "one-gpu;homelab", "scsi0": fmt.Sprintf("vmdata:vm-%d-disk-0,size=8G", 140+i),
			}})
		}
		w := newWorld(t, model)
		untouched := w.inventory()
		spec := parse(t, lab(example(t, "one-gpu")))
		c := w.cluster(t, spec)
		report, err := c.Up().Run(t.Context(), w.listen(t))
		var failed []string
		for _, s := range report.Steps {
			if s.Err != nil {
				failed = append(failed, s.Step)
			}
		}
		assert.Equal(t, []string{"proxmox"}, failed)
		assert.Equal(t, untouched, w.inventory(), "it is known before anything is made")
		var conflict *proxmox.ConflictError
		require.ErrorAs(t, err, &conflict)
		assert.Equal(t, 140, conflict.VMID)
		assert.Equal(t, 1, strings.Count(err.Error(), "VM 140 on pve1 is called gpu1"), "said once: %v", err)

		w.down(t, spec)
		assert.Equal(t, untouched, w.inventory())
	})
}

// The name of one cluster may begin that of another; the token sees both.
func TestDownSparesTheNeighbour(t *testing.T) {
	const neighbour = `
name: %s
proxmox: {endpoint: lab, host: pve1}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {version: v1.36.5+k3s1}
defaults: {storage: vmdata}
pools:
  cp: {role: server, prefix: %s-cp, count: 1, addresses: [10.0.0.%d]}
  gpu: {prefix: %s-gpu, count: 1, addresses: [10.0.0.%d], gpus: 1, memory: 64GiB}
`
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		untouched := w.inventory()
		site := w.dir
		a := parse(t, fmt.Sprintf(neighbour, "a", "x", 11, "x", 21))
		ab := parse(t, fmt.Sprintf(neighbour, "a-b", "y", 12, "y", 22))
		in := func(name string) *world {
			w.dir = filepath.Join(site, name)
			require.NoError(t, os.MkdirAll(w.dir, 0o700))
			key, err := loginKey()
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(w.dir, "id_ed25519"), key, 0o600))
			return w
		}
		in("a-b").up(t, ab)
		alone := w.inventory()
		in("a").up(t, a)
		assert.Empty(t, w.plan(t, a))
		w.down(t, a)
		assert.Equal(t, alone, w.inventory())
		assert.Empty(t, in("a-b").plan(t, ab))
		w.down(t, ab)
		assert.Equal(t, untouched, w.inventory())
	})
}

// A host that cannot be reached is said, and nothing of the cluster's files is lost.
func TestDownWithoutAHost(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, lab(example(t, "one-gpu")))
		w.up(t, spec)
		files := w.files(t)
		c := w.cluster(t, spec)
		w.sim.Fail(pvesim.Rule{Path: "/cluster/resources", Times: -1, Status: 595, Message: "No route to host"})
		_, err := c.Down(t.Context())
		var api proxmox.Error
		require.True(t, errors.As(err, &api), "%v", err)
		assert.Equal(t, files, w.files(t))
	})
}
