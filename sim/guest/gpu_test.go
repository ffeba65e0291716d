package guest

import (
	"encoding/xml"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest/internal/archive"
	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/gpu"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// driverUser bakes and reboots into the kernel that the packages brought.
func driverUser(packages string) string {
	return testUser + "package_update: true\npackages: [qemu-guest-agent, linux-generic, " + packages + "]\npower_state: {mode: reboot}\n"
}

const openDriver = "linux-modules-nvidia-580-server-open-generic, nvidia-headless-no-dkms-580-server-open, nvidia-utils-580-server, libnvidia-decode-580-server"

func baked(t *testing.T, packages string, change func(*machine.Config)) *Machine {
	t.Helper()
	cfg := config(t, driverUser(packages))
	if change != nil {
		change(&cfg)
	}
	m := New(cfg)
	require.NoError(t, m.Boot(t.Context()))
	t.Cleanup(m.Kill)
	time.Sleep(time.Minute)
	settle(t, m)
	out, _ := cloudInitStatus(t, m)
	require.Empty(t, out.Errors)
	return m
}

func TestDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := baked(t, openDriver, nil)
		assert.Equal(t, archive.NewestKernel+"\n", mustShell(t, m, "uname -r"))
		assert.Contains(t, mustShell(t, m, "cat /proc/driver/nvidia/version"), "NVIDIA UNIX Open Kernel Module for x86_64  580.173.02")
		assert.Equal(t, "GPU 0: NVIDIA A100-PCIE-40GB (UUID: "+gpu.Cards(m.core.Config.PCI)[0].UUID+")\n", mustShell(t, m, "nvidia-smi -L"))
		assert.Equal(t, "0, "+gpu.Cards(m.core.Config.PCI)[0].UUID+", NVIDIA A100-PCIE-40GB, 580.173.02, 40960\n",
			mustShell(t, m, "nvidia-smi --query-gpu=index,uuid,name,driver_version,memory.total --format=csv,noheader,nounits"))
		assert.Contains(t, mustShell(t, m, "cat /proc/modules"), "nvidia_uvm")
		var log struct {
			Driver string `xml:"driver_version"`
			GPUs   []struct {
				ID   string `xml:"id,attr"`
				UUID string `xml:"uuid"`
				Mode string `xml:"mig_mode>current_mig"`
				FB   string `xml:"fb_memory_usage>total"`
			} `xml:"gpu"`
		}
		require.NoError(t, xml.Unmarshal([]byte(mustShell(t, m, "nvidia-smi -q -x")), &log))
		assert.Equal(t, "580.173.02", log.Driver)
		require.Len(t, log.GPUs, 1)
		assert.Equal(t, "00000000:01:00.0", log.GPUs[0].ID)
		assert.Equal(t, "40960 MiB", log.GPUs[0].FB)
		assert.Equal(t, "Disabled", log.GPUs[0].Mode)

		// An unattended upgrade of the library alone: N2 of the failures.
		require.NoError(t, disk.Install(m.core.Config.Disk, "libnvidia-compute-580-server", "580.999.01-0ubuntu1"))
		code, out := shellAs(m, "root", "nvidia-smi")
		assert.Equal(t, 18, code)
		assert.Equal(t, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.999.01\n", out)
	})
}

func TestDriverThatDoesNotLoad(t *testing.T) {
	tests := []struct {
		name, packages string
		change         func(*machine.Config)
		log            string
		smi            int
	}{
		{"modules of another kernel only", "linux-modules-nvidia-580-server-open-" + archive.ImageKernel + ", nvidia-utils-580-server", nil, "Linux version", 9},
		{"open modules on Volta", openDriver, func(c *machine.Config) { c.PCI[0].Device = 0x1db4 }, "is not supported by open nvidia.ko because it does not include the required GPU System Processor (GSP)", 9},
		{"proprietary modules on Blackwell", "linux-modules-nvidia-580-server-generic, nvidia-headless-no-dkms-580-server, nvidia-utils-580-server",
			func(c *machine.Config) { c.PCI[0].Device = 0x2901 }, "requires use of the NVIDIA open kernel modules", 9},
		{"a branch that has dropped the chip", "linux-modules-nvidia-595-server-generic, nvidia-headless-no-dkms-595-server, nvidia-utils-595-server",
			func(c *machine.Config) { c.PCI[0].Device = 0x1b38 }, "is not supported by the NVIDIA 595.71.05 driver release", 9},
		{"the fault", openDriver, func(c *machine.Config) { c.Faults.DriverFailsToLoad = true }, "RmInitAdapter failed!", 9},
		{"no card", openDriver, func(c *machine.Config) { c.PCI = nil }, "Linux version", 9},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := baked(t, test.packages, test.change)
				assert.Contains(t, mustShell(t, m, "dmesg"), test.log)
				code, out := shellAs(m, "root", "nvidia-smi")
				assert.Equal(t, test.smi, code)
				assert.Contains(t, out, "couldn't communicate with the NVIDIA driver")
				code, _ = shellAs(m, "root", "test -e /proc/driver/nvidia/version")
				assert.Equal(t, 1, code)
			})
		})
	}
}

func TestFlavoursConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, config(t, testUser))
		mustShell(t, m, "apt-get update && apt-get install -y nvidia-kernel-common-580-server && apt-mark hold nvidia-kernel-common-580-server")
		code, out := shellAs(m, "root", "apt-get install -y nvidia-driver-580-open")
		assert.Equal(t, aptFailed, code)
		assert.Contains(t, out, "you have held broken packages")
		code, out = shellAs(m, "root", "apt-get install -y nvidia-kernel-common-580-server=1.0")
		assert.Equal(t, aptFailed, code)
		assert.Contains(t, out, "E: Version '1.0' for 'nvidia-kernel-common-580-server' was not found")
		assert.Equal(t, []string{"nvidia-kernel-common-580-server"}, m.Disk().Holds())
	})
}
