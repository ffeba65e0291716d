package guest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/sim/guest/internal/archive"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

const dkmsDriver = "build-essential, nvidia-dkms-580-server-open, nvidia-headless-no-dkms-580-server-open, nvidia-utils-580-server"

// Modules that are built on the machine go where depmod looks first, for every kernel
// whose headers are there.
func TestDKMS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := withDKMS(t, nil)
		assert.Equal(t, "nvidia/580.173.02, "+archive.NewestKernel+", x86_64: installed\n", mustShell(t, m, "dkms status"))
		assert.Contains(t, mustShell(t, m, "nvidia-smi -L"), "GPU 0: ")
		code, out := shellAs(m, "root", "dkms autoinstall -k "+archive.ImageKernel)
		assert.Equal(t, 21, code, "that kernel came with the image, and without headers")
		assert.Contains(t, out, "Error! Your kernel headers for kernel "+archive.ImageKernel+" cannot be found at /lib/modules/"+archive.ImageKernel+"/build")
		mustShell(t, m, "apt-get install -y linux-generic-hwe-24.04")
		assert.Contains(t, mustShell(t, m, "dkms status"), "nvidia/580.173.02, "+archive.HWEKernel+", x86_64: installed\n")
		mustShell(t, m, "apt-get install -y linux-modules-nvidia-580-server-open-generic nvidia-dkms-580-server-open-")
		assert.Empty(t, mustShell(t, m, "dkms status"))
		code, _ = shellAs(m, "root", "test -e /lib/modules/"+archive.NewestKernel+"/updates/dkms/nvidia.ko")
		assert.Equal(t, 1, code)
	})
}

func withDKMS(t *testing.T, change func(*machine.Config)) *Machine {
	t.Helper()
	cfg := config(t, driverUser(dkmsDriver))
	if change != nil {
		change(&cfg)
	}
	m := New(cfg)
	if err := m.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Kill)
	time.Sleep(20 * time.Minute)
	settle(t, m)
	return m
}

func TestModuleThatDoesNotBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := withDKMS(t, func(c *machine.Config) { c.Faults.ModuleDoesNotBuild = true })
		assert.Equal(t, "nvidia/580.173.02: added\n", mustShell(t, m, "dkms status"))
		assert.Contains(t, mustShell(t, m, "cat /var/lib/dkms/nvidia/580.173.02/build/make.log"), "error: implicit declaration of function")
		assert.Equal(t, "half-configured", mustShell(t, m, "dpkg-query -W -f '${db:Status-Status}' nvidia-dkms-580-server-open"))
		code, out := shellAs(m, "root", "apt-get install -y nvidia-dkms-580-server-open")
		assert.Equal(t, aptFailed, code, "it is tried again, and fails again")
		for _, want := range []string{
			"Error! Bad return status for module build on kernel: " + archive.NewestKernel + " (x86_64)\nConsult /var/lib/dkms/nvidia/580.173.02/build/make.log for more information.\n",
			"dpkg: error processing package nvidia-dkms-580-server-open (--configure):\n installed nvidia-dkms-580-server-open package post-installation script subprocess returned error exit status 10\n",
		} {
			assert.Contains(t, out, want)
		}
		m.SetFaults(machine.Faults{})
		mustShell(t, m, "apt-get install -y nvidia-dkms-580-server-open && modprobe nvidia && nvidia-smi -L")
	})
}

// The firmware has no key of DKMS', so a kernel that checks signatures refuses.
func TestSecureBootRefusesWhatDKMSBuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := withDKMS(t, func(c *machine.Config) { c.SecureBoot = true })
		assert.Contains(t, mustShell(t, m, "dkms status"), "installed")
		assert.Contains(t, mustShell(t, m, "dmesg"), "Loading of module with unavailable key is rejected")
		code, out := shellAs(m, "root", "modprobe nvidia")
		assert.Equal(t, 1, code)
		assert.Contains(t, out, "could not insert 'nvidia': Key was rejected by service")
	})
	synctest.Test(t, func(t *testing.T) {
		m := baked(t, openDriver, func(c *machine.Config) { c.SecureBoot = true })
		assert.Contains(t, mustShell(t, m, "nvidia-smi -L"), "GPU 0: ", "Canonical's signature is one that it knows")
	})
}

// Of a driver's modules as source there is one flavour; what is held stays, and the modules
// that come built may be there in both, of which one is loaded.
func TestTheOtherFlavourOfADriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := withDKMS(t, nil)
		mustShell(t, m, "apt-mark hold nvidia-dkms-580-server-open")
		code, out := shellAs(m, "root", "apt-get install -y nvidia-dkms-580-server")
		assert.Equal(t, aptFailed, code)
		assert.Contains(t, out, " nvidia-dkms-580-server : Conflicts: nvidia-dkms-kernel\nE: Unable to correct problems, you have held broken packages.")
		mustShell(t, m, "apt-mark unhold nvidia-dkms-580-server-open")
		mustShell(t, m, "apt-get install -y nvidia-dkms-580-server")
		packages := m.core.Config.Disk.Packages()
		for _, gone := range []string{"nvidia-dkms-580-server-open", "nvidia-kernel-source-580-server-open", "nvidia-headless-no-dkms-580-server-open"} {
			assert.NotContains(t, packages, gone)
		}
		assert.Contains(t, packages, "nvidia-kernel-source-580-server")
		assert.Contains(t, packages, "nvidia-utils-580-server", "which is for both")
		assert.Equal(t, "nvidia/580.173.02, "+archive.NewestKernel+", x86_64: installed\n", mustShell(t, m, "dkms status"))

		mustShell(t, m, "apt-get install -y linux-modules-nvidia-580-server-open-generic linux-modules-nvidia-580-server-generic")
		code, out = shellAs(m, "root", "apt-get install -y nvidia-kernel-common-580-server nvidia-kernel-common-595-server")
		assert.Equal(t, aptFailed, code)
		assert.Contains(t, out, " nvidia-kernel-common-595-server : Conflicts: nvidia-kernel-common\n")
	})
}
