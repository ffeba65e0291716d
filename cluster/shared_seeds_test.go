package cluster_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A test and its production, made from one file, each on a Proxmox of its own, have their
// seeds on one NAS. A seed that no machine here has ever had is the other's: it stays, and is
// named. Where hosts have storages of their own it can only be ours.
func TestSeedsOfAnotherProxmoxOnOneStorage(t *testing.T) {
	const other = "homelab_duo_wk9_0123456789ab-01234567.iso"
	for storage, stays := range map[string]bool{"isos": true, "local": false} {
		t.Run(storage, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := pvesim.TwoHosts()
				for i := range model.Hosts {
					model.Hosts[i].Storages = append(model.Hosts[i].Storages, pvesim.Storage{Name: "isos", Type: "nfs", Content: []string{"iso"}, Shared: true,
						Size: 100 * pvesim.GiB, Config: map[string]string{"server": "10.0.0.5", "export": "/isos"}})
				}
				w := newWorld(t, model)
				text := duo + "image: {seedStorage: " + storage + "}\n"
				spec := parse(t, text)
				w.up(t, spec)
				c := w.cluster(t, spec)
				theirs, err := c.Proxmox.Storages.Upload(t.Context(), "pve1", storage, other, make([]byte, 4096))
				require.NoError(t, err)
				c.Close()
				time.Sleep(time.Minute)

				check := func() {
					t.Helper()
					if !stays {
						assert.NotContains(t, w.isos(), theirs)
						return
					}
					assert.Contains(t, w.isos(), theirs)
					assert.Contains(t, w.output.String(), theirs+" on pve1 stays: isos is shared, and another Proxmox with a cluster called")
				}
				w.up(t, spec)
				check()
				less := parse(t, replace(t, text, "  wk: {count: 1, addresses: [10.0.0.21], gpus: 1}\n", ""))
				w.up(t, less)
				check()
				w.down(t, less)
				check()
				want := 0
				if stays {
					want = 1
				}
				assert.Len(t, w.isos(), want, "ours go: those of machines that left the file, too")
				assert.Equal(t, want, strings.Count(strings.Join(w.prune(t, less), "\n"), "homelab_duo_wk9"), "a storage of two hosts is listed once")
				assert.Empty(t, w.isos())
			})
		})
	}
}

// A file whose servers all have new names would have the cluster's data removed.
func TestAllServersRenamed(t *testing.T) {
	inWorld(t, pvesim.TwoHosts(), func(t *testing.T, w *world) {
		w.up(t, parse(t, duo))
		before := w.vmTags(t)
		c := w.cluster(t, parse(t, replace(t, duo, "  cp:", "  boss:")))
		defer c.Close()
		_, err := c.Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "none of the file's servers exists, and cp1 would be removed, with all of the cluster's data")
		assert.Equal(t, before, w.vmTags(t))
	})
}
