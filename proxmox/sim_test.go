package proxmox_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/internal/iso9660"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pvesim"
	"github.com/cps-gpu/homelab/proxmox/pvesim/guest"
	"github.com/cps-gpu/homelab/secret"
)

const (
	owner    = "homelab-a100"
	imageURL = "https://cloud-images.ubuntu.com/noble/current/noble-server-cloudimg-amd64.img"
)

// bubble runs a test against a simulated host in virtual time.
func bubble(t *testing.T, m pvesim.Model, o pvesim.Options, test func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sim := pvesim.New(m, o)
		defer sim.Close()
		test(t, sim, dialSim(t, sim))
	})
}

func dialSim(t testing.TB, sim *pvesim.Sim) *proxmox.Client {
	id, value := sim.Token()
	c, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: sim.Client()})
	require.NoError(t, err)
	return c
}

// template fetches the image and makes a template that is never booted.
func template(t testing.TB, c *proxmox.Client) {
	ctx := t.Context()
	image, err := guest.DefaultInternet()(imageURL)
	require.NoError(t, err)
	id, err := c.FetchImage(ctx, "pve1", "local", proxmox.Image{URL: imageURL, SHA256: fmt.Sprintf("%x", sha256.Sum256(image)), FileName: "a100-noble.qcow2"})
	require.NoError(t, err)
	require.Equal(t, "local:import/a100-noble.qcow2", id)
	vm, err := c.CreateVM(ctx, proxmox.CreateSpec{
		Name: "a100-template", Host: "pve1", Owner: owner, Image: id, Storage: "vmdata", DiskSize: 16 * proxmox.GiB,
		Cores: 2, Memory: 4 * proxmox.GiB, NICs: []proxmox.NIC{{Bridge: "vmbr0"}}, Seed: seed(t, c, "bake"),
	})
	require.NoError(t, err)
	require.NoError(t, c.Convert(ctx, vm))
}

// seed uploads a NoCloud ISO that installs the guest agent.
func seed(t testing.TB, c *proxmox.Client, name string) string {
	iso, err := iso9660.Build("cidata", map[string][]byte{
		"meta-data": []byte("instance-id: " + name + "\nlocal-hostname: " + name + "\n"),
		"user-data": []byte("#cloud-config\npackages: [qemu-guest-agent]\nruncmd:\n- [systemctl, start, qemu-guest-agent]\n"),
	})
	require.NoError(t, err)
	id, err := c.Upload(t.Context(), "pve1", "local", "a100-"+name+".iso", iso)
	require.NoError(t, err)
	return id
}

func node(t testing.TB, c *proxmox.Client, name string) proxmox.VMSpec {
	return proxmox.VMSpec{
		Name: name, Host: "pve1", Owner: owner, Template: "a100-template", Cores: 4, Memory: 16 * proxmox.GiB, OnBoot: true, Running: true,
		Description: "control plane", Seed: seed(t, c, name),
		NICs:  []proxmox.NIC{{Bridge: "vmbr0", MAC: "BC:24:11:00:00:" + fmt.Sprintf("%02X", len(name)+int(name[len(name)-1])), Queues: 4}},
		Disks: []proxmox.Disk{{Slot: "scsi0", Size: 100 * proxmox.GiB, SSD: true, Discard: true, IOThread: true}},
	}
}

// ensure does what the engine does: look, compare, act, look again.
func ensure(ctx context.Context, c *proxmox.Client, spec proxmox.VMSpec) error {
	vm, err := c.VM(ctx, spec.Owner, spec.Name)
	if err != nil {
		return err
	}
	if spec.Diff(vm).Empty() {
		return nil
	}
	if err := c.Shape(ctx, spec, vm); err != nil {
		return err
	}
	if vm, err = c.VM(ctx, spec.Owner, spec.Name); err != nil {
		return err
	}
	if d := spec.Diff(vm); !d.Empty() {
		return fmt.Errorf("still differs: %s", d)
	}
	return nil
}

func mutations(sim *pvesim.Sim, since int) (out []string) {
	for _, r := range sim.Requests()[since:] {
		if r.Mutating {
			out = append(out, r.Method+" "+r.Path)
		}
	}
	return out
}

func TestShapeIsFourRequests(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{StatusLag: 10 * time.Second}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		spec := node(t, c, "cp1")
		before := len(sim.Requests())
		require.NoError(t, ensure(t.Context(), c, spec))
		did := mutations(sim, before)
		require.Len(t, did, 4, did)
		for i, suffix := range []string{"/clone", "/config", "/resize", "/status/start"} {
			assert.True(t, strings.HasSuffix(did[i], suffix), did[i])
		}
		before = len(sim.Requests())
		time.Sleep(time.Minute)
		require.NoError(t, ensure(t.Context(), c, spec))
		assert.Len(t, sim.Requests()[before:], 2, "one look at all VMs, one at this")
	})
}

func TestChangeOfMemoryRestarts(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		spec := node(t, c, "cp1")
		require.NoError(t, ensure(t.Context(), c, spec))
		time.Sleep(2 * time.Minute)
		spec.Memory = 8 * proxmox.GiB
		vm, err := c.VM(t.Context(), owner, "cp1")
		require.NoError(t, err)
		assert.Equal(t, "memory: 16GiB → 8GiB (needs a restart)", spec.Diff(vm).String())
		before := len(sim.Requests())
		require.NoError(t, ensure(t.Context(), c, spec))
		did := mutations(sim, before)
		require.Len(t, did, 3, did)
		for i, suffix := range []string{"/config", "/status/shutdown", "/status/start"} {
			assert.True(t, strings.HasSuffix(did[i], suffix), did[i])
		}
	})
}

// A configuration that was set but is not in effect is seen, whoever set it.
func TestPendingIsSeen(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		spec := node(t, c, "cp1")
		require.NoError(t, ensure(t.Context(), c, spec))
		time.Sleep(time.Minute)
		spec.Memory = 8 * proxmox.GiB
		fault := sim.Fail(pvesim.Rule{Method: "POST", Path: ".*/status/shutdown", Status: 500, Message: "stopped here"})
		require.ErrorContains(t, ensure(t.Context(), c, spec), "stopped here")
		fault.Remove()
		vm, err := c.VM(t.Context(), owner, "cp1")
		require.NoError(t, err)
		assert.Equal(t, drift.Restart, spec.Diff(vm).Effect())
		require.NoError(t, ensure(t.Context(), c, spec))
	})
}

func TestGPUWorker(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		ctx := t.Context()
		template(t, c)
		gpus, err := c.GPUs(ctx, "pve1")
		require.NoError(t, err)
		require.Len(t, gpus, 8)
		assert.Equal(t, "0000:01:00.0", gpus[0].Address.String())
		assert.Equal(t, "A100 PCIe 40GB", gpus[0].Model)
		assert.Empty(t, gpus[0].Problem())
		mapping := proxmox.MapGPUs("a100-wk-gpu1", "cards of wk-gpu1", "pve1", gpus[:2]...)
		require.NoError(t, c.EnsureMapping(ctx, mapping))
		have, err := c.Mapping(ctx, mapping.ID, "pve1")
		require.NoError(t, err)
		assert.Empty(t, mapping.Diff(have))
		before := len(sim.Requests())
		require.NoError(t, c.EnsureMapping(ctx, mapping))
		assert.Empty(t, mutations(sim, before))

		spec := node(t, c, "wk-gpu1")
		spec.Memory = 128 * proxmox.GiB
		spec.GPUs = []proxmox.HostPCI{{Mapping: mapping.ID, PCIe: true}, {Mapping: mapping.ID, PCIe: true}}
		spec.Disks = append(spec.Disks, proxmox.Disk{Slot: "scsi1", Storage: "vmdata", Size: proxmox.TiB, Serial: "scratch", Discard: true})
		require.NoError(t, ensure(ctx, c, spec))
		uses, err := c.PCIUses(ctx, "pve1")
		require.NoError(t, err)
		require.Len(t, uses, 1)
		assert.Len(t, uses[0].Addresses, 2)

		// A second VM on the same cards is refused at start, with the reason.
		other := node(t, c, "wk-gpu2")
		other.GPUs = spec.GPUs[:1]
		err = ensure(ctx, c, other)
		require.ErrorContains(t, err, "could not find a free device")
		assert.ErrorContains(t, err, "every card of the mapping is in use by another VM")
	})
}

func TestStaleMappingIsRewritten(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, _ *pvesim.Sim, c *proxmox.Client) {
		gpus, err := c.GPUs(t.Context(), "pve1")
		require.NoError(t, err)
		good := proxmox.MapGPUs("gpu0", "", "pve1", gpus[0])
		stale := good
		stale.Devices = []proxmox.MappedDevice{good.Devices[0]}
		stale.Devices[0].Subsystem, stale.Devices[0].IOMMUGroup = "", 99
		require.ErrorContains(t, c.EnsureMapping(t.Context(), stale), "does not fit the hardware of pve1")
		require.NoError(t, c.EnsureMapping(t.Context(), good))
		require.NoError(t, c.DeleteMapping(t.Context(), "gpu0"))
		require.NoError(t, c.DeleteMapping(t.Context(), "gpu0"))
	})
}

func TestRemoveLeavesNothing(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		ctx := t.Context()
		template(t, c)
		spec := node(t, c, "cp1")
		require.NoError(t, ensure(ctx, c, spec))
		tmpl, err := c.Template(ctx, owner, "a100-template")
		require.NoError(t, err)
		used, err := c.HasClones(ctx, &proxmox.Summary{VMID: tmpl.VMID, Host: tmpl.Host})
		require.NoError(t, err)
		assert.True(t, used)
		vm, err := c.VM(ctx, owner, "cp1")
		require.NoError(t, err)
		require.NoError(t, c.Remove(ctx, vm))
		require.NoError(t, c.Remove(ctx, vm), "again")
		require.NoError(t, c.DeleteVolume(ctx, "pve1", spec.Seed))
		gone, err := c.VM(ctx, owner, "cp1")
		require.NoError(t, err)
		assert.Nil(t, gone)
		all, err := c.Volumes(ctx, "pve1", "vmdata", "images")
		require.NoError(t, err)
		for _, v := range all {
			assert.NotEqual(t, vm.VMID, v.VMID, v.ID)
		}
		require.NoError(t, c.Remove(ctx, tmpl))
		left, err := c.VMs(ctx, owner)
		require.NoError(t, err)
		assert.Empty(t, left)
	})
}

// A VM of our name without our tag is neither taken, changed nor removed.
func TestForeignVMIsLeftAlone(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		ctx := t.Context()
		template(t, c)
		vm, err := c.VM(ctx, owner, "nas")
		require.NoError(t, err)
		assert.Nil(t, vm)
		spec := node(t, c, "nas")
		before := len(sim.Requests())
		err = ensure(ctx, c, spec)
		var conflict *proxmox.ConflictError
		require.ErrorAs(t, err, &conflict)
		assert.Equal(t, 100, conflict.VMID)
		assert.Empty(t, mutations(sim, before))
		require.ErrorContains(t, c.Remove(ctx, &proxmox.VM{Name: "nas", Host: "pve1", VMID: 100, Owner: owner}), "not removed")
		assert.Empty(t, mutations(sim, before))
	})
}

// Every request of making a VM is lost once, before and after its work was done.
func TestLostAnswers(t *testing.T) {
	for _, after := range []bool{false, true} {
		for _, path := range []string{".*/clone", ".*/config", ".*/resize", ".*/status/start"} {
			for _, rule := range []pvesim.Rule{{Drop: true}, {Status: 596, Message: "Connection timed out"}} {
				t.Run(fmt.Sprintf("%s after=%t status=%d", path, after, rule.Status), func(t *testing.T) {
					bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
						template(t, c)
						rule.Path, rule.After, rule.Mutating = path, after, true
						spec := node(t, c, "cp1")
						fault := sim.Fail(rule)
						require.NoError(t, ensure(t.Context(), c, spec))
						require.Equal(t, 1, fault.Hits())
						all, err := c.VMs(t.Context(), owner)
						require.NoError(t, err)
						assert.Len(t, all, 2, "the template and one VM, not two")
					})
				})
			}
		}
	}
}

// Transient failures of tasks and of requests are tried again.
func TestTransientFailures(t *testing.T) {
	for name, rule := range map[string]pvesim.Rule{
		"clone task":  {Path: ".*/clone", TaskError: "clone failed: can't lock file '/var/lock/pve-manager/pve-storage-vmdata' - got timeout"},
		"config":      {Path: ".*/config", Status: 500, Message: "can't lock file '/var/lock/qemu-server/lock-101.conf' - got timeout"},
		"config task": {Path: ".*/config", TaskError: "can't lock file '/var/lock/qemu-server/lock-101.conf' - got timeout"},
		"worker":      {Path: ".*/status/start", Status: 500, Message: "got no worker upid - start worker failed"},
		"start task":  {Path: ".*/status/start", TaskError: "can't lock file '/var/lock/qemu-server/lock-101.conf' - got timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
				template(t, c)
				spec := node(t, c, "cp1")
				rule.Mutating, rule.Times = true, 2
				fault := sim.Fail(rule)
				require.NoError(t, ensure(t.Context(), c, spec))
				assert.Equal(t, 2, fault.Hits())
			})
		})
	}
}

func TestTaskEnds(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		sim.Fail(pvesim.Rule{Path: ".*/status/start", TaskWarnings: 2})
		spec := node(t, c, "cp1")
		require.NoError(t, ensure(t.Context(), c, spec), "warnings are a success")

		vm, err := c.VM(t.Context(), owner, "cp1")
		require.NoError(t, err)
		sim.Fail(pvesim.Rule{Path: ".*/status/stop", TaskError: "the host is on fire"})
		err = c.Stop(t.Context(), vm)
		var task *proxmox.TaskError
		require.ErrorAs(t, err, &task, "a task that fails, fails under HTTP 200")
		assert.Equal(t, "qmstop", task.UPID.Type)
		assert.Equal(t, "the host is on fire", task.Exit)
		assert.NotEmpty(t, task.Log)
	})
}

// A task of seventeen minutes is waited for, with about one look a second.
func TestLongTask(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		sim.Fail(pvesim.Rule{Path: ".*/download-url", TaskDelay: 17 * time.Minute})
		begun := time.Now()
		template(t, c)
		assert.GreaterOrEqual(t, time.Since(begun), 17*time.Minute)
		assert.Less(t, len(sim.Requests()), 1300)
	})
}

// Seven at once: one look at the tasks for all, no VMID twice.
func TestSevenAtOnce(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		specs := make([]proxmox.VMSpec, 7)
		for i := range specs {
			specs[i] = node(t, c, fmt.Sprintf("cp%d", i))
		}
		before, begun := len(sim.Requests()), time.Now()
		errs := make([]error, len(specs))
		var all sync.WaitGroup
		for i := range specs {
			all.Go(func() { errs[i] = ensure(t.Context(), c, specs[i]) })
		}
		all.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		assert.Len(t, mutations(sim, before), 4*7)
		polls, singles := 0, 0
		for _, r := range sim.Requests()[before:] {
			if strings.HasSuffix(r.Path, "/tasks") {
				polls++
			}
			if strings.Contains(r.Path, "/tasks/") {
				singles++
			}
		}
		t.Logf("%d requests, %d of them looks at tasks, %s", len(sim.Requests())-before, polls, time.Since(begun))
		assert.Zero(t, singles)
		assert.Less(t, polls, 120)
	})
}

func TestVMIDTakenByAnother(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		spec := node(t, c, "cp1")
		sim.Fail(pvesim.Rule{Path: ".*/clone", TaskError: "unable to create VM 102: config file already exists"})
		sim.Fail(pvesim.Rule{Path: ".*/clone", Status: 500, Message: "unable to create VM 103: config file already exists"})
		require.NoError(t, ensure(t.Context(), c, spec))
		all, err := c.VMs(t.Context(), owner)
		require.NoError(t, err)
		assert.Len(t, all, 2)
	})
}

func TestPermissionInsideATask(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		sim.Fail(pvesim.Rule{Method: http.MethodPut, Path: ".*/resize", TaskError: "403 Permission check failed (/vms/102, VM.Config.Disk)"})
		err := ensure(t.Context(), c, node(t, c, "cp1"))
		var task *proxmox.TaskError
		require.ErrorAs(t, err, &task)
		assert.True(t, task.IsPermission())
		assert.ErrorContains(t, err, "--privs VM.Config.Disk")
	})
}

func TestMissingStorage(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, _ *pvesim.Sim, c *proxmox.Client) {
		_, err := c.Upload(t.Context(), "pve1", "nope", "x.iso", []byte("x"))
		assert.ErrorContains(t, err, "pve1 has no storage nope, or the token may not see it (Datastore.Audit)")
		_, err = c.Upload(t.Context(), "pve1", "vmdata", "x.iso", []byte("x"))
		assert.ErrorContains(t, err, "storage vmdata does not take iso; let it: pvesm set vmdata --content")
	})
}

func BenchmarkVMs(b *testing.B) {
	m := pvesim.EightA100()
	for i := range 1000 {
		m.VMs = append(m.VMs, pvesim.VM{ID: 1000 + i, Node: "pve1", Name: fmt.Sprintf("n%d", i), Config: map[string]string{"tags": owner, "memory": "2048"}})
	}
	sim := pvesim.New(m, pvesim.Options{})
	defer sim.Close()
	for b.Loop() {
		c := dialSim(b, sim)
		all, err := c.VMs(b.Context(), owner)
		require.NoError(b, err)
		require.Len(b, all, 1000)
		for _, vm := range all[:100] {
			_, err := c.VM(b.Context(), owner, vm.Name)
			require.NoError(b, err)
		}
	}
}
