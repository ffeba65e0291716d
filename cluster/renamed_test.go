package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// unchanged runs Up, expects it to fail before it changes anything, and returns why.
func (w *world) unchanged(t testing.TB, file *spec.Spec) string {
	t.Helper()
	before, there := w.now(), w.inventory()
	c := w.cluster(t, file)
	defer c.Close()
	_, err := c.Up().Run(t.Context(), w.listen(t))
	require.Error(t, err)
	assert.Equal(t, there, w.inventory())
	assert.Equal(t, changes{}, before.changes())
	return err.Error()
}

// A cluster of an earlier version in whose file a machine was renamed before the first up
// with this one: what is there is not known by its new name, and nothing is made beside it
// that would be in its place.
func TestRenamedBeforeMachinesHaveMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		defer w.close()
		text := withServer + "charts: {folder: " + charts(t) + ", offline: true}\n"
		file := parse(t, text)
		w.up(t, file)
		machines := w.guests()
		w.unmark(t)

		why := w.unchanged(t, parse(t, replace(t, text, "size: 100GiB", "name: other, size: 100GiB")))
		assert.Contains(t, why, "files-nfs) on pve1 keeps data of this cluster, and an earlier version created it")
		assert.Contains(t, why, "other would start empty instead: write name: files-nfs under storage.nfs.vm")
		assert.Contains(t, why, "--tags keeps-data")

		renamed := replace(t, replace(t, text, "role: server, count", "role: server, prefix: x, count"), "wk: {count", "wk: {prefix: y, count")
		why = w.unchanged(t, parse(t, renamed))
		assert.Contains(t, why, "none of the file's servers exists")
		assert.Contains(t, why, "(cp1) on pve1")
		assert.Contains(t, why, "(wk1) on pve1")
		assert.Contains(t, why, "a second cluster would be created next to them")
		assert.NotContains(t, why, "files-nfs", "the file names it, so it is known")

		// By neither file anything goes that is not known; nor does what it needs.
		w.down(t, parse(t, replace(t, renamed, "size: 100GiB", "name: other, size: 100GiB")))
		for name, m := range machines {
			assert.Same(t, m, w.guests()[name])
		}
		w.up(t, file)
		assert.Empty(t, w.plan(t, file))
		assert.Equal(t, machines, w.guests(), "as it was, with its marks")
	})
}

// An old machine's backup beside a cluster that is there is named, and stops nothing.
func TestAnOldBackupStopsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		defer w.close()
		file := parse(t, duo)
		w.sim.AddVM(pvesim.VM{ID: 902, Node: "pve1", Name: "wk9", Running: true, Config: map[string]string{
			"memory": "1024", "tags": "homelab-duo", "net0": "virtio=" + strings.ToUpper(spec.StableMAC("duo", "wk9").String()) + ",bridge=vmbr0"}})
		time.Sleep(time.Minute)
		why := w.unchanged(t, file)
		assert.Contains(t, why, "VM 902 (wk9) on pve1")
		assert.Contains(t, why, "on pve1: qm set 902 --delete tags")
		w.set(t, 902, `{"tags":"looked-at"}`)
		w.up(t, file)
		w.set(t, 902, `{"tags":"homelab-duo"}`)
		assert.Empty(t, w.plan(t, file))
		w.up(t, file)
	})
}

// What a run of an earlier version has left half-made, whose notes did not name the VMID, is
// told from a copy: it is no machine that somebody may want to keep.
func TestHalfMadeByAnEarlierVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		defer w.close()
		file := parse(t, replace(t, duo, ", gpus: 1", ""))
		w.up(t, file)
		w.byHand(t, file, "wk1", "destroy")
		w.sim.AddVM(pvesim.VM{ID: 901, Node: "pve1", Name: "wk1", Config: map[string]string{
			"memory": "1024", "tags": "homelab-duo", "description": "Unfinished: this VM is being made for homelab-duo."}})
		time.Sleep(time.Minute)
		warnings, errs := w.doubts(t, file)
		for _, said := range []string{warnings, errs["vm/wk1"]} {
			assert.Contains(t, said, "was left by an earlier version that was interrupted while it created the VM")
			assert.Contains(t, said, "as root on pve1: pvesh get /nodes/pve1/tasks --vmid 901")
			assert.Contains(t, said, "as root on pve1: qm destroy 901 --purge")
			assert.NotContains(t, said, "adopt")
		}
		w.wipe(t, 901)
		w.up(t, file)
	})
}

// A copy of an NFS server cannot be had back by naming it in the file, and nothing says so.
func TestACopyThatKeepsDataIsNotTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		defer w.close()
		text := withServer + "charts: {folder: " + charts(t) + ", offline: true}\n"
		file := parse(t, text)
		tags, at := "homelab-files;keeps-data", "net0"
		address := func(name string) string {
			return "virtio=" + spec.StableMAC("files", name).String() + ",bridge=vmbr0"
		}
		w.sim.AddVM(pvesim.VM{ID: 901, Node: "pve1", Name: "old", Config: map[string]string{"memory": "1024", "tags": tags, at: address("else")}})
		time.Sleep(time.Minute)
		why := w.unchanged(t, file)
		assert.Contains(t, why, "VM 901 (old) on pve1 has the tags of this cluster's NFS server")
		assert.Contains(t, why, "files-nfs would start empty next to it")
		assert.Contains(t, why, "as root on pve1: qm set 901 --tags keeps-data; its data stays on it")
		assert.NotContains(t, why, "write name:")

		w.wipe(t, 901)
		w.up(t, file)
		for id, x := range map[int]struct{ tags, address string }{
			902: {tags + ";homelab-files_104_0a0b0c0d", address("b902")}, // a restored backup
			903: {tags, address("else")},
			904: {tags, address("b904")},
		} {
			w.sim.AddVM(pvesim.VM{ID: id, Node: "pve1", Name: fmt.Sprint("b", id), Config: map[string]string{"memory": "1024", "tags": x.tags, at: x.address}})
		}
		time.Sleep(time.Minute)
		warnings, _ := w.doubts(t, file)
		for _, id := range []int{902, 903} {
			assert.Contains(t, warnings, fmt.Sprintf("as root on pve1: qm set %d --tags keeps-data", id))
			assert.NotContains(t, warnings, fmt.Sprintf("name: b%d under storage.nfs.vm", id))
		}
		assert.Equal(t, 2, strings.Count(warnings, "it is a copy of an NFS server, which homelab does not use"))
		assert.Contains(t, warnings, "name: b904 under storage.nfs.vm, and cluster:up uses it with its data")
	})
}
