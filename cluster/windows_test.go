package cluster_test

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/iso9660"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

const cloudbaseInit = "an installer"

// withWindows is a cluster beside which Windows is installed.
func withWindows() string {
	before, _, _ := strings.Cut(withVM(), "  box:")
	before = strings.Replace(before, "{endpoint: lab}", "{endpoint: https://192.168.1.5:8006, token: homelab@pve!cluster, secret: env:SECRET, host: pve1}", 1)
	return strings.Replace(before, "defaults: {", "defaults: {storage: vmdata, ", 1) + `  box:
    system: windows
    iso:
      windows: local:iso/Win11.iso
      drivers: local:iso/virtio-win.iso
      cloudbaseInit: {iso: local:iso/cloudbase-init.iso, sha256: ` + guest.SHA256([]byte(cloudbaseInit)) + `}
      edition: Windows 11 Pro
    address: 10.0.0.40
    memory: 8GiB
    storage: vmdata
`
}

// windowsHost is a host whose token may press keys.
func windowsHost() pvesim.Model {
	m := pvesim.OneGPU()
	m.Roles[0].Privs = append(slices.Clone(m.Roles[0].Privs), "VM.Console")
	return m
}

// discs are those that withWindows names.
func discs() map[string]map[string][]byte {
	return map[string]map[string][]byte{
		"Win11.iso":          {"bootmgr.efi": []byte("MZ"), "install.wim": []byte("Windows 11 Home\nWindows 11 Pro\n")},
		"virtio-win.iso":     {"virtio-win-guest-tools.exe": []byte("MZ")},
		"cloudbase-init.iso": {"CloudbaseInitSetup_x64.msi": []byte(cloudbaseInit)},
	}
}

// putDiscs puts the discs on the storage, as somebody does by hand.
func (w *world) putDiscs(t testing.TB, discs map[string]map[string][]byte) {
	t.Helper()
	id, token := w.sim.Token()
	c, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: w.sim.Client()})
	require.NoError(t, err)
	for name, files := range discs {
		iso, err := iso9660.Build("DISC", files)
		require.NoError(t, err)
		_, err = c.Storages.Upload(t.Context(), "pve1", "local", name, iso)
		require.NoError(t, err)
	}
}

// Windows is installed from its disc: the key that the disc waits for is pressed, and no other. Then the VM is like any.
func TestLifeOfWindows(t *testing.T) {
	inWorld(t, windowsHost(), func(t *testing.T, w *world) {
		spec := parse(t, withWindows())
		empty := w.inventory()
		_, err := w.cluster(t, spec).Up().Run(t.Context(), w.listen(t))
		for name := range discs() {
			require.ErrorContains(t, err, "vms.box.iso: pve1 has no local:iso/"+name)
		}
		assert.Equal(t, empty, w.inventory(), "nothing is made")

		w.putDiscs(t, discs())
		untouched := w.inventory()
		assert.Subset(t, changedSteps(w.up(t, spec)), []string{"seed/box", "vm/box", "guest/box"})
		config := w.vm(t, "box").Config
		assert.Equal(t, "order=scsi0;sata0", config["boot"])
		assert.Equal(t, "win11", config["ostype"])
		assert.Contains(t, config["scsi0"], "size=64G")
		assert.Contains(t, config["efidisk0"], "pre-enrolled-keys=1")
		assert.Contains(t, config["tpmstate0"], "version=v2.0")
		for i, name := range []string{"Win11.iso", "virtio-win.iso", "cloudbase-init.iso"} {
			assert.Contains(t, config[fmt.Sprintf("sata%d", i)], "local:iso/"+name+",media=cdrom")
		}
		keys := w.pressed()
		assert.Less(t, keys, 15, "the disc waits some seconds after power-on")
		assert.Positive(t, keys)

		before := w.now()
		assert.Empty(t, changedSteps(w.up(t, spec)))
		assert.Empty(t, w.plan(t, spec))
		assert.Equal(t, changes{}, before.changes())

		// A restart boots the disk. The discs are not needed any more.
		larger := parse(t, replace(t, withWindows(), "memory: 8GiB", "memory: 16GiB"))
		w.up(t, larger)
		assert.Equal(t, "16384", w.vm(t, "box").Config["memory"])
		assert.Equal(t, keys, w.pressed(), "nothing is installed again")
		assert.Empty(t, w.plan(t, larger))

		_, err = w.cluster(t, parse(t, replace(t, withWindows(), "Windows 11 Pro", "Windows 11 Home"))).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "remove it from the file, run homelab cluster:up, write it again", "another edition is another machine")
		w.down(t, larger)
		assert.Equal(t, untouched, w.inventory())
	})
}

// pressed is how many keys were pressed.
func (w *world) pressed() (n int) {
	for _, r := range w.sim.Requests() {
		if path.Base(r.Path) == "sendkey" {
			n++
		}
	}
	return n
}

// A machine that nobody pressed a key at is in its firmware. It is reset, and installed then.
func TestWindowsThatMissedItsKey(t *testing.T) {
	inWorld(t, windowsHost(), func(t *testing.T, w *world) {
		w.putDiscs(t, discs())
		spec := parse(t, withWindows())
		fault := w.sim.Fail(pvesim.Rule{Method: "PUT", Path: "/nodes/pve1/qemu/[0-9]+/sendkey", Status: 500, Message: "no keyboard", Times: -1})
		_, err := w.cluster(t, spec).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "no keyboard")
		fault.Remove()
		time.Sleep(time.Hour)
		costs := w.costsOf(t, spec)
		require.Len(t, costs, 1)
		assert.Equal(t, "box: nothing is installed on it, and its firmware found nothing to boot", costs[0].Machine+": "+costs[0].Reason)
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
	})
}

// What Setup stops at is told as what it is waited for, with where to look.
func TestWindowsThatIsNotInstalled(t *testing.T) {
	for name, change := range map[string]func(discs map[string]map[string][]byte){
		"no such edition": func(discs map[string]map[string][]byte) {
			discs["Win11.iso"]["install.wim"] = []byte("Windows 11 Home\n")
		},
		"another installer": func(discs map[string]map[string][]byte) {
			discs["cloudbase-init.iso"]["CloudbaseInitSetup_x64.msi"] = []byte("other")
		},
		"no drivers": func(discs map[string]map[string][]byte) {
			discs["virtio-win.iso"] = map[string][]byte{"readme": nil}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, windowsHost(), func(t *testing.T, w *world) {
				all := maps.Clone(discs())
				change(all)
				w.putDiscs(t, all)
				_, err := w.cluster(t, parse(t, withWindows())).Up().Run(t.Context(), w.listen(t))
				require.ErrorContains(t, err, "Windows Setup says there which of its answers it does not take")
			})
		})
	}
}

// A run that dies while Windows is installed is finished by the next.
func TestCrashWhileWindowsIsInstalled(t *testing.T) {
	spec := parse(t, withWindows())
	var want []string
	var requests []pvesim.Request
	inWorld(t, windowsHost(), func(t *testing.T, w *world) {
		w.putDiscs(t, discs())
		before := len(w.sim.Requests()) + 1 // that of Dial
		w.up(t, spec)
		want, requests = w.inventory(), w.sim.Requests()[before:]
	})
	mine := share.Start(t, "deaths while Windows is installed")
	box := "/qemu/0/" // its VMID, from its creation on
	for i, r := range requests {
		if r.Params.Get("name") == "box" {
			box = "/qemu/" + r.Params.Get("vmid") + "/"
		} else if !r.Mutating || !strings.Contains(r.Path, box) && !strings.Contains(r.Params.Get("filename"), "_box_") {
			continue
		}
		for _, before := range []bool{true, false} {
			if !mine.Next() {
				continue
			}
			t.Run(fmt.Sprintf("%d %s before=%t", i+1, path.Base(r.Path), before), func(t *testing.T) {
				t.Parallel()
				inWorld(t, windowsHost(), func(t *testing.T, w *world) {
					w.putDiscs(t, discs())
					if !w.crash(t, spec, i+1, before) {
						t.Skip("it was done by then")
					}
					time.Sleep(time.Duration(i%2) * time.Hour)
					w.recovers(t, spec, want)
				})
			})
		}
	}
}
