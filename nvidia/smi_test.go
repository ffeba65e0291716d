package nvidia

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func sample(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/a100.xml")
	require.NoError(t, err)
	return b
}

func TestParseSMI(t *testing.T) {
	s, err := ParseSMI(sample(t))
	require.NoError(t, err)
	assert.Equal(t, "580.173.02", s.Driver)
	assert.Equal(t, "13.0", s.CUDA)
	require.Len(t, s.GPUs, 2)
	card := PCIID{Vendor: 0x10de, Device: 0x20f1, SubVendor: 0x10de, SubDevice: 0x145f}
	assert.Equal(t, SMIGPU{
		Name: "NVIDIA A100-PCIE-40GB", UUID: "GPU-5b1c3a52-7d3c-4b0e-9c55-1f2e3d4c5b6a", Address: "00000000:01:00.0", ID: card,
		Memory: 40960 << 20, ECC: true, Virtual: "Pass-Through", Persistence: true,
		Link: PCIeLink{Generation: 4, MaxGeneration: 4, Width: 16, MaxWidth: 16}, Celsius: 31,
	}, s.GPUs[0])

	divided := s.GPUs[1]
	assert.Equal(t, 1, divided.Index)
	assert.True(t, divided.MIG)
	assert.Equal(t, []MIGDevice{{Index: 0, GPUInstance: 1, Memory: 19968 << 20}, {Index: 1, GPUInstance: 5, Memory: 9856 << 20}}, divided.Instances)
	assert.Equal(t, int64(3), divided.ECCErrors)
	assert.True(t, divided.RowsFailing)
	_, err = json.Marshal(s)
	assert.NoError(t, err)
}

func TestParseSMIRefusals(t *testing.T) {
	for said, want := range map[string]error{
		"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.173\n":                                                       ErrVersionMismatch,
		"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n": ErrNotLoaded,
		"No devices were found\n": ErrNoDevices,
		"Unable to determine the device handle for GPU0000:A1:00.0: Unknown Error\n":                                        ErrLost,
		"Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost.  Reboot the system to recover this GPU\n": ErrLost,
		"Unable to determine the device handle for GPU1: 0000:02:00.0: Unknown Error\nNo devices were found\n":              ErrLost,
		"sh: 38: nvidia-smi: not found": ErrNotInstalled,
	} {
		_, err := ParseSMI([]byte(said))
		assert.ErrorIs(t, err, want, said)
	}
	_, err := ParseSMI(nil)
	assert.EqualError(t, err, "nvidia-smi printed nothing")
	_, err = ParseSMI([]byte("Failed to initialize NVML: Unknown Error\n"))
	assert.EqualError(t, err, "nvidia-smi gave no report: Failed to initialize NVML: Unknown Error")
	_, err = ParseSMI([]byte("<nvidia_smi_log><gpu>"))
	assert.ErrorContains(t, err, "nvidia-smi: XML")
}

// TestECCErrorsAreAddedUp: each counter counts, of both generations of reports.
func TestECCErrorsAreAddedUp(t *testing.T) {
	var report strings.Builder
	for i, name := range []string{"sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded", "dram_uncorrectable"} {
		fmt.Fprintf(&report, "<%s>%d</%s>", name, 1<<i, name)
	}
	s, err := ParseSMI([]byte("<nvidia_smi_log><gpu id=\"x\"><pci><pci_device_id>20F110DE</pci_device_id></pci><ecc_errors><volatile>" +
		report.String() + "</volatile></ecc_errors></gpu></nvidia_smi_log>"))
	require.NoError(t, err)
	assert.EqualValues(t, 1+2+4+8, s.GPUs[0].ECCErrors)
}

// A GPU that has failed answers without an id, and hides no other.
func TestAGPUWithoutID(t *testing.T) {
	s, err := ParseSMI([]byte(`<nvidia_smi_log><gpu id="x"><product_name>Unknown Error</product_name><pci><pci_device_id>?</pci_device_id></pci></gpu>
<gpu id="y"><pci><pci_device_id>20F110DE</pci_device_id></pci></gpu></nvidia_smi_log>`))
	require.NoError(t, err)
	require.Len(t, s.GPUs, 2)
	assert.True(t, s.GPUs[0].Lost && !s.GPUs[1].Lost)
	assert.Equal(t, "10de:20f1", s.GPUs[1].ID.String())

	s, err = ParseSMI([]byte(`<nvidia_smi_log><gpu id="Orin"><product_name>Orin (nvgpu)</product_name><pci><pci_device_id>N/A</pci_device_id></pci></gpu></nvidia_smi_log>`))
	require.NoError(t, err)
	assert.False(t, s.GPUs[0].Lost, "a Jetson's GPU is not on the PCI bus")

	for value, want := range map[string]bool{"Unknown Error": true, "GPU is lost": true, "ERR!": true, "N/A": false, "31 C": false, "GPU requires reset": false, "[Not Supported]": false} {
		s, err := ParseSMI([]byte(`<nvidia_smi_log><gpu><pci><pci_device_id>223710DE</pci_device_id></pci><temperature><gpu_temp>` + value + `</gpu_temp></temperature></gpu></nvidia_smi_log>`))
		require.NoError(t, err)
		assert.Equal(t, want, s.GPUs[0].Lost, value)
	}
}

// The names are those of nvsmi_device's v10 to v13, of a Pascal, an Ampere and a Hopper.
func TestFailingCards(t *testing.T) {
	for xml, want := range map[string]SMIGPU{
		"<ecc_errors><volatile><double_bit><total>2</total></double_bit></volatile></ecc_errors>":                                                {ECCErrors: 2},
		"<retired_pages><double_bit_retirement><retired_count>61</retired_count></double_bit_retirement></retired_pages>":                        {Retired: 61},
		"<retired_pages><pending_retirement>Yes</pending_retirement></retired_pages>":                                                            {Retiring: true},
		"<retired_pages><pending_blacklist>Yes</pending_blacklist></retired_pages>":                                                              {Retiring: true},
		"<retired_pages><pending_retirement>N/A</pending_retirement></retired_pages>":                                                            {},
		"<remapped_rows><remapped_row_failure>Yes</remapped_row_failure></remapped_rows>":                                                        {RowsFailing: true},
		"<remapped_rows>N/A</remapped_rows>":                                                                                                     {},
		"<ecc_errors><aggregate><sram_threshold_exceeded>Yes</sram_threshold_exceeded></aggregate></ecc_errors>":                                 {WornOut: true},
		"<ecc_errors><tpc_repair_pending>Yes</tpc_repair_pending></ecc_errors>":                                                                  {Repairing: true},
		"<ecc_errors><channel_repair_pending>Yes</channel_repair_pending></ecc_errors>":                                                          {Repairing: true},
		"<gpu_recovery_action>None</gpu_recovery_action>":                                                                                        {},
		"<gpu_recovery_action>N/A</gpu_recovery_action>":                                                                                         {},
		"<gpu_recovery_action>[Not Supported]</gpu_recovery_action>":                                                                             {},
		"<gpu_recovery_action>Unknown Error</gpu_recovery_action>":                                                                               {},
		"<gpu_recovery_action>Reset</gpu_recovery_action>":                                                                                       {Recovery: "Reset"},
		"<gpu_recovery_action>Reboot</gpu_recovery_action>":                                                                                      {Recovery: "Reboot"},
		"<temperature><gpu_temp>GPU requires reset</gpu_temp></temperature>":                                                                     {Recovery: "Reset"},
		"<gpu_recovery_action>Drain and Reset</gpu_recovery_action>":                                                                             {Recovery: "Drain and Reset"},
		"<gpu_reset_status><reset_required>Yes</reset_required></gpu_reset_status>":                                                              {Recovery: "Reset"},
		"<gpu_reset_status><reset_required>No</reset_required><drain_and_reset_recommended>Yes</drain_and_reset_recommended></gpu_reset_status>": {Recovery: "Drain and Reset"},
		"<gpu_reset_status><reset_required>Requested functionality has been deprecated</reset_required></gpu_reset_status>":                      {},
	} {
		s, err := ParseSMI([]byte("<nvidia_smi_log><gpu>" + xml + "</gpu></nvidia_smi_log>"))
		require.NoError(t, err)
		got := s.GPUs[0]
		assert.Equal(t, want, SMIGPU{ECCErrors: got.ECCErrors, Retired: got.Retired, Retiring: got.Retiring, RowsFailing: got.RowsFailing, WornOut: got.WornOut, Repairing: got.Repairing, Recovery: got.Recovery}, xml)
	}
}

func FuzzParseSMI(f *testing.F) {
	f.Add(sample(f))
	f.Add([]byte("No devices were found"))
	f.Add([]byte(`<nvidia_smi_log><gpu id="x"><pci><pci_device_id>20F110DE</pci_device_id></pci><fb_memory_usage><total>99999999999 MiB</total></fb_memory_usage></gpu></nvidia_smi_log>`))
	f.Fuzz(func(t *testing.T, out []byte) {
		s, err := ParseSMI(out)
		if err != nil {
			assert.Empty(t, s.GPUs)
			return
		}
		for i, g := range s.GPUs {
			assert.Equal(t, i, g.Index)
			assert.GreaterOrEqual(t, g.Memory, int64(0))
		}
	})
}

// A number that is none, or none that a counter can have, counts nothing.
func TestCount(t *testing.T) {
	for said, want := range map[string]int64{"3": 3, " 0 ": 0, "2147483647": 1<<31 - 1, "2147483648": 0, "99999999999999999999": 0, "-1": 0, "N/A": 0, "": 0} {
		assert.Equal(t, want, count(said), said)
	}
}

// What nvidia-smi says is told up to 300 bytes; only a shell that does not find it says
// that it is not installed.
func TestRefusalInItsWords(t *testing.T) {
	for said, want := range map[string]string{
		"nvidia-smi: symbol lookup error":              "nvidia-smi gave no report: nvidia-smi: symbol lookup error",
		"libcuda.so: not found":                        "nvidia-smi gave no report: libcuda.so: not found",
		"x: No such file or directory":                 "nvidia-smi gave no report: x: No such file or directory",
		"env: 'nvidia-smi': No such file or directory": ErrNotInstalled.Error(),
		strings.Repeat("a", 300):                       "nvidia-smi gave no report: " + strings.Repeat("a", 300),
		strings.Repeat("a", 301):                       "nvidia-smi gave no report: " + strings.Repeat("a", 300) + "…",
	} {
		assert.EqualError(t, smiRefusal(said), want)
	}
}
