package nvidia

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/remote"
)

// Texts of real logs, which people have published.
func TestExplainLog(t *testing.T) {
	each(t, "testdata/log/*.txt", func(t *testing.T, text, file string) {
		found := ExplainLog(strings.Split(text, "\n"))
		require.NotEmpty(t, found)
		goldenJSON(t, file, found)
	})
	assert.Empty(t, ExplainLog(nil))
	assert.Empty(t, ExplainLog([]string{"EXT4-fs (sda1): mounted filesystem", "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.173.02", ""}))
}

// Every entry of the table can be read from a log, and says what it is; what stops a GPU says
// what to do.
func TestEveryXid(t *testing.T) {
	last := 0
	for _, x := range xids() {
		require.Greater(t, x.first, last, "sorted, and none twice")
		last = max(x.first, x.last)
		found := ExplainLog([]string{"NVRM: Xid (PCI:0000:01:00): " + strconv.Itoa(x.first) + ", pid=1"})
		require.Len(t, found, 1)
		assert.Equal(t, x.means, found[0].Means)
		assert.Equal(t, x.stops, found[0].Stops)
		if x.stops {
			assert.NotEmpty(t, x.do, x.first)
		}
	}
	found := ExplainLog([]string{"NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)"})
	assert.False(t, found[0].Stops)
}

// The same said in other words, by other versions of the driver and of Linux.
func TestOtherWords(t *testing.T) {
	for line, want := range map[string][2]string{
		"NVRM: The NVIDIA GPU 0000:01:00.0\nNVRM: (PCI ID: 10de:2204) installed in this system has\nNVRM: fallen off the bus and is not responding to commands.": {lostText, "0000:01:00.0"},
		"NVRM: GPU at 0000:83:00.0 has fallen off the bus.":                                                        {lostText, "0000:83:00.0"},
		"NVRM: GPU at PCI:0000:83:00: has fallen off the bus":                                                      {lostText, "0000:83:00"},
		"NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.":                                                      {lostText, "0000:01:00.0"},
		"NVRM: nvAssertOkFailedNoLog: Assertion failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] (0x0000000F)":   {lostText, ""},
		"nvidia 0000:01:00.0: Unable to change power state from D3cold to D0, device inaccessible":                 {"the GPU does not wake up (D3cold)", "0000:01:00.0"},
		"vfio-pci 0000:01:00.0: can't change power state from D3cold to D0 (config space inaccessible)":            {"the GPU does not wake up (D3cold)", "0000:01:00.0"},
		"nvidia 0000:01:00.0: Refused to change power state, currently in D3":                                      {"the GPU does not wake up (D3cold)", "0000:01:00.0"},
		"vfio-pci 0000:01:00.0: not ready 65535ms after FLR; giving up":                                            {"the GPU does not answer after its reset", "0000:01:00.0"},
		"vfio-pci 0000:01:00.0: not ready 65535ms after bus reset; giving up":                                      {"the GPU does not answer after its reset", "0000:01:00.0"},
		"NVRM: kgspExecuteFwsec_TU102: failed to execute FWSEC cmd 0x15: status 0x65":                              {"the firmware of the card did not start its own processor (FWSEC)", ""},
		"NVRM: RmInitAdapter: Cannot initialize GSP firmware RM":                                                   {"the GPU's own processor (GSP) did not start", ""},
		"NVRM: GPU0 kgspHealthCheck_TU102: ****************************** GSP-CrashCat Report *******************": {"the GPU's own processor (GSP) does not answer", ""},
		"NVRM: _kgspLogRpcSanityCheck: ********************************* GSP Timeout ****************************": {"the GPU's own processor (GSP) does not answer", ""},
		"NVRM: Timeout after 45s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL)": {"the GPU's own processor (GSP) does not answer", ""},
		"NVRM: _issueRpcAndWait: rpcRecvPoll timedout for fn 76! Timeout waiting for RPC from GPU1 GSP!":           {"the GPU's own processor (GSP) does not answer", ""},
		"NVRM: GPU 0000:01:00.0: GPU does not have the necessary power cables connected.":                          {noPower, "0000:01:00.0"},
		"nvidia 0000:01:00.0: can't enable device: BAR 1 [mem size 0x800000000 64bit pref] not assigned":           {noRoom, "0000:01:00.0"},
		"nvidia 0000:01:00.0: can't enable device: BAR 3 [mem 0x00000000-0x01ffffff 64bit pref] not claimed":       {noRoom, "0000:01:00.0"},
		"NVRM: request_mem_region failed for 64M @ 0xf8000000. This can\nNVRM: occur when a driver such as rivatv": {"another driver holds the GPU's memory", ""},
		"NVRM: The NVIDIA NVIDIA GeForce GTX 1050 GPU installed in this system is\n               NVRM:  supported through the NVIDIA 580.xx Legacy drivers. Please\n               NVRM:  visit http://www.nvidia.com/object/unix.html for more\n               NVRM:  information.  The 595.71.05 NVIDIA driver will ignore\n               NVRM:  this GPU.  Continuing probe...": {"the chip does not work with this driver: 580.xx is its last branch", ""},
		"NVRM: The NVIDIA Tesla K80 GPU installed in this system is\nNVRM:  supported through the NVIDIA 470.xx Legacy drivers. Please\n":                 {"the chip does not work with this driver: 470.xx is its last branch", ""},
		"NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned from status @ kernel_channel.c:2874": {"the driver refuses work until the GPU is reset", ""},
	} {
		found := ExplainLog(strings.Split(line, "\n"))
		require.Len(t, found, 1, line)
		assert.Equal(t, want, [2]string{found[0].Means, found[0].GPU}, line)
		assert.True(t, found[0].Stops && found[0].Do != "", line)
	}
	for _, line := range []string{"nvidia 0000:01:00.0: not ready 1023ms after resume; waiting", "nvidia 0000:01:00.0: enabling device (0000 -> 0003)"} {
		assert.Empty(t, ExplainLog([]string{line}), line)
	}
}

// What the driver says twice is one finding, and what it reverts does not stop the GPU.
func TestSaidOnce(t *testing.T) {
	const gsp = "NVRM: Xid (PCI:0000:c1:00): 119, pid=2040, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL) (0x20801348 0x410)."
	assert.Len(t, ExplainLog([]string{gsp}), 1)
	const change = "NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from "
	for last, stops := range map[string]bool{"0x1 (GPU Reset Required) to 0x0 (None)": false, "0x0 (None) to 0x2 (Node Reboot Required)": true} {
		found := ExplainLog([]string{change + "0x0 (None) to 0x1 (GPU Reset Required)", change + last})
		require.Len(t, found, 1)
		assert.Equal(t, stops, found[0].Stops, last)
	}
}

func TestFindingsRead(t *testing.T) {
	found := ExplainLog([]string{
		"NVRM: Xid (PCI:0000:01:00): 43, pid=1, name=python", "NVRM: Xid (PCI:0000:01:00): 43, pid=2, name=python",
		"NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.",
	})
	require.Len(t, found, 2)
	assert.Equal(t, "Xid 79 of GPU 0000:02:00 (hardware): the GPU has fallen off the bus: it no longer answers: drain the node, then stop and start the VM "+
		"(a restart from inside does not reset the card), and look at the host's log; if it happens again, check power, heat and riser", found[0].String())
	assert.Equal(t, "Xid 43 of GPU 0000:01:00 (application): a program ended by its own error; the GPU is healthy (2 times)", found[1].String())
	assert.Equal(t, "(machine): Secure Boot refuses the module: "+unsigned, ExplainLog([]string{"modprobe: Key was rejected by service"})[0].String())
}

func FuzzExplainLog(f *testing.F) {
	f.Add("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\nNVRM: API mismatch: the client has the version 1.2, but\nNVRM: this kernel module has the version 3.4. Please")
	f.Add("NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:139b)\nNVRM: installed in this system is not supported by the 370.28\n")
	f.Fuzz(func(t *testing.T, text string) {
		log := strings.Split(text, "\n")
		stops := true
		for _, found := range ExplainLog(log) {
			require.NotEmpty(t, found.Means)
			require.Positive(t, found.Count)
			require.LessOrEqual(t, found.Count, 10*len(text))
			require.True(t, stops || !found.Stops, "what stops a GPU is first")
			stops = found.Stops
			require.NotContains(t, found.Means, "$2")
		}
	})
}

// A log that cannot be read is an error; one that says nothing is none.
func TestReadLog(t *testing.T) {
	found, err := ReadLog(t.Context(), remote.RunnerFunc(func(_ context.Context, c remote.Cmd) error {
		_, err := io.WriteString(c.Stdout, "[1.0] NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n")
		return err
	}))
	require.NoError(t, err)
	require.Len(t, found, 1)
	_, err = ReadLog(t.Context(), remote.RunnerFunc(func(context.Context, remote.Cmd) error { return errors.New("the machine is off") }))
	require.ErrorContains(t, err, "read the kernel's log: ")
}
