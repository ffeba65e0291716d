package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

const existing = "vmdata:vm-900-models"

// ofVolume is a cluster whose agent gets an existing volume.
const ofVolume = `
name: volumes
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
nodes:
  cp1: {role: server, address: 10.0.0.11}
  wk1: {address: 10.0.0.21, disks: {models: {volume: "` + existing + `", mount: /models}, scratch: {size: 10GiB, mount: /scratch}}}
`

// hasVolume makes a disk by hand that no VM has.
func (w *world) hasVolume(t testing.TB) {
	t.Helper()
	user, token := w.sim.Token()
	require.Equal(t, 200, request(t, w.sim.Client(), "POST", "/nodes/pve1/storage/vmdata/content", user+"="+token, `{"vmid":"900","filename":"vm-900-models","size":"100G"}`))
}

// keepsVolume checks that the volume is there, attached or not.
func (w *world) keepsVolume(t testing.TB) {
	t.Helper()
	for _, v := range w.sim.Volumes() {
		if v.ID == existing {
			assert.EqualValues(t, 100<<30, v.Size)
			assert.Equal(t, 900, v.Owner)
			return
		}
	}
	assert.Fail(t, "the volume is gone")
}

// filled brings the cluster up with a volume on which its owner has made a file system, with a file.
func (w *world) filled(t testing.TB) {
	t.Helper()
	w.hasVolume(t)
	w.up(t, parse(t, strings.Replace(ofVolume, ", mount: /models", "", 1)))
	machine := w.guests()["wk1"]
	assert.Empty(t, ask(t, machine, "sh", "-c", "blkid -p -o value -s TYPE /dev/sdb || true"), "only attached")
	ask(t, machine, "mkfs.ext4", "/dev/sdb")
	w.up(t, parse(t, ofVolume))
	ask(t, machine, "sh", "-c", "printf precious >/models/weights")
	time.Sleep(time.Minute)
}

// holdsFile checks what is on the volume, by the node that mounts it.
func (w *world) holdsFile(t testing.TB) {
	t.Helper()
	assert.Equal(t, "precious", ask(t, w.guests()["wk1"], "cat", "/models/weights"))
	assert.Contains(t, w.vm(t, "wk1").Config["scsi1"], existing+",")
}

// An existing volume is mounted as it is, stays with its contents whatever becomes of its VM, and is
// in no list of what would be lost.
func TestExistingVolume(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.filled(t)
		spec := parse(t, ofVolume)
		assert.Empty(t, w.plan(t, spec))
		w.holdsFile(t)

		require.NoError(t, w.verb(t, spec, replacements(t.Context(), "wk1", false)), "nothing on it would be lost")
		w.holdsFile(t)
		assert.Empty(t, w.plan(t, spec))

		// Taken out of the file, and in again.
		w.up(t, parse(t, strings.Replace(ofVolume, `models: {volume: "`+existing+`", mount: /models}, `, "", 1)))
		w.keepsVolume(t)
		assert.NotContains(t, fmt.Sprint(w.vm(t, "wk1").Config), existing, "not even as an unused disk")
		w.up(t, spec)
		assert.Equal(t, "precious", ask(t, w.guests()["wk1"], "cat", "/models/weights"))

		// A volume is never grown in place of a disk, and never exchanged under its name.
		for other, words := range map[string]string{"size: 200GiB": "homelab node:replace -node=wk1", "volume: vmdata:vm-901-models": "vm-901-models of wk1 is not on pve1"} {
			c := w.cluster(t, parse(t, replace(t, ofVolume, `volume: "`+existing+`"`, other)))
			_, err := c.Up().Run(t.Context(), w.listen(t))
			require.ErrorContains(t, err, words)
			c.Close()
		}
		w.keepsVolume(t)

		down, err := w.cluster(t, spec).Down(t.Context())
		require.NoError(t, err)
		plan, err := down.Plan(t.Context())
		require.NoError(t, err)
		for _, it := range plan.Items {
			for _, cost := range it.Costs {
				assert.NotContains(t, fmt.Sprint(cost), "models")
			}
		}
		w.down(t, spec)
		w.keepsVolume(t)
		w.up(t, spec)
		w.holdsFile(t)
	})
}

// A volume that another VM has, or that is not there, is refused before anything is made.
func TestVolumeThatIsNotFree(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		refused := func(words string) {
			t.Helper()
			c := w.cluster(t, parse(t, ofVolume))
			defer c.Close()
			_, err := c.Up().Run(t.Context(), w.listen(t))
			require.ErrorContains(t, err, words)
			assert.Empty(t, w.guests())
		}
		refused("volume " + existing + " of wk1 is not on pve1")
		w.hasVolume(t)
		user, token := w.sim.Token()
		require.Equal(t, 200, request(t, w.sim.Client(), "POST", "/nodes/pve1/qemu", user+"="+token, `{"vmid":"500","name":"old","scsi9":"`+existing+`"}`))
		w.sim.Settle()
		refused("volume " + existing + " of wk1 is a disk of VM 500 (old) on pve1")
		w.set(t, 500, `{"delete":"scsi9"}`)
		w.up(t, parse(t, strings.Replace(ofVolume, ", mount: /models", "", 1)))

		// Blank, and to be mounted: it is never formatted.
		c := w.cluster(t, parse(t, ofVolume))
		defer c.Close()
		_, err := c.Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "disk models is an existing volume and has no file system of its own")
		assert.Empty(t, ask(t, w.guests()["wk1"], "sh", "-c", "blkid -p -o value -s TYPE /dev/sdb || true"))
	})
}

// Proxmox deletes a volume together with the VM whose number it has: no VM that gets it has that number.
func TestVolumeWithTheNumberOfItsVM(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.hasVolume(t)
		c := w.cluster(t, parse(t, replace(t, ofVolume, "wk1: {", "wk1: {vmid: 900, ")))
		defer c.Close()
		_, err := c.Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "has the number of wk1 itself")
		w.keepsVolume(t)
	})
}

// Whatever request a command dies at that destroys the machine of a volume, the volume stays, and the next
// machine has its contents.
func TestCrashWithAnExistingVolume(t *testing.T) {
	spec, without := parse(t, ofVolume), parse(t, strings.Split(ofVolume, "  wk1:")[0])
	commands := map[string]func(ctx context.Context, c *cluster.Cluster) (*converge.Graph, error){
		"replace": func(ctx context.Context, c *cluster.Cluster) (*converge.Graph, error) {
			return c.NodeReplace(ctx, "wk1", false)
		},
		"removed": func(_ context.Context, c *cluster.Cluster) (*converge.Graph, error) { return c.Up(), nil },
		"down":    func(ctx context.Context, c *cluster.Cluster) (*converge.Graph, error) { return c.Down(ctx) },
	}
	for name, command := range commands {
		asked := spec
		if name == "removed" {
			asked = without
		}
		requests := 0
		run := func(t *testing.T, w *world, n int, before bool) error {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f := &fuse{n: n, before: before, writes: true, blow: cancel}
			w.tap = func(next http.RoundTripper) http.RoundTripper { return hung{f, next} }
			c := w.cluster(t, asked)
			w.tap = nil
			defer c.Close()
			g, err := command(ctx, c)
			if err == nil {
				_, err = g.Run(ctx, w.listen(t))
			}
			requests = f.seen
			return err
		}
		inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
			w.filled(t)
			require.NoError(t, run(t, w, 1<<30, true))
			w.keepsVolume(t)
		})
		mine := share.Start(t, "deaths with an existing volume, "+name)
		for n := range requests {
			for _, before := range []bool{true, false} {
				if !mine.Next() {
					continue
				}
				t.Run(fmt.Sprintf("%s %d before=%t", name, n+1, before), func(t *testing.T) {
					inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
						defer time.Sleep(3 * time.Minute) // what still dials the old machine gives up
						w.filled(t)
						require.ErrorIs(t, run(t, w, n+1, before), context.Canceled)
						w.keepsVolume(t)
						time.Sleep(time.Minute)
						w.keepsVolume(t)
						w.up(t, spec)
						w.holdsFile(t)
						assert.Empty(t, w.plan(t, spec))
					})
				})
			}
		}
	}
}
