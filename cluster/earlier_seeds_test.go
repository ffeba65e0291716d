package cluster_test

import (
	"bytes"
	"io"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/iso9660"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

const (
	instanceFile = "/var/lib/cloud/data/instance-id"
	hostKeyFile  = "/etc/ssh/ssh_host_ed25519_key.pub"
)

// instanceOf is the instance-id of a seed.
func instanceOf(t testing.TB, iso []byte) string {
	t.Helper()
	files, _, err := iso9660.Files(bytes.NewReader(iso), int64(len(iso)))
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^instance-id: "?([^"\n]+)`).FindSubmatch(files["meta-data"])
	require.NotNil(t, found, "%s", files["meta-data"])
	return string(found[1])
}

// bornEarlier makes a machine one that was born with a seed of an earlier version, which
// is gone since. It returns the seed, and its name.
func (w *world) bornEarlier(t testing.TB, spec *spec.Spec, node string) (iso []byte, file string) {
	t.Helper()
	c := w.cluster(t, spec)
	file, err := c.EarlierSeed(node)
	require.NoError(t, err)
	iso, err = c.EarlierISO(node)
	require.NoError(t, err)
	now, err := c.Seed(node)
	require.NoError(t, err)
	require.NoError(t, w.guests()[node].Disk().WriteFile(instanceFile, []byte(instanceOf(t, iso)+"\n"), 0o644))
	_, err = c.Proxmox.Upload(t.Context(), "pve1", "local", file, iso)
	require.NoError(t, err)
	w.configure(t, node, "ide2", "local:iso/"+file+",media=cdrom")
	require.NoError(t, c.Proxmox.DeleteVolume(t.Context(), "pve1", "local:iso/"+now))
	require.NoError(t, c.Proxmox.DeleteVolume(t.Context(), "pve1", "local:iso/"+file))
	return iso, file
}

// An ISO of an earlier version that somebody has deleted is made again as it was: with
// another instance-id cloud-init takes the machine for a new one when it starts again.
func TestALostSeedOfAnEarlierVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		keyLost, off bool
		want         string
	}{
		"with the kept key":                     {},
		"with the kept key, off":                {off: true},
		"with the kept key lost":                {keyLost: true},
		"with the kept key lost, without agent": {keyLost: true, off: true, want: "start it without, as root on pve1: qm set "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, pvesim.OneGPU())
				defer w.close()
				spec := parse(t, replace(t, duo, ", gpus: 1", ""))
				w.up(t, spec)
				iso, file := w.bornEarlier(t, spec, "wk1")
				key := content(t, w.guests()["wk1"], hostKeyFile)
				if tc.keyLost {
					w.keys = tokenKey(t, w.token)
				}
				if tc.off {
					w.byHand(t, spec, "wk1", "stop")
				}
				c := w.cluster(t, spec)
				defer c.Close()
				_, err := c.Up().Run(t.Context(), w.listen(t))
				if tc.want != "" {
					require.ErrorContains(t, err, "seed/wk1: the first-boot ISO "+file+" of wk1 (VM ")
					require.ErrorContains(t, err, tc.want)
					assert.Nil(t, w.sim.ReadVolume("pve1", "local:iso/"+file), "none rather than another")
					return
				}
				require.NoError(t, err)
				assert.Equal(t, iso, w.sim.ReadVolume("pve1", "local:iso/"+file))
				assert.Empty(t, w.plan(t, spec))
				w.byHand(t, spec, "wk1", "stop")
				w.byHand(t, spec, "wk1", "start")
				time.Sleep(5 * time.Minute)
				assert.Equal(t, key, content(t, w.guests()["wk1"], hostKeyFile), "it is no new machine")
				assert.Empty(t, w.plan(t, spec))
			})
		})
	}
}

// An NFS server keeps what it was told whatever the file says since, and gets its ISO
// again all the same: without it it would not start.
func TestALostSeedOfAFileServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		defer w.close()
		text := withServer + "charts: {folder: " + charts(t) + ", offline: true}\n"
		spec := parse(t, text)
		w.up(t, spec)
		_, file := w.bornEarlier(t, spec, "files-nfs")
		server := w.guests()["files-nfs"]
		id := content(t, server, instanceFile)
		key := content(t, server, hostKeyFile)
		w.keys = tokenKey(t, w.token)
		require.Zero(t, server.Run(t.Context(), "root", "echo '#cloud-config' > /var/lib/cloud/instance/user-data.txt", io.Discard))
		assert.Contains(t, w.plan(t, spec), "seed/files-nfs: first-boot ISO on local")
		w.up(t, spec)
		assert.Equal(t, id, instanceOf(t, w.sim.ReadVolume("pve1", "local:iso/"+file))+"\n")
		w.byHand(t, spec, "files-nfs", "stop")
		w.up(t, spec)
		assert.Equal(t, key, content(t, w.guests()["files-nfs"], hostKeyFile), "it is no new machine")
		assert.Empty(t, w.plan(t, spec))
	})
}
