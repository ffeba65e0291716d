package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// set has somebody configure a VM, as the web interface does.
func (w *world) set(t testing.TB, id int, body string) {
	t.Helper()
	user, token := w.sim.Token()
	require.Equal(t, 200, request(t, w.sim.Client(), "PUT", fmt.Sprintf("/nodes/pve1/qemu/%d/config", id), user+"="+token, body))
}

// switchOff has somebody stop a VM.
func (w *world) switchOff(t testing.TB, id int) {
	t.Helper()
	user, token := w.sim.Token()
	require.Equal(t, 200, request(t, w.sim.Client(), "POST", fmt.Sprintf("/nodes/pve1/qemu/%d/status/stop", id), user+"="+token, "{}"))
	w.sim.Settle()
}

// runs reports whether a VM does.
func (w *world) runs(t testing.TB, id int) bool {
	t.Helper()
	for _, vm := range w.sim.VMs() {
		if vm.ID == id {
			return vm.Running
		}
	}
	require.FailNow(t, "no VM", id)
	return false
}

// A copy whose owner has taken our tag off it, as the warning about it says, has the ISO of
// its source in its drive and takes its device by our mapping: nothing takes those away.
func TestCopiesWithoutATag(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		untouched := w.inventory()
		spec := parse(t, lab(example(t, "one-gpu")))
		w.up(t, spec)
		w.copies(t, "gpu1", "annas", 900)
		w.copies(t, "server1", "bobs", 901)
		for _, id := range []int{900, 901} {
			w.set(t, id, `{"delete":"tags"}`)
		}
		w.set(t, 901, fmt.Sprintf(`{"sata3":%q,"delete":"ide2"}`, w.vm(t, "bobs").Config["ide2"]))
		strangers := w.strangers(900)
		w.down(t, spec)
		assert.Contains(t, w.output.String(), "stays: VM 900 (annas) on pve1 uses it, and would not start without it")
		assert.Contains(t, w.output.String(), "stays: VM 901 (bobs) on pve1 uses it, and would not start without it")
		assert.Equal(t, strangers, w.strangers(900))
		w.prune(t, spec)
		for _, id := range []int{900, 901} {
			w.switchOn(t, id)
			assert.True(t, w.runs(t, id), "VM %d starts", id)
		}

		for _, id := range []int{900, 901} {
			w.switchOff(t, id)
			w.wipe(t, id)
		}
		w.down(t, spec)
		assert.Equal(t, untouched, w.inventory(), "once nobody has them they go")
	})
}

// What a VM has in its drive whose host does not answer nobody knows.
func TestFilesOfASilentHost(t *testing.T) {
	for name, shared := range map[string]bool{"a storage of each host": false, "one that the hosts share": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := pvesim.TwoHosts()
				storage := "local"
				if shared {
					storage = "isos"
					for i := range model.Hosts {
						model.Hosts[i].Storages = append(model.Hosts[i].Storages, pvesim.Storage{Name: storage, Type: "nfs", Content: []string{"iso"}, Shared: true, Size: 100 * pvesim.GiB,
							Config: map[string]string{"server": "10.0.0.5", "export": "/isos"}})
					}
				}
				w := newWorld(t, model)
				spec := parse(t, duo+"image: {seedStorage: "+storage+"}\n")
				w.up(t, spec)
				w.sim.AddVM(pvesim.VM{ID: 900, Node: "pve2", Name: "somebodys", Running: true, Config: map[string]string{"memory": "1024"}})
				time.Sleep(time.Minute)
				w.sim.Fail(pvesim.Rule{Method: "GET", Path: ".*/nodes/pve2/qemu", Times: -1, Status: 595, Message: "No route to host"})
				w.down(t, spec)
				seeds := 0
				for _, v := range w.sim.Volumes() {
					if v.Content == "iso" {
						seeds++
					}
				}
				if shared {
					assert.NotZero(t, seeds)
					assert.Contains(t, w.output.String(), "stays: cannot find out whether VM 900 (somebodys) on pve2 uses it: pve2 does not answer: ")
				} else {
					assert.Zero(t, seeds, "no VM of another host has it")
				}
			})
		})
	}
}

// One VM that cannot be read keeps what it may have, and ends no look at the others.
func TestFilesOfAVMThatCannotBeRead(t *testing.T) {
	inWorld(t, pvesim.TwoHosts(), func(t *testing.T, w *world) {
		spec := parse(t, duo)
		w.up(t, spec)
		seed := strings.Split(w.vm(t, "wk1").Config["ide2"], ",")[0]
		require.Contains(t, seed, "_wk1_")
		w.sim.AddVM(pvesim.VM{ID: 900, Node: "pve1", Name: "somebodys", Running: true, Config: map[string]string{"memory": "1024"}})
		time.Sleep(time.Minute)
		w.sim.Fail(pvesim.Rule{Method: "GET", Path: ".*/qemu/900/pending", Times: -1, Status: 500, Message: "unable to parse value of 'net0'"})
		w.down(t, spec)
		assert.Contains(t, w.output.String(), seed+" on pve1 stays: cannot find out whether VM 900 (somebodys) on pve1 uses it: proxmox: GET /nodes/pve1/qemu/900/pending: unable to parse")
		assert.NotNil(t, w.sim.ReadVolume("pve1", seed))
	})
}
