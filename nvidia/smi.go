package nvidia

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Errors of nvidia-smi.
var (
	ErrVersionMismatch = errors.New("NVIDIA's kernel module and libraries are of different versions")
	ErrNotLoaded       = errors.New("NVIDIA's kernel module is not loaded")
	ErrNoDevices       = errors.New("the driver sees no GPU")
	ErrNotInstalled    = errors.New("nvidia-smi is not installed")
	ErrLost            = errors.New("a GPU no longer answers, and nvidia-smi reports none of the others")
)

// SMI is the report of `nvidia-smi -q -x`.
type SMI struct {
	Driver string   `json:"driver"` // version
	CUDA   string   `json:"cuda"`   // newest CUDA that the driver serves
	GPUs   []SMIGPU `json:"gpus"`   // in nvidia-smi's order, which is that of the PCI addresses
}

// SMIGPU is one GPU.
type SMIGPU struct {
	Index       int         `json:"index"`
	Name        string      `json:"name"`
	UUID        string      `json:"uuid"`
	Address     string      `json:"address"` // PCI address in the guest, e.g. "00000000:01:00.0"
	ID          PCIID       `json:"id"`
	Memory      int64       `json:"memory"`              // bytes
	MIG         bool        `json:"mig"`                 // divided into instances
	MIGPending  bool        `json:"migPending"`          // will be after a reset
	Instances   []MIGDevice `json:"instances"`           // of a divided GPU
	ECC         bool        `json:"ecc"`                 // error correction is on
	ECCErrors   int64       `json:"eccErrors"`           // uncorrectable ones since the driver was loaded
	RowsFailing bool        `json:"rowsFailing"`         // remapping of bad memory rows is pending or has failed: the card wants a reset, or replacement
	Retiring    bool        `json:"retiring,omitempty"`  // bad memory pages are retired at the next reset (before Turing, in place of rows)
	Retired     int64       `json:"retired,omitempty"`   // memory pages that are retired for errors of two bits
	WornOut     bool        `json:"wornOut,omitempty"`   // more errors in the chip's own memory (SRAM) than NVIDIA allows
	Repairing   bool        `json:"repairing,omitempty"` // a part of the chip or its memory is repaired at the next reset
	Recovery    string      `json:"recovery,omitempty"`  // what the driver asks for: "Reset", "Reboot", "Drain P2P", "Drain and Reset"; empty: nothing
	Lost        bool        `json:"lost,omitempty"`      // nvidia-smi has errors in place of its PCI id, its temperature or its memory: the card no longer answers
	Virtual     string      `json:"virtual"`             // "Pass-Through", "None", "VGPU"…
	Persistence bool        `json:"persistence"`         // the driver stays initialised without clients
	Link        PCIeLink    `json:"link"`
	Slowed      []string    `json:"slowed"` // why the hardware slows its clocks now: "heat", "power brake", "hardware"
	Celsius     int         `json:"celsius"`
}

// PCIeLink is the link between a GPU and the machine. 0 means unknown. An idle GPU lowers the
// generation to save power, but never the width.
type PCIeLink struct {
	Generation    int `json:"generation"`
	MaxGeneration int `json:"maxGeneration"` // of GPU and slot together
	Width         int `json:"width"`         // lanes
	MaxWidth      int `json:"maxWidth"`      // that the GPU can use
}

// MIGDevice is one instance of a divided GPU.
type MIGDevice struct {
	Index           int   `json:"index"`
	GPUInstance     int   `json:"gpuInstance"`
	ComputeInstance int   `json:"computeInstance"`
	Memory          int64 `json:"memory"` // bytes
}

// smiLog mirrors the parts of NVIDIA's nvsmi_device_v12.dtd (and v13) that we read.
type smiLog struct {
	XMLName xml.Name `xml:"nvidia_smi_log"`
	Driver  string   `xml:"driver_version"`
	CUDA    string   `xml:"cuda_version"`
	GPUs    []smiGPU `xml:"gpu"`
}

type smiGPU struct {
	Address     string   `xml:"id,attr"`
	Name        string   `xml:"product_name"`
	UUID        string   `xml:"uuid"`
	Persistence string   `xml:"persistence_mode"`
	Virtual     string   `xml:"gpu_virtualization_mode>virtualization_mode"`
	Device      string   `xml:"pci>pci_device_id"`
	Subsystem   string   `xml:"pci>pci_sub_system_id"`
	Memory      string   `xml:"fb_memory_usage>total"`
	MIG         string   `xml:"mig_mode>current_mig"`
	MIGPending  string   `xml:"mig_mode>pending_mig"`
	Instances   []smiMIG `xml:"mig_devices>mig_device"`
	ECC         string   `xml:"ecc_mode>current_ecc"`
	SRAM        string   `xml:"ecc_errors>volatile>sram_uncorrectable"`        // before branch 535
	SRAMParity  string   `xml:"ecc_errors>volatile>sram_uncorrectable_parity"` // from 535 on, in two parts
	SRAMSecDed  string   `xml:"ecc_errors>volatile>sram_uncorrectable_secded"`
	DRAM        string   `xml:"ecc_errors>volatile>dram_uncorrectable"`
	Gen         string   `xml:"pci>pci_gpu_link_info>pcie_gen>current_link_gen"`
	MaxGen      string   `xml:"pci>pci_gpu_link_info>pcie_gen>max_link_gen"`
	Width       string   `xml:"pci>pci_gpu_link_info>link_widths>current_link_width"`
	MaxWidth    string   `xml:"pci>pci_gpu_link_info>link_widths>max_link_width"`
	Temperature string   `xml:"temperature>gpu_temp"`
	Slow        smiSlow  `xml:"clocks_event_reasons"`
	SlowOld     smiSlow  `xml:"clocks_throttle_reasons"`              // before branch 535
	DoubleBit   string   `xml:"ecc_errors>volatile>double_bit>total"` // before Turing
	SRAMLimit   string   `xml:"ecc_errors>aggregate>sram_threshold_exceeded"`
	Channel     string   `xml:"ecc_errors>channel_repair_pending"`
	TPC         string   `xml:"ecc_errors>tpc_repair_pending"`
	Retired     string   `xml:"retired_pages>double_bit_retirement>retired_count"`
	Retiring    string   `xml:"retired_pages>pending_retirement"`
	RetiringOld string   `xml:"retired_pages>pending_blacklist"`
	Recovery    string   `xml:"gpu_recovery_action"`
	Reset       string   `xml:"gpu_reset_status>reset_required"` // before branch 570
	Drain       string   `xml:"gpu_reset_status>drain_and_reset_recommended"`
	RowsPending string   `xml:"remapped_rows>remapped_row_pending"`
	RowsFailure string   `xml:"remapped_rows>remapped_row_failure"`
}

// smiSlow has the reasons for lower clocks under their names since branch 535 and before it.
type smiSlow struct {
	Hardware    string `xml:"clocks_event_reason_hw_slowdown"`
	Heat        string `xml:"clocks_event_reason_hw_thermal_slowdown"`
	Power       string `xml:"clocks_event_reason_hw_power_brake_slowdown"`
	HardwareOld string `xml:"clocks_throttle_reason_hw_slowdown"`
	HeatOld     string `xml:"clocks_throttle_reason_hw_thermal_slowdown"`
	PowerOld    string `xml:"clocks_throttle_reason_hw_power_brake_slowdown"`
}

// reasons returns why the hardware slows the clocks; "hardware" stands for one that it does not
// name.
func (s smiSlow) reasons() []string {
	var out []string
	for _, r := range [][3]string{{s.Heat, s.HeatOld, "heat"}, {s.Power, s.PowerOld, "power brake"}} {
		if r[0] == "Active" || r[1] == "Active" {
			out = append(out, r[2])
		}
	}
	if len(out) == 0 && (s.Hardware == "Active" || s.HardwareOld == "Active") {
		out = append(out, "hardware")
	}
	return out
}

type smiMIG struct {
	Index           string `xml:"index"`
	GPUInstance     string `xml:"gpu_instance_id"`
	ComputeInstance string `xml:"compute_instance_id"`
	Memory          string `xml:"fb_memory_usage>total"`
}

// ParseSMI reads the output of `nvidia-smi -q -x`. If the program reports an error instead,
// that is one of the Err values, with the program's message.
func ParseSMI(out []byte) (SMI, error) {
	if !bytes.Contains(out, []byte("<nvidia_smi_log")) {
		return SMI{}, smiRefusal(string(out))
	}
	var log smiLog
	if err := xml.Unmarshal(out, &log); err != nil {
		return SMI{}, fmt.Errorf("nvidia-smi: %w", err)
	}
	s := SMI{Driver: log.Driver, CUDA: log.CUDA}
	for i, g := range log.GPUs {
		s.GPUs = append(s.GPUs, g.read(i))
	}
	return s, nil
}

// read reads one GPU. One that has failed may answer with errors in place of values, its id among
// them: it must not hide the others.
func (g smiGPU) read(index int) SMIGPU {
	id, err := ParsePCIID(g.Device)
	if sub, none := ParsePCIID(g.Subsystem); err == nil && none == nil {
		id.SubVendor, id.SubDevice = sub.Vendor, sub.Device
	}
	out := SMIGPU{
		Index: index, Name: g.Name, UUID: g.UUID, Address: g.Address, ID: id,
		Memory:      memory(g.Memory),
		MIG:         g.MIG == "Enabled",
		MIGPending:  g.MIGPending == "Enabled",
		ECC:         g.ECC == "Enabled",
		ECCErrors:   count(g.SRAM) + count(g.SRAMParity) + count(g.SRAMSecDed) + count(g.DRAM) + count(g.DoubleBit),
		RowsFailing: g.RowsPending == "Yes" || g.RowsFailure == "Yes",
		Lost:        err != nil && g.Device != "N/A" || g.reports("Unknown Error", "GPU is lost", "ERR!"),
		Retiring:    g.Retiring == "Yes" || g.RetiringOld == "Yes",
		Retired:     count(g.Retired),
		WornOut:     g.SRAMLimit == "Yes",
		Repairing:   g.Channel == "Yes" || g.TPC == "Yes",
		Recovery:    g.recovery(),
		Virtual:     g.Virtual,
		Persistence: g.Persistence == "Enabled",
		Link:        PCIeLink{Generation: int(count(g.Gen)), MaxGeneration: int(count(g.MaxGen)), Width: lanes(g.Width), MaxWidth: lanes(g.MaxWidth)},
		Slowed:      append(g.Slow.reasons(), g.SlowOld.reasons()...),
		Celsius:     int(count(strings.TrimSuffix(g.Temperature, " C"))),
	}
	for _, m := range g.Instances {
		out.Instances = append(out.Instances, MIGDevice{
			Index: int(count(m.Index)), GPUInstance: int(count(m.GPUInstance)), ComputeInstance: int(count(m.ComputeInstance)), Memory: memory(m.Memory),
		})
	}
	return out
}

// reports reports whether one of the errors stands in place of a value that every card has.
func (g smiGPU) reports(messages ...string) bool {
	return slices.ContainsFunc([]string{g.Name, g.UUID, g.Memory, g.Temperature}, func(value string) bool {
		return slices.ContainsFunc(messages, func(e string) bool { return strings.Contains(value, e) })
	})
}

// recoveries are words that ask for something; others, such as N/A and [Not Supported], are errors
// of the question.
var recoveries = regexp.MustCompile(`^(GPU |Node )?(Reset|Reboot|Drain)|^Recover`)

// recovery returns what the driver asks for, in its words since branch 570.
func (g smiGPU) recovery() string {
	switch asked := strings.TrimSpace(g.Recovery); {
	case recoveries.MatchString(asked):
		return asked
	case g.Reset == "Yes", g.reports("requires reset"):
		return "Reset"
	case g.Drain == "Yes":
		return "Drain and Reset"
	}
	return ""
}

// lanes reads "16x"; anything else, such as "N/A", is 0.
func lanes(s string) int { return int(count(strings.TrimSuffix(strings.TrimSpace(s), "x"))) }

// memory reads "40960 MiB"; anything else, such as "N/A", is 0.
func memory(s string) int64 {
	number, ok := strings.CutSuffix(strings.TrimSpace(s), " MiB")
	if !ok {
		return 0
	}
	const most = 1 << 40 // in MiB, so that nothing overflows
	return min(count(number), most) << 20
}

// count reads a number; anything else, such as "N/A", is 0.
func count(s string) int64 {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 31)
	if err != nil {
		return 0
	}
	return int64(n)
}

// smiRefusal classifies nvidia-smi's message. This is the only place that matches its text.
func smiRefusal(said string) error {
	said = strings.Join(lines(said), " ")
	kind := errors.New("nvidia-smi gave no report")
	switch {
	case strings.Contains(said, "version mismatch"):
		kind = ErrVersionMismatch
	case strings.Contains(said, "couldn't communicate with the NVIDIA driver"), strings.Contains(said, "Driver Not Loaded"):
		kind = ErrNotLoaded
	case strings.Contains(said, "Unable to determine the device handle"), strings.Contains(said, "GPU is lost"):
		kind = ErrLost
	case strings.Contains(said, "No devices were found"):
		kind = ErrNoDevices
	case said == "":
		return errors.New("nvidia-smi printed nothing")
	case strings.Contains(said, "nvidia-smi") && (strings.Contains(said, "not found") || strings.Contains(said, "No such file")):
		return ErrNotInstalled
	}
	const most = 300
	if len(said) > most {
		said = said[:most] + "…"
	}
	return fmt.Errorf("%w: %s", kind, strings.ToValidUTF8(said, "?"))
}
