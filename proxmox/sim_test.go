package proxmox_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/iso9660"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
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
	ctx, id := t.Context(), fetch(t, c, "pve1")
	vm, err := c.VMs.Create(ctx, proxmox.CreateSpec{
		Name: "a100-template", Host: "pve1", Owner: owner, Image: id, Storage: "vmdata", DiskSize: 16 * proxmox.GiB,
		Cores: 2, Memory: 4 * proxmox.GiB, NICs: []proxmox.NIC{{Bridge: "vmbr0"}}, Seed: seed(t, c, "bake"),
	})
	require.NoError(t, err)
	require.NoError(t, c.Templates.Convert(ctx, vm))
}

func fetch(t testing.TB, c *proxmox.Client, host string) string {
	image, err := guest.DefaultInternet()(imageURL)
	require.NoError(t, err)
	id, err := c.Storages.Fetch(t.Context(), host, "local", proxmox.Image{URL: imageURL, SHA256: guest.SHA256(image), FileName: "a100-noble.qcow2"})
	require.NoError(t, err)
	require.Equal(t, "local:import/a100-noble.qcow2", id)
	return id
}

// seed uploads a NoCloud ISO that installs the guest agent.
func seed(t testing.TB, c *proxmox.Client, name string) string {
	iso, err := iso9660.Build("cidata", map[string][]byte{
		"meta-data": []byte("instance-id: " + name + "\nlocal-hostname: " + name + "\n"),
		"user-data": []byte("#cloud-config\npackages: [qemu-guest-agent]\nruncmd:\n- [systemctl, start, qemu-guest-agent]\n"),
	})
	require.NoError(t, err)
	id, err := c.Storages.Upload(t.Context(), "pve1", "local", "a100-"+name+".iso", iso)
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

// ensure is EnsureVM for those that do not ask for the VM.
func ensure(ctx context.Context, c *proxmox.Client, spec proxmox.VMSpec) error {
	_, err := c.VMs.Ensure(ctx, spec)
	return err
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
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
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
		assert.Len(t, sim.Requests()[before:], 3, "one look at all VMs, one at which of the host's run, one at this")
	})
}

func TestChangeOfMemoryRestarts(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		spec := node(t, c, "cp1")
		require.NoError(t, ensure(t.Context(), c, spec))
		time.Sleep(2 * time.Minute)
		spec.Memory = 8 * proxmox.GiB
		vm, err := c.VMs.Get(t.Context(), owner, "cp1")
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

// A configuration that was set but is not in effect is seen, no matter who set it.
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
		vm, err := c.VMs.Get(t.Context(), owner, "cp1")
		require.NoError(t, err)
		assert.Equal(t, converge.Restart, spec.Diff(vm).Effect())
		require.NoError(t, ensure(t.Context(), c, spec))
	})
}

func TestGPUWorker(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		ctx := t.Context()
		template(t, c)
		gpus, err := c.PCI.GPUs(ctx, "pve1")
		require.NoError(t, err)
		require.Len(t, gpus, 8)
		assert.Equal(t, "0000:01:00.0", gpus[0].Address.String())
		assert.Equal(t, "A100 PCIe 40GB", gpus[0].Model)
		assert.Empty(t, gpus[0].Problem())
		mapping := pci.MapGPUs("a100-wk-gpu1", "cards of wk-gpu1", "pve1", gpus[:2]...)
		require.NoError(t, c.PCI.EnsureMapping(ctx, mapping))
		have, err := c.PCI.Mapping(ctx, mapping.ID, "pve1")
		require.NoError(t, err)
		assert.Empty(t, mapping.Diff(have))
		before := len(sim.Requests())
		require.NoError(t, c.PCI.EnsureMapping(ctx, mapping))
		assert.Empty(t, mutations(sim, before))

		spec := node(t, c, "wk-gpu1")
		spec.Memory = 128 * proxmox.GiB
		spec.GPUs = []proxmox.HostPCI{{Mapping: mapping.ID, PCIe: true}, {Mapping: mapping.ID, PCIe: true}}
		spec.Disks = append(spec.Disks, proxmox.Disk{Slot: "scsi1", Storage: "vmdata", Size: proxmox.TiB, Serial: "scratch", Discard: true})
		require.NoError(t, ensure(ctx, c, spec))
		ledger, err := c.PCI.Ledger(ctx, "pve1")
		require.NoError(t, err)
		require.Len(t, ledger.Claims, 2)
		assert.Len(t, ledger.Claims[0].Choices, 2)
		assert.Empty(t, ledger.Conflicts())

		// A second VM on the same cards is refused at start, with the reason.
		other := node(t, c, "wk-gpu2")
		other.GPUs = spec.GPUs[:1]
		err = ensure(ctx, c, other)
		require.ErrorContains(t, err, "could not find a free device")
		assert.ErrorContains(t, err, "every card of the mapping is in use by another VM")
	})
}

func TestAttachGPU(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		ctx := t.Context()
		template(t, c)
		require.NoError(t, ensure(ctx, c, node(t, c, "cp1")))
		vm, err := c.VMs.Get(ctx, owner, "cp1")
		require.NoError(t, err)
		device := proxmox.HostPCI{Mapping: "gpu0", PCIe: true}
		require.ErrorContains(t, proxmox.AttachGPU(ctx, vm, device), "mapping gpu0 does not exist")
		gpus, err := c.PCI.GPUs(ctx, "pve1")
		require.NoError(t, err)
		eighth, err := c.PCI.GPU(ctx, "pve1", gpus[7].Address.String())
		require.NoError(t, err)
		assert.Equal(t, gpus[7], eighth)
		_, err = c.PCI.GPU(ctx, "pve1", "7f:00")
		require.ErrorContains(t, err, "pve1 has no NVIDIA card at 0000:7f:00; it has [0000:01:00.0 ")
		require.NoError(t, c.PCI.EnsureMapping(ctx, pci.MapGPUs("gpu0", "", "pve1", eighth)))
		require.NoError(t, proxmox.AttachGPU(ctx, vm, device))
		assert.Equal(t, []proxmox.HostPCI{{Slot: "hostpci0", Mapping: "gpu0", PCIe: true}}, vm.GPUs)
		assert.NotEmpty(t, vm.Pending, "in effect after the next start")
		before := len(sim.Requests())
		require.NoError(t, proxmox.AttachGPU(ctx, vm, device))
		assert.Empty(t, mutations(sim, before))

		require.NoError(t, ensure(ctx, c, node(t, c, "cp2")))
		second, err := c.VMs.Get(ctx, owner, "cp2")
		require.NoError(t, err)
		before = len(sim.Requests())
		var claimed *proxmox.ClaimedError
		require.ErrorAs(t, proxmox.AttachGPU(ctx, second, device), &claimed, "one card for two machines")
		require.Len(t, claimed.Claims, 1)
		assert.Equal(t, vm.VMID, claimed.Claims[0].VMID)
		var used *proxmox.MappingInUseError
		require.ErrorAs(t, c.PCI.EnsureMapping(ctx, pci.MapGPUs("gpu0", "", "pve1", gpus[6:]...)), &used, "cp1 would get another card")
		assert.Equal(t, vm.VMID, used.User.VMID)
		assert.Empty(t, mutations(sim, before))
		require.NoError(t, c.PCI.RewriteMapping(ctx, pci.MapGPUs("gpu0", "", "pve1", gpus[6:]...)))
		require.NoError(t, proxmox.AttachGPU(ctx, second, device), "now there is one for each")

		win, err := c.VMs.GetByID(ctx, 100)
		require.NoError(t, err)
		require.ErrorContains(t, proxmox.AttachGPU(ctx, win, device), "PCIe wants q35")
		require.EqualError(t, proxmox.AttachGPU(ctx, &proxmox.VM{Host: "pve1", VMID: 100, Name: "nas"}, device),
			"proxmox: nas (VM 100 on pve1) was not read from a host: take one that Client.VMs.ByID or Client.VMs.Get returns")
	})
}

func TestDetachGPU(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		ctx := t.Context()
		template(t, c)
		gpus, err := c.PCI.GPUs(ctx, "pve1")
		require.NoError(t, err)
		require.NoError(t, c.PCI.EnsureMapping(ctx, pci.MapGPUs("gpu0", "", "pve1", gpus[6:]...)))
		spec := node(t, c, "cp1")
		spec.GPUs = []proxmox.HostPCI{{Mapping: "gpu0"}, {Mapping: "gpu0"}}
		require.NoError(t, ensure(ctx, c, spec))
		vm, err := c.VMs.Get(ctx, owner, "cp1")
		require.NoError(t, err)
		require.NoError(t, proxmox.DetachGPU(ctx, vm, "hostpci1"))
		assert.NotEmpty(t, vm.Pending, "in effect after the next start")
		require.NoError(t, c.VMs.Shutdown(ctx, vm))
		require.NoError(t, c.VMs.Start(ctx, vm))
		require.NoError(t, proxmox.DetachGPU(ctx, vm, "hostpci1"))
		assert.Equal(t, []proxmox.HostPCI{{Slot: "hostpci0", Mapping: "gpu0"}}, vm.GPUs)
		assert.Empty(t, vm.Pending)
		before := len(sim.Requests())
		require.NoError(t, proxmox.DetachGPU(ctx, vm, "hostpci1"), "free already")
		assert.Empty(t, mutations(sim, before))
		sim.Fail(pvesim.Rule{Method: http.MethodPost, Path: ".*/config", Status: 500, Message: "no quorum", Times: -1})
		err = proxmox.DetachGPU(ctx, vm, "hostpci0")
		require.ErrorContains(t, err, "no quorum")
		assert.ErrorContains(t, err, "detach hostpci0 from cp1")
	})
}

// Each host has a template of its own; a clone is made from that of its host.
func TestTemplateOfTheHost(t *testing.T) {
	bubble(t, pvesim.TwoHosts(), pvesim.Options{}, func(t *testing.T, _ *pvesim.Sim, c *proxmox.Client) {
		ctx := t.Context()
		for _, host := range []string{"pve2", "pve1"} {
			vm, err := c.VMs.Create(ctx, proxmox.CreateSpec{
				Name: "tmpl-" + host, Host: host, Owner: owner, Image: fetch(t, c, host), Storage: "vmdata", Cores: 2, Memory: 2 * proxmox.GiB,
			})
			require.NoError(t, err)
			require.NoError(t, c.Templates.Convert(ctx, vm))
		}
		spec := proxmox.VMSpec{Name: "wk1", Host: "pve2", Owner: owner, Template: "tmpl-pve2", Cores: 2, Memory: 4 * proxmox.GiB}
		require.NoError(t, ensure(ctx, c, spec))
		vm, err := c.VMs.Get(ctx, owner, "wk1")
		require.NoError(t, err)
		assert.Equal(t, "pve2", vm.Host)
		spec = proxmox.VMSpec{Name: "wk2", Host: "pve1", Owner: owner, Template: "tmpl-pve2", Cores: 2, Memory: 4 * proxmox.GiB}
		assert.Error(t, ensure(ctx, c, spec), "no shared storage")
	})
}

// Full copies and new disks wait for each other's lock, and all get there.
func TestHundredAtOnce(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		base := node(t, c, "n0")
		before, begun := len(sim.Requests()), time.Now()
		errs := make([]error, 100)
		var all sync.WaitGroup
		for i := range errs {
			spec := base
			spec.Name, spec.NICs, spec.Memory = fmt.Sprintf("n%d", i), []proxmox.NIC{{Bridge: "vmbr0"}}, 4*proxmox.GiB
			spec.Disks = append([]proxmox.Disk{{Slot: "scsi1", Storage: "vmdata", Size: 10 * proxmox.GiB, Serial: "data"}}, spec.Disks...)
			all.Go(func() { errs[i] = ensure(t.Context(), c, spec) })
		}
		all.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		assert.Len(t, mutations(sim, before), 400)
		t.Logf("%d requests, %s", len(sim.Requests())-before, time.Since(begun))
	})
}

func TestStaleMappingIsRewritten(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, _ *pvesim.Sim, c *proxmox.Client) {
		gpus, err := c.PCI.GPUs(t.Context(), "pve1")
		require.NoError(t, err)
		good := pci.MapGPUs("gpu0", "", "pve1", gpus[0])
		stale := good
		stale.Devices = []pci.MappedDevice{good.Devices[0]}
		stale.Devices[0].Subsystem, stale.Devices[0].IOMMUGroup = "", 99
		require.ErrorContains(t, c.PCI.EnsureMapping(t.Context(), stale), "does not fit the hardware of pve1")
		require.NoError(t, c.PCI.EnsureMapping(t.Context(), good))
		require.NoError(t, c.PCI.DeleteMapping(t.Context(), "gpu0"))
		require.NoError(t, c.PCI.DeleteMapping(t.Context(), "gpu0"))
	})
}

func TestRemoveLeavesNothing(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		ctx := t.Context()
		template(t, c)
		spec := node(t, c, "cp1")
		require.NoError(t, ensure(ctx, c, spec))
		tmpl, err := c.Templates.Get(ctx, owner, "", "a100-template")
		require.NoError(t, err)
		clones, err := c.Templates.LinkedClones(ctx, &proxmox.Summary{VMID: tmpl.VMID, Host: tmpl.Host})
		require.NoError(t, err)
		assert.NotEmpty(t, clones)
		vm, err := c.VMs.Get(ctx, owner, "cp1")
		require.NoError(t, err)
		require.NoError(t, c.VMs.Remove(ctx, vm))
		require.NoError(t, c.VMs.Remove(ctx, vm), "again")
		require.NoError(t, c.Storages.Delete(ctx, "pve1", spec.Seed))
		gone, err := c.VMs.Get(ctx, owner, "cp1")
		require.NoError(t, err)
		assert.Nil(t, gone)
		all, err := c.Storages.Volumes(ctx, "pve1", "vmdata", "images")
		require.NoError(t, err)
		for _, v := range all {
			assert.NotEqual(t, vm.VMID, v.VMID, v.ID)
		}
		require.NoError(t, c.VMs.Remove(ctx, tmpl))
		left, err := c.VMs.List(ctx, owner)
		require.NoError(t, err)
		assert.Empty(t, left)
	})
}

// A VM of our name without our tag is neither taken, changed nor removed.
func TestForeignVMIsLeftAlone(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		ctx := t.Context()
		template(t, c)
		vm, err := c.VMs.Get(ctx, owner, "nas")
		require.NoError(t, err)
		assert.Nil(t, vm)
		spec := node(t, c, "nas")
		before := len(sim.Requests())
		err = ensure(ctx, c, spec)
		var conflict *proxmox.ConflictError
		require.ErrorAs(t, err, &conflict)
		assert.Equal(t, 100, conflict.VMID)
		assert.Empty(t, mutations(sim, before))
		require.ErrorContains(t, c.VMs.Remove(ctx, &proxmox.VM{Name: "nas", Host: "pve1", VMID: 100, Owner: owner}), "not removed")
		assert.Empty(t, mutations(sim, before))
	})
}

func BenchmarkVMs(b *testing.B) {
	m := pvesim.EightA100()
	for i := range 1000 {
		m.VMs = append(m.VMs, pvesim.VM{ID: 1000 + i, Node: "pve1", Name: fmt.Sprintf("n%d", i), Config: marked(1000 + i)})
	}
	sim := pvesim.New(m, pvesim.Options{})
	defer sim.Close()
	for b.Loop() {
		c := dialSim(b, sim)
		all, err := c.VMs.List(b.Context(), owner)
		require.NoError(b, err)
		require.Len(b, all, 1000)
		for _, vm := range all[:100] {
			_, err := c.VMs.Get(b.Context(), owner, vm.Name)
			require.NoError(b, err)
		}
	}
}
