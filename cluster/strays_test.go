package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/converge"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// mark is the tag by which a machine is known as the owner's: written here once more, as
// docs/nodes.md has it.
func (w *world) mark(t testing.TB, owner, name string) string {
	t.Helper()
	vm := w.vm(t, name)
	_, uuid, found := strings.Cut(vm.Config["smbios1"], "uuid=")
	require.True(t, found, "%s has a UUID", name)
	return fmt.Sprintf("%s_%d_%s", owner, vm.ID, uuid[:8])
}

// copies has somebody clone a machine, as the web interface does.
func (w *world) copies(t testing.TB, of, as string, id int) {
	t.Helper()
	user, token := w.sim.Token()
	status := request(t, w.sim.Client(), "POST", fmt.Sprintf("/nodes/pve1/qemu/%d/clone", w.vm(t, of).ID), user+"="+token,
		fmt.Sprintf(`{"newid":%d,"name":%q,"full":1,"storage":"vmdata"}`, id, as))
	require.Equal(t, 200, status)
	w.sim.Settle()
	require.Contains(t, w.ids(), id)
}

// switchOn has somebody start a VM.
func (w *world) switchOn(t testing.TB, id int) {
	t.Helper()
	user, token := w.sim.Token()
	require.Equal(t, 200, request(t, w.sim.Client(), "POST", fmt.Sprintf("/nodes/pve1/qemu/%d/status/start", id), user+"="+token, "{}"))
	w.sim.Settle()
}

// ids are the VMIDs that there are.
func (w *world) ids() []int {
	var out []int
	for _, vm := range w.sim.VMs() {
		out = append(out, vm.ID)
	}
	return out
}

// strangers are VMs from an ID on, as they are.
func (w *world) strangers(from int) []string {
	var out []string
	for _, vm := range w.sim.VMs() {
		if vm.ID >= from {
			out = append(out, fmt.Sprint(vm.ID, vm.Name, vm.Running, vm.Template, vm.Config, vm.Pending))
		}
	}
	return out
}

// doubts looks at everything and returns what is no error, and what is one.
func (w *world) doubts(t testing.TB, spec *spec.Spec) (warnings string, errs map[string]string) {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	plan, err := c.Up().Plan(t.Context())
	require.NoError(t, err)
	errs = map[string]string{}
	for _, it := range plan.Items {
		if it.Err != nil {
			errs[it.Step] = it.Err.Error()
		}
	}
	var all []string
	for _, f := range c.Doubts() {
		all = append(all, f.String())
	}
	return strings.Join(all, "\n"), errs
}

// copyAll makes of a cluster's machines all that Proxmox can make of them, with the
// cluster's tag and, where that is possible, the name: VMs 900 to 907.
func (w *world) copyAll(t testing.TB) {
	t.Helper()
	const template = "one-gpu-template-pve1-"
	at := slices.IndexFunc(w.names(), func(n string) bool { return strings.HasPrefix(n, template) })
	baked := w.names()[at]
	worker := w.sim.Backup(w.vm(t, "gpu1").ID)
	w.copies(t, "gpu1", "annas-copy", 900)
	w.copies(t, "gpu1", "gpu1", 901)
	w.copies(t, baked, "built-on-it", 902)
	w.sim.Restore(worker, 903, false) // same name, addresses, UUID
	w.sim.Restore(worker, 904, true)
	w.sim.Restore(w.sim.Backup(w.vm(t, baked).ID), 905, false)
	half := fmt.Sprintf("Unfinished: this VM %d is being made for homelab-one-gpu.", w.vm(t, "gpu1").ID)
	running := map[string]string{"memory": "1024", "tags": "homelab-one-gpu", "description": half}
	w.sim.AddVM(pvesim.VM{ID: 906, Node: "pve1", Name: "half-a-copy", Running: true, Config: running})
	tagged := map[string]string{"memory": "1024", "tags": "homelab-one-gpu;mine"}
	w.sim.AddVM(pvesim.VM{ID: 907, Node: "pve1", Name: "tagged-by-hand", Running: true, Config: tagged})
	time.Sleep(time.Minute)
}

// Proxmox copies tags. What somebody has made of our machines is told from them, named,
// and touched by nothing; and nothing of ours stops for it.
func TestCopiesAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		defer w.close()
		text := lab(example(t, "one-gpu"))
		spec := parse(t, text)
		w.up(t, spec)
		w.copyAll(t)
		w.switchOn(t, 902)
		strangers := w.strangers(900)
		require.Len(t, strangers, 8)
		seed := strings.Split(w.vm(t, "gpu1").Config["ide2"], ",")[0]
		require.Contains(t, seed, "_gpu1_")

		warnings, errs := w.doubts(t, spec)
		assert.Empty(t, errs)
		for id := 900; id < 908; id++ {
			assert.Contains(t, warnings, fmt.Sprintf("VM %d (", id))
		}
		assert.Contains(t, warnings, "is a copy: a clone, or a backup restored to another VMID")
		assert.Contains(t, warnings, "qm set 907 --tags mine")
		assert.Contains(t, warnings, "qm set 900 --delete hostpci0")
		assert.Empty(t, w.plan(t, spec))
		before := w.now()
		w.up(t, spec)
		assert.Equal(t, changes{}, before.changes())
		assert.Equal(t, strangers, w.strangers(900))

		// A change goes to the one that is ours, and no copy is counted as its double.
		changed := parse(t, replace(t, text, "gpus: 1", "gpus: 1, description: changed"))
		w.up(t, changed)
		assert.Contains(t, w.vm(t, "gpu1").Config["description"], "changed")
		assert.Equal(t, strangers, w.strangers(900))
		require.ErrorContains(t, w.verb(t, changed, replaced(t.Context(), "gpu1", true)), "are all called gpu1 and do not belong to the cluster")
		assert.Equal(t, strangers, w.strangers(900))
		assert.Empty(t, w.plan(t, changed))

		w.down(t, changed)
		assert.Equal(t, strangers, w.strangers(900))
		assert.Equal(t, []int{900, 901, 902, 903, 904, 905, 906, 907}, w.ids(), "the cluster itself is gone")
		assert.NotNil(t, w.sim.ReadVolume("pve1", seed), "the copies would not start without")
		w.switchOn(t, 903)
		assert.Empty(t, w.templates(t, spec))
	})
}

// A template on which somebody else's disks hang stays when the cluster goes.
func TestATemplateThatOthersHangOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		defer w.close()
		spec := parse(t, lab(example(t, "one-gpu")))
		w.up(t, spec)
		baked := slices.DeleteFunc(w.sim.VMs(), func(vm pvesim.VMState) bool { return !strings.HasPrefix(vm.Name, "one-gpu-template-") })[0]
		user, token := w.sim.Token()
		require.Equal(t, 200, request(t, w.sim.Client(), "POST", fmt.Sprintf("/nodes/pve1/qemu/%d/clone", baked.ID), user+"="+token, `{"newid":900}`))
		w.sim.Settle()
		strangers := w.strangers(900)
		w.down(t, spec)
		assert.Equal(t, strangers, w.strangers(900))
		assert.Contains(t, w.output.String(), "stays: disks of VM 900, which this cluster does not own, are linked clones of it")
		w.wipe(t, 900)
		w.down(t, spec)
		assert.NotContains(t, w.ids(), baked.ID)
	})
}

// Where a copy has the name of a machine that is gone, that machine alone is not made; it
// is said how the copy becomes it.
func TestACopyInTheMachinesPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		defer w.close()
		text := lab(example(t, "one-gpu"))
		spec := parse(t, text)
		w.up(t, spec)
		w.byHand(t, spec, "gpu1", "stop")
		backup := w.sim.Backup(w.vm(t, "gpu1").ID)
		w.wipe(t, w.vm(t, "gpu1").ID)
		w.sim.Restore(backup, 901, false)
		time.Sleep(time.Minute)
		strangers := w.strangers(900)
		require.Len(t, strangers, 1)

		_, errs := w.doubts(t, spec)
		assert.Contains(t, errs["vm/gpu1"], "VM 901 on pve1 is called gpu1, but is marked as VM")
		assert.Contains(t, errs["vm/gpu1"], "write adopt: true for gpu1 in the file")
		assert.Len(t, errs, 1)
		c := w.cluster(t, spec)
		report, err := c.Up().Run(t.Context(), w.listen(t))
		require.Error(t, err)
		for _, step := range report.Steps {
			assert.True(t, step.Err == nil || step.Step == "vm/gpu1", "%s: %v", step.Step, step.Err)
		}
		c.Close()
		assert.Equal(t, strangers, w.strangers(900))

		w.switchOn(t, 901)
		time.Sleep(5 * time.Minute)
		adopting := parse(t, text+"nodes: {gpu1: {adopt: true}}\n")
		w.up(t, adopting)
		assert.Empty(t, w.plan(t, adopting))
		assert.Equal(t, "homelab-one-gpu;"+w.mark(t, "homelab-one-gpu", "gpu1"), w.vm(t, "gpu1").Config["tags"])
		w.down(t, adopting)
		assert.NotContains(t, w.ids(), 901)
	})
}

// wipe destroys a VM, as a person would.
func (w *world) wipe(t testing.TB, id int) {
	t.Helper()
	user, token := w.sim.Token()
	require.Equal(t, 200, request(t, w.sim.Client(), "DELETE", fmt.Sprintf("/nodes/pve1/qemu/%d?purge=1", id), user+"="+token, ""))
	w.sim.Settle()
	time.Sleep(time.Minute)
}

// unmark makes all machines what an earlier version has left: they have the tag alone.
func (w *world) unmark(t testing.TB) {
	t.Helper()
	for _, vm := range w.sim.VMs() {
		if tags := vm.Config["tags"]; strings.Contains(tags, "homelab-") {
			kept := slices.DeleteFunc(strings.Split(tags, ";"), func(tag string) bool { return strings.Contains(tag, "_") })
			w.retag(t, vm.ID, strings.Join(kept, ";"))
			if strings.HasPrefix(vm.Config["description"], "homelab: ") {
				w.unnote(t, vm.ID)
			}
		}
	}
}

// unnote removes what a VM tells others.
func (w *world) unnote(t testing.TB, id int) {
	t.Helper()
	user, token := w.sim.Token()
	require.Equal(t, 200, request(t, w.sim.Client(), "PUT", fmt.Sprintf("/nodes/pve1/qemu/%d/config", id), user+"="+token, `{"delete":"description,ipconfig0"}`))
}

func (w *world) retag(t testing.TB, id int, tags string) {
	t.Helper()
	user, token := w.sim.Token()
	require.Equal(t, 200, request(t, w.sim.Client(), "PUT", fmt.Sprintf("/nodes/pve1/qemu/%d/config", id), user+"="+token, fmt.Sprintf(`{"tags":%q}`, tags)))
}

// What an earlier version has made has no marks. The machines of the file are known by
// the addresses of their interfaces and are marked, and the cluster lives on.
func TestMachinesOfAnEarlierVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		defer w.close()
		untouched := w.inventory()
		spec := parse(t, lab(example(t, "one-gpu")))
		w.up(t, spec)
		want := w.inventory()
		w.unmark(t)
		w.copies(t, "gpu1", "gpu1", 901) // with another address
		strangers := w.strangers(900)
		machines := w.guests()
		told := func(name, address string) string {
			mark := w.mark(t, "homelab-one-gpu", name)
			return "vm/" + name + ": last line of the notes: none → homelab: " + mark + "; tags: homelab-one-gpu → homelab-one-gpu;" + mark + "; address: none → ip=" + address + "/24"
		}
		assert.Equal(t, []string{
			told("server1", "192.168.1.61"), told("gpu1", "192.168.1.71"),
		}, w.plan(t, spec))
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
		assert.Equal(t, machines, w.guests(), "nothing was restarted")
		assert.Equal(t, strangers, w.strangers(900))
		w.wipe(t, 901)
		for _, vm := range w.sim.VMs() { // a template takes none: it is known as it is
			if vm.Template && strings.HasPrefix(vm.Name, "one-gpu-") {
				w.retag(t, vm.ID, "homelab-one-gpu;"+w.mark(t, "homelab-one-gpu", vm.Name))
			}
		}
		assert.Equal(t, want, w.inventory())

		w.unmark(t)
		w.down(t, spec)
		assert.Equal(t, untouched, w.inventory(), "without an up in between")
	})
}

// A backup of such a machine, restored beside it, has its address too: nothing tells which
// is meant, so neither is taken. One that the file does not name is never taken.
func TestRestoredMachinesOfAnEarlierVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		defer w.close()
		file := parse(t, lab(example(t, "one-gpu")))
		w.up(t, file)
		w.unmark(t)
		w.sim.Restore(w.sim.Backup(w.vm(t, "gpu1").ID), 901, false)
		w.sim.AddVM(pvesim.VM{ID: 902, Node: "pve1", Name: "wk9", Running: true, Config: map[string]string{
			"memory": "1024", "tags": "homelab-one-gpu", "net0": "virtio=" + spec.StableMAC("one-gpu", "wk9").String() + ",bridge=vmbr0"}})
		time.Sleep(time.Minute)
		warnings, errs := w.doubts(t, file)
		assert.Contains(t, errs["vm/gpu1"], "carries the tag homelab-one-gpu without a mark of its own")
		assert.Contains(t, warnings, "VM 902 (wk9) on pve1 has the tag homelab-one-gpu but is not a machine of this cluster")
		strangers := w.strangers(900)
		c := w.cluster(t, file)
		report, err := c.Up().Run(t.Context(), w.listen(t))
		require.Error(t, err)
		step, _ := report.Of("vm/server1")
		assert.Equal(t, converge.Changed, step.Kind)
		c.Close()
		assert.Equal(t, strangers, w.strangers(900))

		worker := w.vm(t, "gpu1").ID
		w.retag(t, 901, "looked-at")
		user, token := w.sim.Token()
		require.Equal(t, 200, request(t, w.sim.Client(), "PUT", "/nodes/pve1/qemu/901/config", user+"="+token, `{"delete":"hostpci0"}`))
		w.up(t, file)
		assert.Contains(t, w.vm(t, "gpu1").Config["tags"], fmt.Sprintf("homelab-one-gpu_%d_", worker))
		strangers = w.strangers(900)
		w.down(t, file)
		assert.Equal(t, strangers, w.strangers(900))
	})
}
