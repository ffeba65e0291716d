package proxmox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// web is an internet that counts, and that can be gone.
type web struct {
	asked atomic.Int32
	gone  atomic.Pointer[error]
}

func (w *web) get(url string) ([]byte, error) {
	if err := w.gone.Load(); err != nil {
		return nil, *err
	}
	w.asked.Add(1)
	return guest.DefaultInternet()(url)
}

func (w *web) fail(err error) { w.gone.Store(&err) }

func noble(t testing.TB) proxmox.Image {
	content, err := guest.DefaultInternet()(imageURL)
	require.NoError(t, err)
	return proxmox.Image{URL: imageURL, SHA256: guest.SHA256(content), FileName: "a100-noble.qcow2"}
}

func TestImageIsDownloadedOnce(t *testing.T) {
	var w web
	bubble(t, pvesim.EightA100(), pvesim.Options{Internet: w.get}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		fetch(t, c, "pve1")
		assert.EqualValues(t, 1, w.asked.Load())
		w.fail(errors.New("no route to host"))
		fetch(t, c, "pve1") // is checked, for which no internet is needed
		assert.EqualValues(t, 1, w.asked.Load())

		other := noble(t)
		other.SHA256 = strings.Repeat("0", 64)
		_, err := c.Storages.Fetch(t.Context(), "pve1", "local", other)
		require.ErrorContains(t, err, "is another or an incomplete file and was not changed. If nothing uses it, run on pve1: pvesm free local:import/a100-noble.qcow2")
		fetch(t, c, "pve1")
	})
}

// Debian publishes SHA-512 alone: Proxmox compares that as well.
func TestImageWithASHA512(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, _ *pvesim.Sim, c *proxmox.Client) {
		const url = "https://cloud.debian.org/images/cloud/trixie/20260914-2601/debian-13-generic-amd64-20260914-2601.qcow2"
		content, err := guest.DefaultInternet()(url)
		require.NoError(t, err)
		image := proxmox.Image{URL: url, SHA512: guest.SHA512(content), FileName: "debian.qcow2"}
		id, err := c.Storages.Fetch(t.Context(), "pve1", "local", image)
		require.NoError(t, err)
		assert.Equal(t, "local:import/debian.qcow2", id)
		image.SHA512, image.FileName = strings.Repeat("0", 128), "other.qcow2"
		_, err = c.Storages.Fetch(t.Context(), "pve1", "local", image)
		require.ErrorContains(t, err, "or the checksum from SHA256SUMS or SHA512SUMS beside it")
		image.SHA256 = strings.Repeat("0", 64)
		_, err = c.Storages.Fetch(t.Context(), "pve1", "local", image)
		require.ErrorContains(t, err, "there is a SHA-256 beside it")
	})
}

// A process that died while Proxmox downloaded leaves a task, and a file under
// another name: the next one waits for it.
func TestImageThatIsUnderWay(t *testing.T) {
	var w web
	bubble(t, pvesim.EightA100(), pvesim.Options{Internet: w.get}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := c.Storages.Fetch(ctx, "pve1", "local", noble(t))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		fetch(t, dialSim(t, sim), "pve1")
		assert.EqualValues(t, 1, w.asked.Load())
	})
}

// Its worker is killed in the middle: nothing of it is there, and it is fetched again.
func TestImageThatIsHalfThere(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		fault := sim.Fail(pvesim.Rule{Path: ".*/download-url", TaskError: pvesim.Killed})
		fetch(t, c, "pve1")
		assert.Equal(t, 1, fault.Hits())
	})
}

// twoHostsOneStorage is pvesim.TwoHosts with one storage for images.
func twoHostsOneStorage() pvesim.Model {
	m := pvesim.TwoHosts()
	for i := range m.Hosts {
		m.Hosts[i].Storages = append(m.Hosts[i].Storages,
			pvesim.Storage{Name: "nas", Type: "nfs", Content: []string{"import", "iso"}, Shared: true, Size: pvesim.TiB})
	}
	return m
}

func TestTwoHostsThatShareAStorageDownloadOnce(t *testing.T) {
	var w web
	bubble(t, twoHostsOneStorage(), pvesim.Options{Internet: w.get}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		image := noble(t)
		var wg sync.WaitGroup
		for _, host := range []string{"pve1", "pve2"} {
			wg.Go(func() {
				id, err := c.Storages.Fetch(t.Context(), host, "nas", image)
				assert.NoError(t, err)
				assert.Equal(t, "nas:import/a100-noble.qcow2", id)
			})
		}
		wg.Wait()
		assert.EqualValues(t, 1, w.asked.Load())

		// Also when the first one was told to by a process that is dead now.
		image.FileName = "other.qcow2"
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := c.Storages.Fetch(ctx, "pve1", "nas", image)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = dialSim(t, sim).Storages.Fetch(t.Context(), "pve2", "nas", image)
		require.NoError(t, err)
		assert.EqualValues(t, 2, w.asked.Load())
	})
}

func TestWhyADownloadFailed(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"404":         {fmt.Errorf("x: %w", guest.ErrNotFound), "is image.url right?"},
		"unreachable": {errors.New("connect: no route to host"), "pve1 does not reach the server"},
		"untrusted":   {fmt.Errorf("x: %w", guest.ErrUntrusted), "pve1 does not trust the server's certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			var w web
			w.fail(c.err)
			bubble(t, pvesim.EightA100(), pvesim.Options{Internet: w.get}, func(t *testing.T, _ *pvesim.Sim, client *proxmox.Client) {
				_, err := client.Storages.Fetch(t.Context(), "pve1", "local", noble(t))
				require.ErrorContains(t, err, c.want)
				if name != "404" {
					assert.ErrorContains(t, err, "upload that file\n  to local in the web interface (Import), or serve it from a machine that pve1 reaches")
				}
			})
		})
	}
}

func TestOldProxmoxCannotImport(t *testing.T) {
	for version, ok := range map[string]bool{"8.2.4": false, "8.3.0": false, "8.4.1": true, "9.0.3": true, "9.2.11": true} {
		m := pvesim.EightA100()
		m.Version = version
		bubble(t, m, pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
			before := len(sim.Requests())
			err := c.Storages.CheckImport()
			if ok {
				assert.NoError(t, err, version)
				return
			}
			require.ErrorContains(t, err, "proxmox VE "+version+" cannot import an image")
			_, err = c.Storages.Fetch(t.Context(), "pve1", "local", noble(t))
			require.ErrorContains(t, err, "cannot import an image")
			assert.Len(t, sim.Requests(), before, "nothing was asked")
		})
	}
}

func TestDownloadTellsHowFarItIs(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, _ *pvesim.Sim, c *proxmox.Client) {
		var mu sync.Mutex
		var said []string
		ctx := converge.WithProgress(t.Context(), func(u converge.ProgressUpdate) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, u.String())
		})
		_, err := c.Storages.Fetch(ctx, "pve1", "local", noble(t))
		require.NoError(t, err)
		assert.Contains(t, strings.Join(said, "\n"), "downloading noble-server-cloudimg-amd64.img: 48 %")
	})
}

// Proxmox marks a template before its disks are bases: one whose host died in between
// is finished, and not cloned from before.
func TestHalfATemplateIsFinished(t *testing.T) {
	m := pvesim.OneGPU()
	m.VMs = append(m.VMs, pvesim.VM{ID: 900, Node: "pve1", Name: "half", Config: map[string]string{
		"template": "1", "tags": owner, "bios": "ovmf", "scsi0": "vmdata:vm-900-disk-0,size=4G", "efidisk0": "vmdata:vm-900-disk-1,efitype=4m,size=1M",
	}})
	bubble(t, m, pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		vm, err := c.VMs.GetByID(t.Context(), 900)
		require.NoError(t, err)
		assert.Equal(t, []string{"efidisk0", "scsi0"}, vm.UnconvertedDisks())
		require.NoError(t, c.Templates.Convert(t.Context(), vm))
		vm, err = c.VMs.GetByID(t.Context(), 900)
		require.NoError(t, err)
		assert.Empty(t, vm.UnconvertedDisks())
		before := len(sim.Requests())
		require.NoError(t, c.Templates.Convert(t.Context(), vm))
		assert.Empty(t, mutations(sim, before))

		_, err = c.VMs.GetByID(t.Context(), 901)
		assert.ErrorIs(t, err, proxmox.ErrNotFound)
	})
}

func TestCloudImagesCanBeImported(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, _ *pvesim.Sim, c *proxmox.Client) {
		for _, name := range []string{"", "ubuntu-24.04", "debian-13"} {
			image, err := proxmox.CloudImage(name)
			require.NoError(t, err)
			_, err = c.Storages.Fetch(t.Context(), "pve1", "local", image)
			require.NoError(t, err, image.URL)
		}
		_, err := proxmox.CloudImage("fedora-44")
		require.EqualError(t, err, `image of "fedora-44": this package knows ubuntu-24.04 and debian-13`)
	})
}
