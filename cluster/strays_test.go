package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	found, _ := c.HostWarnings()
	for _, f := range found {
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
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
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
		require.ErrorContains(t, w.verb(t, changed, replacements(t.Context(), "gpu1", true)), "are all called gpu1 and do not belong to the cluster")
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
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
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
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
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
		// Its node joined as the machine that it is a copy of, and cannot be given another ID; cluster:doctor says so.
		w.knownAs = map[string]string{"gpu1": "proxmox://one-gpu/102"}
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

// A copy of an NFS server cannot be had back by naming it in the file, and nothing says so.
func TestACopyThatKeepsDataIsNotTakenBack(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		file := parse(t, withServer+"charts: {folder: "+charts(t)+", offline: true}\n")
		w.up(t, file)
		for id, tags := range map[int]string{902: "homelab-files;keeps-data;homelab-files_104_0a0b0c0d", 903: "homelab-files;keeps-data"} {
			w.sim.AddVM(pvesim.VM{ID: id, Node: "pve1", Name: fmt.Sprint("b", id), Config: map[string]string{"memory": "1024", "tags": tags}})
		}
		time.Sleep(time.Minute)
		warnings, _ := w.doubts(t, file)
		for _, id := range []int{902, 903} {
			assert.Contains(t, warnings, fmt.Sprintf("as root on pve1: qm set %d --tags keeps-data", id))
		}
		assert.Equal(t, 2, strings.Count(warnings, "it is a copy of an NFS server, which homelab does not use"))
	})
}
