package cluster_test

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distro"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// withVM is a cluster beside which a VM of another distribution runs.
func withVM() string {
	return `
name: vms
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
defaults: {tags: [nodes]}
guest: {packages: [htop], timezone: Europe/Vienna}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
vms:
  box:
    image: {url: ` + distro.ByName("debian-13").Image + `, sha512: ` + distro.ByName("debian-13").SHA512 + `}
    address: 10.0.0.40
    memory: 2GiB
    disks: {os: {size: 10GiB}, data: {size: 20GiB}}
`
}

// A VM of the file that is not a node goes the way of a node's machine, without Kubernetes.
func TestLifeOfAVM(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		untouched := w.inventory()
		text := withVM()
		spec := parse(t, text)
		assert.Subset(t, changedSteps(w.up(t, spec)), []string{"seed/box", "vm/box", "guest/box"})
		assert.NotContains(t, w.nodes(t), "box")
		config := w.vm(t, "box").Config
		assert.Contains(t, config["scsi1"], "serial=data")
		assert.Contains(t, config["tags"], "no-node")
		assert.NotContains(t, config["tags"], "nodes", "defaults are of nodes")
		box := w.guests()["box"]
		system, err := box.Disk().ReadFile("/etc/os-release")
		require.NoError(t, err)
		assert.Contains(t, string(system), "trixie", "it has an image of its own")

		before := w.now()
		assert.Empty(t, changedSteps(w.up(t, spec)))
		assert.Empty(t, w.plan(t, spec))
		assert.Equal(t, changes{}, before.changes())

		// Disks grow while it runs, and that costs nothing.
		text = strings.NewReplacer("size: 20GiB", "size: 30GiB", "size: 10GiB", "size: 12GiB").Replace(text)
		spec = parse(t, text)
		assert.Empty(t, w.costsOf(t, spec))
		before = w.now()
		w.up(t, spec)
		assert.Empty(t, before.changes().Restarted)
		assert.Empty(t, w.plan(t, spec))
		assert.Same(t, box, w.guests()["box"])

		// A restart is asked for, and drains nobody.
		text = replace(t, text, "memory: 2GiB", "memory: 4GiB")
		spec = parse(t, text)
		costs := w.costsOf(t, spec)
		require.Len(t, costs, 1)
		assert.Equal(t, converge.CostStop, costs[0].Kind)
		assert.Equal(t, "box: other memory", costs[0].Machine+": "+costs[0].Reason)
		before = w.now()
		w.up(t, spec)
		assert.Equal(t, []string{"box"}, before.changes().Restarted)
		assert.Empty(t, before.changes().Kubernetes)
		assert.Empty(t, w.plan(t, spec))

		// Another image is another machine, and nothing of this one is destroyed for that.
		ubuntu := distro.ByName("ubuntu-24.04")
		other := replace(t, text, distro.ByName("debian-13").Image+", sha512: "+distro.ByName("debian-13").SHA512, ubuntu.Image+", sha256: "+ubuntu.SHA256)
		_, err = w.cluster(t, parse(t, other)).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "remove it from the file, run homelab cluster:up, write it again")
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))

		w.down(t, spec)
		assert.Equal(t, untouched, w.inventory())
	})
}

// A VM that is removed from the file goes with its disks, which is asked for, also while no server answers.
func TestVMRemovedFromTheFile(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		without := parse(t, strings.Split(withVM(), "vms:\n")[0])
		w.up(t, without)
		alone := w.inventory()
		w.up(t, parse(t, withVM()))
		w.stop(t, "cp1")
		costs := w.costsOf(t, without)
		require.Len(t, costs, 1)
		assert.Equal(t, converge.CostDestroy, costs[0].Kind)
		assert.Empty(t, costs[0].Users, "it has no pods, and nobody is asked for them")
		assert.Equal(t, "[disk os (10GiB) disk data (20GiB)]", fmt.Sprint(costs[0].Holds))
		w.up(t, without)
		assert.Equal(t, alone, w.inventory())
	})
}

// An image without a guest agent: the VM is up when it runs, and Proxmox shuts it down by ACPI.
func TestVMWithoutAnAgent(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, replace(t, withVM(), "    address: 10.0.0.40", "    agent: false\n    address: 10.0.0.40"))
		assert.NotContains(t, changedSteps(w.up(t, spec)), "guest/box")
		assert.Equal(t, "0", w.vm(t, "box").Config["agent"])
		assert.Empty(t, w.plan(t, spec))
	})
}

// The ledger has the cards of VMs too: one card is not given to a node and to a VM, and moves from one to the other.
func TestCardsBetweenNodesAndVMs(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		text := replace(t, withVM(), "vms:\n", "  wk: {count: 1, addresses: [10.0.0.21], GPUS}\nvms:\n")
		file := func(node, vm int) string {
			return replace(t, replace(t, text, "GPUS", fmt.Sprintf("gpus: %d, memory: 4GiB", node)), "    memory: 2GiB\n", fmt.Sprintf("    memory: 2GiB\n    gpus: %d\n", vm))
		}
		_, err := w.cluster(t, parse(t, file(1, 1))).Up().Run(t.Context(), w.listen(t))
		require.Error(t, err)
		assert.Contains(t, err.Error(), "box")
		assert.Empty(t, w.names(), "nothing is made for a card that two want")

		w.up(t, parse(t, file(1, 0)))
		for _, spec := range []struct {
			node, vm    int
			had, holder string
		}{{0, 1, "wk1", "box"}, {1, 0, "box", "wk1"}} {
			to := parse(t, file(spec.node, spec.vm))
			var stopped []string
			for _, c := range w.costsOf(t, to) {
				assert.Equal(t, converge.CostStop, c.Kind)
				stopped = append(stopped, c.Machine)
			}
			assert.Contains(t, stopped, spec.had)
			w.up(t, to)
			assert.Empty(t, w.plan(t, to))
			for _, name := range []string{"box", "wk1"} {
				assert.Equal(t, name == spec.holder, w.vm(t, name).Config["hostpci0"] != "", "%s has the card", name)
			}
		}
	})
}

// A run that dies while a VM is made is finished by the next.
func TestCrashWhileAVMIsMade(t *testing.T) {
	spec := parse(t, withVM())
	want, requests := smooth(t, pvesim.OneGPU(), spec)
	mine := share.Start(t, "deaths while a VM is made")
	box := "/qemu/0/" // its VMID, from its creation on
	for i, r := range requests {
		switch {
		case r.Params.Get("name") == "box":
			box = "/qemu/" + r.Params.Get("vmid") + "/"
		case strings.Contains(r.Params.Get("filename"), "_image_"), strings.Contains(r.Params.Get("filename"), "_box_"):
		case !r.Mutating || !strings.Contains(r.Path, box):
			continue
		}
		for _, before := range []bool{true, false} {
			if !mine.Next() {
				continue
			}
			t.Run(fmt.Sprintf("%d %s before=%t", i+1, path.Base(r.Path), before), func(t *testing.T) {
				crashes(t, pvesim.OneGPU(), spec, i+1, before, time.Duration(i%2)*time.Minute, want)
			})
		}
	}
}

// A VM that is a clone of a template that somebody else made has the template's system and disk, and goes the way of
// other VMs. The template is not touched, and not needed any more when the VM is there.
func TestVMFromATemplateOfOnesOwn(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		id := w.theirs(t, "pve1", "mine", true)
		untouched := w.inventory()
		clone := func(template, more string) *spec.Spec {
			before, _, _ := strings.Cut(withVM(), "    image:")
			return parse(t, before+"    template: "+template+"\n    address: 10.0.0.40\n"+more)
		}
		_, err := w.cluster(t, clone("none", "")).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "vms.box.template: there is no VM none, or the token may not see it (VM.Audit); templates are "+fmt.Sprint(id)+` "mine" on pve1`)
		assert.Equal(t, untouched, w.inventory(), "and nothing is made")

		want := clone("mine", "")
		w.up(t, want)
		config := w.vm(t, "box").Config
		assert.Equal(t, "3584M", regexp.MustCompile(`size=(\w+)`).FindStringSubmatch(config["scsi0"])[1], "the disk is the template's")
		assert.Contains(t, config["tags"], "no-node")
		assert.Empty(t, w.plan(t, want))
		w.up(t, clone("mine", "    disks: {os: {size: 10GiB}}\n"))
		assert.Contains(t, w.vm(t, "box").Config["scsi0"], "size=10G")

		_, err = w.cluster(t, parse(t, withVM())).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "remove it from the file, run homelab cluster:up, write it again", "an image is another machine")
		w.down(t, want)
		assert.Equal(t, untouched, w.inventory())
	})
}
