package guest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// A card is divided as NVIDIA's MIG User Guide shows it ("Getting Started with MIG"): on Ampere
// the mode waits until the machine has been off, and instances are gone after a restart.
func TestMIGOnAmpere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := baked(t, openDriver, nil)
		const mode = "nvidia-smi --query-gpu=mig.mode.current,mig.mode.pending --format=csv,noheader"
		assert.Equal(t, "Disabled, Disabled\n", mustShell(t, m, mode))
		code, out := shellAs(m, "root", "nvidia-smi mig -cgi 9 -C")
		assert.Equal(t, 6, code)
		assert.Equal(t, "No MIG-enabled devices found.\n", out)
		assert.Equal(t, "Warning: MIG mode is in pending enable state for GPU 00000000:01:00.0:Not Supported\n"+
			"Reboot the system or try nvidia-smi --gpu-reset to make MIG mode effective on GPU 00000000:01:00.0\nAll done.\n", mustShell(t, m, "nvidia-smi -i 0 -mig 1"))
		assert.Equal(t, "Disabled, Enabled\n", mustShell(t, m, mode))
		code, out = shellAs(m, "root", "nvidia-smi --gpu-reset")
		assert.Equal(t, 3, code)
		assert.Equal(t, "Resetting GPU 00000000:01:00.0 is not supported.\n", out)

		_, _ = shellAs(m, "root", "reboot") // which does not reset the card
		time.Sleep(time.Minute)
		assert.Equal(t, "Disabled, Enabled\n", mustShell(t, m, mode))
		cycle(t, m)
		assert.Equal(t, "Enabled, Enabled\n", mustShell(t, m, mode))

		assert.Equal(t, `Successfully created GPU instance ID  2 on GPU  0 using profile MIG 3g.20gb (ID  9)
Successfully created GPU instance ID  7 on GPU  0 using profile MIG 1g.5gb (ID 19)
Successfully created GPU instance ID  4 on GPU  0 using profile MIG 2g.10gb (ID 14)
Successfully created GPU instance ID  8 on GPU  0 using profile MIG 1g.5gb (ID 19)
`, mustShell(t, m, "nvidia-smi mig -cgi 9:4,19:0,14:2,19:1"))
	})
}

// cycle switches a machine off and on.
func cycle(t *testing.T, m *Machine) {
	t.Helper()
	assert.NoError(t, m.Shutdown())
	time.Sleep(10 * time.Second)
	assert.False(t, m.Running())
	assert.NoError(t, m.Boot(t.Context()))
	time.Sleep(time.Minute)
}

// From Hopper on the mode is there at once, and gone after a restart.
func TestMIGOnHopper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := baked(t, openDriver, func(c *machine.Config) { c.PCI[0].Device = 0x2330 })
		assert.Equal(t, "Enabled MIG Mode for GPU 00000000:01:00.0\nAll done.\n", mustShell(t, m, "nvidia-smi -i 0 -mig 1"))
		code, out := shellAs(m, "root", "nvidia-smi mig -lgi")
		assert.Equal(t, 6, code)
		assert.Equal(t, "No GPU instances found: Not Found\n", out)
		assert.Equal(t, `Successfully created GPU instance ID  2 on GPU  0 using profile MIG 3g.40gb (ID  9)
Successfully created compute instance ID  0 on GPU  0 GPU instance ID  2 using profile MIG 3g.40gb (ID  2)
Successfully created GPU instance ID  1 on GPU  0 using profile MIG 3g.40gb (ID  9)
Successfully created compute instance ID  0 on GPU  0 GPU instance ID  1 using profile MIG 3g.40gb (ID  2)
`, mustShell(t, m, "nvidia-smi mig -cgi 9,3g.40gb -C"))
		assert.Regexp(t, `(?m)\AGPU 0: NVIDIA .* \(UUID: GPU-.*\)\n  MIG 3g.40gb     Device  0: \(UUID: MIG-.*\)\n  MIG 3g.40gb     Device  1: \(UUID: MIG-.*\)\n\z`, mustShell(t, m, "nvidia-smi -L"))
		assert.Contains(t, mustShell(t, m, "nvidia-smi mig -lgi"), "|   0  MIG 3g.40gb            9        2          4:4     |")
		assert.Contains(t, mustShell(t, m, "nvidia-smi mig -lgip"), "|   0  MIG 1g.10gb         19     0/7        9.75       No     16     1     0   |")
		assert.Contains(t, mustShell(t, m, "nvidia-smi mig -lgipp"), "GPU  0 Profile ID 15 Placements: {0,2,4,6}:2\n")
		code, out = shellAs(m, "root", "nvidia-smi mig -cgi 19 -C")
		assert.Equal(t, 23, code)
		assert.Equal(t, "Unable to create a GPU instance on GPU  0 using profile 19: Insufficient Resources\nFailed to create GPU instances: Insufficient Resources\n", out)
		code, out = shellAs(m, "root", "nvidia-smi mig -dgi")
		assert.Equal(t, 19, code)
		assert.Equal(t, "Unable to destroy GPU instance ID  1 from GPU  0: In use by another client\nFailed to destroy GPU instances: In use by another client\n", out)
		out = mustShell(t, m, "nvidia-smi mig -dci && nvidia-smi mig -dgi")
		assert.Equal(t, 2, strings.Count(out, "Successfully destroyed compute instance ID  0 from GPU  0 GPU instance ID"))
		assert.Contains(t, out, "Successfully destroyed GPU instance ID  2 from GPU  0\n")
		code, out = shellAs(m, "root", "nvidia-smi mig -dci")
		assert.Equal(t, 6, code)
		assert.Equal(t, "No compute instances found: Not Found\n", out)
		assert.Contains(t, mustShell(t, m, "nvidia-smi -q -x"), "<current_mig>Enabled</current_mig>")
		cycle(t, m)
		assert.Equal(t, "Disabled, Disabled\n", mustShell(t, m, "nvidia-smi --query-gpu=mig.mode.current,mig.mode.pending --format=csv,noheader"))
	})
}

// A card without the mode says so.
func TestNoMIG(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := baked(t, openDriver, func(c *machine.Config) { c.PCI[0].Device = 0x27b8 })
		assert.Equal(t, "[N/A], [N/A]\n", mustShell(t, m, "nvidia-smi --query-gpu=mig.mode.current,mig.mode.pending --format=csv,noheader"))
		assert.Contains(t, mustShell(t, m, "nvidia-smi -i 0 -mig 1"), "Unable to enable MIG Mode for GPU 00000000:01:00.0: Not Supported\n")
	})
}
