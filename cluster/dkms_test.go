package cluster_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// built is a cluster whose driver DKMS builds; its image and its driver are added.
const built = small + "image: %s\nnvidia: {driver: {mode: dkms}}\n"

func dkmsOn(system string) string { return strings.Replace(built, "%s", system, 1) }

// later is a kernel that is newer than the archive's metapackages bring, by distribution,
// after the package that brings it.
func later() map[string][2]string {
	return map[string][2]string{
		"ubuntu-24.04": {"linux-generic-hwe-24.04", "7.0.0-31-generic"},
		"debian-13":    {"linux-headers-6.12.110+deb13-amd64", "6.12.110+deb13-amd64"},
	}
}

// A driver that is built on the nodes comes with the template, stays as it is, and follows
// the kernel by itself.
func TestDKMS(t *testing.T) {
	for system, kernel := range later() {
		t.Run(system, func(t *testing.T) {
			inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
				spec := parse(t, dkmsOn(system))
				w.up(t, spec)
				assert.Empty(t, w.plan(t, spec))
				assert.EqualValues(t, 1, w.nodes(t)["gpu1"].Count("nvidia.com/gpu"))
				m := w.guests()["gpu1"]
				running := strings.TrimSpace(ask(t, m, "uname", "-r"))
				assert.Contains(t, ask(t, m, "dkms", "status"), ", "+running+", x86_64: installed\n")
				holds := ask(t, m, "apt-mark", "showhold")
				assert.Contains(t, holds, "linux-image-", "the kernel does not move by itself, although DKMS would follow")
				assert.Contains(t, holds, "dkms")

				ask(t, m, "apt-get", "install", "-y", kernel[0])
				assert.Contains(t, ask(t, m, "dkms", "status"), ", "+kernel[1]+", x86_64: installed\n")
				for _, line := range w.plan(t, spec) {
					assert.Equal(t, "driver/gpu1: hold/linux-generic-hwe-24.04: may change by itself → held", line, "the kernel that runs has its modules, and so has the next")
				}
				w.up(t, spec)
				assert.Contains(t, ask(t, m, "uname", "-r"), running, "it is not restarted for that")
				w.reboot(t, "gpu1")
				assert.Equal(t, kernel[1]+"\n", ask(t, m, "uname", "-r"))
				assert.Contains(t, ask(t, m, "nvidia-smi", "-L"), "GPU 0: ")
				assert.Empty(t, w.plan(t, spec))
			})
		})
	}
}

// reboot restarts a machine from inside, and waits until it is back.
func (w *world) reboot(t testing.TB, name string) {
	t.Helper()
	_, err := w.guests()[name].AgentExec([]string{"reboot"}, nil)
	require.NoError(t, err)
	time.Sleep(5 * time.Minute)
}

// Debian has NVIDIA's repository, with the one key that it is trusted for, and one branch.
func TestDebianWithGPUs(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, dkmsOn("debian-13"))
		w.up(t, spec)
		m := w.guests()["gpu1"]
		source := ask(t, m, "cat", "/etc/apt/sources.list.d/nvidia-driver.sources")
		assert.Contains(t, source, "URIs: https://developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64/\nSuites: /\n")
		assert.Contains(t, source, "Signed-By: /usr/share/keyrings/nvidia-driver.asc\n")
		assert.Contains(t, ask(t, m, "cat", "/usr/share/keyrings/nvidia-driver.asc"), "BEGIN PGP PUBLIC KEY BLOCK")
		assert.Contains(t, ask(t, m, "cat", "/proc/driver/nvidia/version"), "Open Kernel Module for x86_64  595.71.05")
		assert.Contains(t, ask(t, m, "dpkg-query", "-W", "nvidia-driver-pinning-*"), "nvidia-driver-pinning-595")
	})
}

// Where the modules come from changes when the file says so, by name, and with a restart
// that shows whether they load; whatever else changes leaves it alone.
func TestChangeOfTheDriversMode(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		prebuilt, dkms := parse(t, small), parse(t, dkmsOn("ubuntu-24.04"))
		w.up(t, prebuilt)
		for _, step := range []struct {
			spec      *spec.Spec
			says      string
			has, lost string
		}{
			{dkms, "mode: prebuilt → dkms (needs a restart)", "nvidia-dkms-580-server-open", "linux-modules-nvidia-580-server-open-generic"},
			{prebuilt, "mode: dkms → prebuilt (needs a restart)", "linux-modules-nvidia-580-server-open-generic", "nvidia-dkms-580-server-open"},
		} {
			plan := strings.Join(w.plan(t, step.spec), "\n")
			assert.Contains(t, plan, step.says)
			before := w.now()
			w.up(t, step.spec)
			assert.Equal(t, []string{"gpu1"}, before.changes().Restarted)
			packages := w.guests()["gpu1"].Disk().Packages()
			assert.Contains(t, packages, step.has)
			assert.NotContains(t, packages, step.lost)
			assert.Empty(t, w.plan(t, step.spec))
			assert.Contains(t, w.guests()["gpu1"].Disk().Holds(), "linux-image-generic")
		}
	})
}

// A kernel for which nothing was built is seen before it starts, and built for.
func TestKernelWithoutItsModules(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, dkmsOn("debian-13"))
		w.up(t, spec)
		m := w.guests()["gpu1"]
		ask(t, m, "apt-get", "install", "-y", "linux-image-6.12.110+deb13-amd64") // and no headers
		assert.Contains(t, strings.Join(w.plan(t, spec), "\n"), "module/6.12.110+deb13-amd64: not built → built by DKMS")
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
		assert.Contains(t, ask(t, m, "dkms", "status"), "6.12.110+deb13-amd64, x86_64: installed")

		ask(t, m, "dkms", "remove", "nvidia/595.71.05", "--all") // which forgets its source, too
		assert.Contains(t, strings.Join(w.plan(t, spec), "\n"), "module/6.12.110+deb13-amd64: not built → built by DKMS")
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))

		// The compiler does not come through with the kernel after it.
		w.sim.SetGuestFaults(w.vm(t, "gpu1").ID, guest.Faults{ModuleDoesNotBuild: true})
		ask(t, m, "rm", "-r", "/var/lib/dkms/nvidia/595.71.05/6.12.110+deb13-amd64")
		_, err := w.cluster(t, spec).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "make.log ends with:")
		require.ErrorContains(t, err, "error: implicit declaration of function ‘in_irq’")
		require.ErrorContains(t, err, "pin a newer branch (nvidia.driver.branch)")
		w.sim.SetGuestFaults(w.vm(t, "gpu1").ID, guest.Faults{})
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
	})
}

// What DKMS cannot be: the branches of Debian's repository, cards that are too old for
// them, and Secure Boot, are refused where the file says them.
func TestDKMSThatCannotBe(t *testing.T) {
	debian := dkmsOn("debian-13")
	for text, want := range map[string]string{
		replace(t, debian, "{mode: dkms}", "{mode: dkms, branch: '580'}"):                            "NVIDIA's repository for Debian 13 has no series of that branch; supported are 595",
		replace(t, debian, "gpus: 1", "gpus: {count: 1, model: V100}"):                               "(Volta), and NVIDIA's repository for Debian 13 begins with 590; write image: ubuntu-24.04, which has it",
		replace(t, debian, "image: debian-13", "image: {distribution: debian-13, secureBoot: true}"): "secure boot rejects them; write secureBoot: false",
	} {
		_, err := cluster.Parse("cluster.yaml", []byte(text))
		require.ErrorContains(t, err, want)
		assert.Regexp(t, `cluster\.yaml:\d+:\d+: `, err.Error())
	}
}

// A card that only Ubuntu has a driver for is told of before anything changes.
func TestOldCardOnDebian(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := pvesim.OneGPU()
		for i := range model.Hosts[0].PCI {
			if p := &model.Hosts[0].PCI[i]; p.ID == "10de:2684" {
				p.ID, p.Class = "10de:1db4", "030200"
			}
		}
		w := newWorld(t, model)
		_, err := w.cluster(t, parse(t, dkmsOn("debian-13"))).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "and NVIDIA's repository for Debian 13 begins with 590")
		require.ErrorContains(t, err, "write image: ubuntu-24.04, which has it")
		assert.Empty(t, w.names())
	})
}

// A VM of somebody else's whose firmware has keys is not taken over: what DKMS builds
// would never load there.
func TestAdoptWithSecureBoot(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		text := dkmsOn("debian-13")
		w.up(t, parse(t, text))
		w.forget(t, "gpu1", "theirs")
		w.configure(t, "gpu1", "efidisk0", strings.Replace(w.vm(t, "gpu1").Config["efidisk0"], "pre-enrolled-keys=0", "pre-enrolled-keys=1", 1))
		before := w.now()
		_, err := w.cluster(t, parse(t, replace(t, text, "gpus: 1", "gpus: 1, adopt: true"))).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "gpu1 (VM 102 on pve1) has the keys of Secure Boot (efidisk0, pre-enrolled-keys=1)")
		assert.Empty(t, before.changes().Proxmox)
	})
}
