package cluster_test

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

const withServer = `
name: files
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
  wk: {count: 1, addresses: [10.0.0.21]}
storage:
  nfs: {vm: {address: 10.0.0.30, size: 100GiB, memory: 2GiB}}
`

// The NFS server is made with the cluster, exports what the file says, and stays when
// the cluster goes.
func TestLifeOfAFileServer(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		text := withServer + "charts: {folder: " + charts(t) + ", offline: true}\n"
		spec := parse(t, text)
		report := w.up(t, spec)
		assert.Subset(t, changedSteps(report), []string{"seed/files-nfs", "vm/files-nfs", "guest/files-nfs", "disks/files-nfs", "export/files-nfs", "chart/nfs"})
		assert.NotContains(t, w.nodes(t), "files-nfs", "it is no node")
		assert.Contains(t, w.vm(t, "files-nfs").Config["scsi1"], "serial=export")
		server := w.guests()["files-nfs"]
		read := func(path string) string {
			b, err := server.Disk().ReadFile(path)
			require.NoError(t, err)
			return string(b)
		}
		const options = "(rw,sync,no_subtree_check,no_root_squash,mp=/export)\n"
		assert.Equal(t, "/export 10.0.0.0/24"+options, read("/etc/exports.d/homelab.exports"))
		assert.Contains(t, read("/etc/fstab"), " /export ext4 ")

		before := w.now()
		assert.Empty(t, changedSteps(w.up(t, spec)), "the second time there is nothing to do")
		assert.Equal(t, changes{}, before.changes())

		// Somebody else may mount, and there is a share beside the volumes.
		more := replace(t, text, "memory: 2GiB}", "memory: 2GiB, allow: [10.0.0.0/24, 10.9.0.0/16]}, export: /export/k3s, shares: {data: /export/data}")
		spec = parse(t, more)
		assert.Contains(t, w.plan(t, spec)[0], "export/files-nfs: exports: /export 10.0.0.0/24 → /export/k3s 10.0.0.0/24, /export/k3s 10.9.0.0/16, /export/data 10.0.0.0/24, /export/data 10.9.0.0/16")
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
		assert.Equal(t, 4, strings.Count(read("/etc/exports.d/homelab.exports"), options))
		assert.NotContains(t, read("/var/lib/nfs/etab"), "/export ")

		// A change that needs a restart drains nobody: it is no node.
		spec = parse(t, replace(t, more, "memory: 2GiB", "memory: 4GiB"))
		before = w.now()
		w.up(t, spec)
		assert.Equal(t, []string{"files-nfs"}, before.changes().Restarted)
		assert.Empty(t, before.changes().Kubernetes)
		assert.Empty(t, w.plan(t, spec))
		server = w.guests()["files-nfs"]

		// What nobody has asked for is taken back; what is not ours stays.
		require.NoError(t, server.Disk().WriteFile("/var/lib/nfs/etab", []byte("/export/k3s \t0.0.0.0/0(rw)\n/srv \t10.0.0.9(ro)\n"), 0o644))
		assert.Contains(t, w.plan(t, spec)[0], "export: /export/k3s 0.0.0.0/0 → (none)")
		assert.NotContains(t, w.plan(t, spec)[0], "/srv")
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
	})
}

// Data outlives the cluster and the file; only its name, said for that, destroys it.
func TestDataOutlivesTheCluster(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		untouched := w.inventory()
		text := withServer + "charts: {folder: " + charts(t) + ", offline: true}\n"
		spec := parse(t, text)
		w.up(t, spec)
		server := w.guests()["files-nfs"]

		// A file that does not name it any more.
		without := parse(t, strings.Split(text, "storage:")[0])
		c := w.cluster(t, without)
		_, err := c.Up().Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		warnings, _ := c.HostWarnings()
		require.Len(t, warnings, 1)
		assert.Contains(t, warnings[0].String(), "the NFS server files-nfs (VM ")
		assert.Empty(t, w.plan(t, without))
		assert.Same(t, server, w.guests()["files-nfs"])

		// One that wants another in its place.
		c = w.cluster(t, parse(t, replace(t, text, "size: 100GiB", "name: other, size: 100GiB")))
		_, err = c.Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "other would start empty instead: write name: files-nfs under storage.nfs.vm")

		// The cluster goes, by either file.
		w.down(t, without)
		w.down(t, spec)
		assert.Equal(t, []string{"files-nfs"}, slicesWithout(w.names(), "-template-"))
		assert.Same(t, server, w.guests()["files-nfs"])
		assert.Contains(t, strings.Join(w.inventory(), "\n"), "homelab_files_files-nfs_", "its seed is in its drive")

		// It comes back to what it had. Another key that may log in, which makes another
		// machine of a node, leaves the server what it is.
		spec = parse(t, text+"ssh: {publicKeys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ5Sg0mUnWgJ8gMoVTBdX3TVWBPC2s1NzwtWTGQpTLwv more]}\n")
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
		assert.Same(t, server, w.guests()["files-nfs"])

		c = w.cluster(t, spec)
		var no *cluster.RefusedError
		_, err = c.Down(t.Context(), "wk1")
		require.ErrorAs(t, err, &no)
		g, err := c.Down(t.Context(), "files-nfs")
		require.NoError(t, err)
		_, err = g.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.Equal(t, untouched, w.inventory())
	})
}

// A run that dies while the NFS server is made is finished by the next.
func TestCrashWhileAFileServerIsMade(t *testing.T) {
	spec := parse(t, withServer+"charts: {folder: "+charts(t)+", offline: true}\n")
	want, requests := smooth(t, pvesim.OneGPU(), spec)
	server := "/qemu/0/" // its VMID, from its clone on
	for i, r := range requests {
		if vmid := r.Params.Get("newid"); r.Params.Get("name") == "files-nfs" {
			server = "/qemu/" + vmid + "/"
		} else if !r.Mutating || !strings.Contains(r.Path, server) {
			continue
		}
		t.Run(fmt.Sprintf("%d %s", i+1, path.Base(r.Path)), func(t *testing.T) {
			crashes(t, pvesim.OneGPU(), spec, i+1, false, time.Duration(i%2)*time.Minute, want)
		})
	}
}

// slicesWithout are the names that do not have some text in them.
func slicesWithout(names []string, text string) []string {
	var out []string
	for _, n := range names {
		if !strings.Contains(n, text) {
			out = append(out, n)
		}
	}
	return out
}
