package cluster_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// isos are the names of the ISOs on a host's local storage.
func (w *world) isos() (out []string) {
	for _, v := range w.sim.Volumes() {
		if v.Content == "iso" {
			out = append(out, v.ID)
		}
	}
	return out
}

// insert has somebody put an ISO of theirs into the drive of a VM.
func (w *world) insert(t *testing.T, id int, name string) (volume string) {
	t.Helper()
	c := w.cluster(t, parse(t, small))
	defer c.Close()
	volume, err := c.Proxmox.Storages.Upload(t.Context(), "pve1", "local", name, make([]byte, 4096))
	require.NoError(t, err)
	w.set(t, id, fmt.Sprintf(`{"ide2":"%s,media=cdrom"}`, volume))
	time.Sleep(time.Minute)
	return volume
}

// Somebody looks into the machine in which a template is baked, by an ISO of theirs. What
// is in its drive then is not ours to delete, nor to be written anew under its name.
func TestAnISOOfSomebodysInABake(t *testing.T) {
	for what, gone := range map[string]bool{"it is there": false, "it is gone by now": true} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
				spec := parse(t, small)
				require.False(t, w.cut(t, spec, 25*time.Second))
				time.Sleep(time.Minute)
				require.Len(t, w.names(), 1)
				require.True(t, w.runs(t, 100))
				theirs := w.insert(t, 100, "rescue.iso")
				if gone {
					c := w.cluster(t, spec)
					require.NoError(t, c.Proxmox.Storages.Delete(t.Context(), "pve1", theirs))
					c.Close()
					time.Sleep(time.Minute)
				}
				before := len(w.sim.Requests())
				w.up(t, spec)
				assert.Len(t, w.names(), 3)
				assert.Equal(t, !gone, slices.Contains(w.isos(), theirs))
				for _, r := range w.sim.Requests()[before:] {
					if r.Mutating {
						assert.NotContains(t, fmt.Sprint(r.Path, r.Params), "rescue.iso")
					}
				}
			})
		})
	}
}
