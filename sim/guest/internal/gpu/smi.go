package gpu

import (
	"context"
	"encoding/xml"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// runSMI is nvidia-smi: the table, -L, -q -x, --query-gpu. Texts and exit codes are those of driver
// 580.159.04 with an H100 and an H200.
func runSMI(_ context.Context, p *machine.Proc) int {
	if len(p.Args) > 1 && p.Args[1] == "mig" {
		return smiMIG(p, p.Args[2:])
	}
	if slices.Equal(p.Args[1:], []string{"topo", "-m"}) {
		return smiTopology(p)
	}
	given, mode := slices.Clone(p.Args[1:]), ""
	if at := slices.Index(given, "-mig"); at >= 0 && at+1 < len(given) {
		mode = given[at+1]
		given = slices.Delete(given, at, at+2)
	}
	opts, args := getopt.Parse(given, "i", "id", "d", "f")
	for name := range opts {
		if len(name) > 1 && !slices.Contains([]string{"id", "list-gpus", "query-gpu", "format", "gpu-reset"}, name) {
			args = append(args, "--"+name)
		}
	}
	if len(args) > 0 {
		p.Printf("ERROR: Option %s is not recognized. Please run 'nvidia-smi -h'.\n\n", slices.Min(args))
		return 255
	}
	if getopt.Has(opts, "L", "list-gpus") && getopt.Has(opts, "i", "id") {
		p.Printf("ERROR: Option -i is not valid for this command. Please run 'nvidia-smi -h' for help.\n\n")
		return nvmlInvalid
	}
	cards, failed := visible(p)
	if failed != nil {
		p.Printf("%s", failed.text)
		return failed.code
	}
	numbers := chosenCards(cards, getopt.Last(opts, "i", "id"))
	if len(numbers) == 0 {
		p.Printf("No devices were found\n")
		return nvmlNotFound
	}
	version := LoadedVersion(p.Sys)
	switch {
	case mode != "":
		return smiMode(p, cards, numbers, mode)
	case getopt.Has(opts, "gpu-reset"):
		p.Printf("Resetting GPU %s is not supported.\n", smiBus(cards[numbers[0]])) // of a passed-through card: MIG User Guide
		return 3
	case getopt.Has(opts, "L", "list-gpus"):
		for _, i := range numbers {
			p.Printf("GPU %d: %s (UUID: %s)\n", i, cards[i].Name, cards[i].UUID)
			for n, part := range cards[i].usable() {
				p.Printf("  MIG %-11s Device %2d: (UUID: %s)\n", part.name, n, part.uuid)
			}
		}
	case getopt.Has(opts, "query-gpu"):
		return smiQuery(p, cards, numbers, strings.Split(getopt.Last(opts, "query-gpu"), ","), getopt.Last(opts, "format"))
	case getopt.Has(opts, "q") && getopt.Has(opts, "x"):
		return smiXML(p, cards, numbers, version)
	case getopt.Has(opts, "q"):
		p.Printf("\n==============NVSMI LOG==============\n\nDriver Version : %s\nAttached GPUs : %d\n", version, len(numbers))
	default:
		smiTable(p, cards, numbers, version)
	}
	return 0
}

// chosenCards are the numbers of the cards that -i names; all without it.
func chosenCards(cards []Card, ids string) (numbers []int) {
	for i, c := range cards {
		if at := strings.Split(ids, ","); ids == "" || slices.ContainsFunc([]string{strconv.Itoa(i), c.UUID, smiBus(c)}, func(name string) bool { return slices.Contains(at, name) }) {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// smiTable is what nvidia-smi says without arguments.
func smiTable(p *machine.Proc, cards []Card, numbers []int, version string) {
	line := func(text string) { p.Printf("%s\n", text) }
	rule := func(fill string, widths ...int) string {
		var parts []string
		for _, n := range widths {
			parts = append(parts, strings.Repeat(fill, n))
		}
		return strings.Join(parts, "+")
	}
	line(time.Now().UTC().Format("Mon Jan _2 15:04:05 2006") + "       ")
	line("+" + rule("-", 89) + "+")
	line(fmt.Sprintf("| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %-8s |", version, version, cudaVersion(version)))
	line("+" + rule("-", 41, 24, 22) + "+")
	line("| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |")
	line("| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |")
	line("|                                         |                        |               MIG M. |")
	line("|" + rule("=", 41, 24, 22) + "|")
	for _, i := range numbers {
		c := cards[i]
		line(fmt.Sprintf("| %3d  %-30.30s %-4s|%19s %-3s |%21s |", i, c.Name, "Off", smiBus(c), "Off", "0"))
		line(fmt.Sprintf("| N/A %5s %5s %15s / %5s |%11s / %9s |%8s %12s |", "31C", "P0", "35W", "250W", "0MiB", fmt.Sprintf("%dMiB", c.memory), "0%", "Default"))
		line(fmt.Sprintf("|%41s|%24s|%21s |", "", "", strings.Trim(c.modeWord(c.mig), "[]")))
		line("+" + rule("-", 41, 24, 22) + "+")
	}
	line("\n+" + rule("-", 89) + "+")
	line("| Processes:                                                                              |")
	line("|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |")
	line("|        ID   ID                                                               Usage      |")
	line("|" + rule("=", 89) + "|")
	line("|  No running processes found                                                             |")
	line("+" + rule("-", 89) + "+")
}

// visible are the cards that a program sees: all on the machine, those handed out
// in a container.
func visible(p *machine.Proc) ([]Card, *NVMLError) {
	cards, failed := NVML(p.Sys)
	if failed != nil || p.Box == nil {
		return cards, failed
	}
	if p.Box.Reloads != p.Sys.Reloads.Load() && p.Sys.Faulty(func(f machine.Faults) bool { return f.LosesGPUsOnReload }) {
		return nil, &NVMLError{255, "Failed to initialize NVML: Unknown Error\n"}
	}
	if cards = VisibleCards(p.Box, cards); len(cards) == 0 {
		return nil, &NVMLError{6, "No devices were found\n"}
	}
	return cards, nil
}

// LoadedVersion is that of the driver, "" while none is loaded.
func LoadedVersion(s *machine.System) string {
	d := loadedDriver(s)
	if d == nil {
		return ""
	}
	return d.Version
}

// cudaVersion is the newest CUDA that a driver supports.
func cudaVersion(driver string) string {
	switch branch, _, _ := strings.Cut(driver, "."); branch {
	case "535":
		return "12.2"
	case "550":
		return "12.4"
	case "570":
		return "12.8"
	case "595":
		return "13.2"
	case "610":
		return "13.3"
	}
	return "13.0"
}

// smiBus is an address as nvidia-smi prints it, with an eight-digit domain.
func smiBus(c Card) string { return "0000" + strings.ToUpper(c.Address) }

func smiQuery(p *machine.Proc, cards []Card, numbers []int, fields []string, format string) int {
	parts := strings.Split(format, ",")
	if format != "" && parts[0] != "csv" {
		p.Printf("Format modifier is not recognized.\n")
		return nvmlInvalid
	}
	units := map[string]string{"memory.total": "MiB", "memory.used": "MiB", "memory.free": "MiB", "power.draw": "W", "utilization.gpu": "%"}
	synonyms := map[string]string{"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id"}
	var names []string
	for _, f := range fields {
		f = strings.TrimSpace(f)
		if other, ok := synonyms[f]; ok {
			f = other
		}
		names = append(names, f)
	}
	rows := [][]string{slices.Clone(names)}
	for n, f := range names {
		if units[f] != "" {
			rows[0][n] = fmt.Sprintf("%s [%s]", f, units[f])
		}
	}
	for _, i := range numbers {
		values := smiValues(p, cards, i)
		var row []string
		for _, f := range names {
			v, ok := values[f]
			if !ok {
				p.Printf("Field %q is not a valid field to query.\n\n", f)
				return nvmlInvalid
			}
			if units[f] != "" && !slices.Contains(parts, "nounits") {
				v += " " + units[f]
			}
			row = append(row, v)
		}
		rows = append(rows, row)
	}
	if slices.Contains(parts, "noheader") {
		rows = rows[1:]
	}
	for _, row := range rows {
		p.Printf("%s\n", strings.Join(row, ", "))
	}
	return 0
}

// smiValues are the fields of a card that can be asked for, without units.
func smiValues(p *machine.Proc, cards []Card, i int) map[string]string {
	c := cards[i]
	return map[string]string{
		"index": strconv.Itoa(i), "name": c.Name, "uuid": c.UUID, "driver_version": LoadedVersion(p.Sys),
		"memory.total": strconv.Itoa(c.memory), "memory.used": "0", "memory.free": strconv.Itoa(c.memory), "pci.bus_id": smiBus(c),
		"pci.device_id": fmt.Sprintf("0x%04X%04X", c.Device, c.Vendor), "compute_cap": c.cc, "temperature.gpu": "31", "utilization.gpu": "0",
		"persistence_mode": "Disabled", "mig.mode.current": c.modeWord(c.mig), "mig.mode.pending": c.modeWord(c.pending), "ecc.mode.current": "Enabled", "count": strconv.Itoa(len(cards)),
		"compute_mode": "Default", "power.draw": "35.00", "vbios_version": "92.00.25.00.08", "serial": "[N/A]", "timestamp": time.Now().UTC().Format("2006/01/02 15:04:05.000"),
	}
}

// smiLog is nvidia-smi -q -x, as far as its own DTD's order and names go.
type smiLog struct {
	XMLName   xml.Name `xml:"nvidia_smi_log"`
	Timestamp string   `xml:"timestamp"`
	Driver    string   `xml:"driver_version"`
	CUDA      string   `xml:"cuda_version"`
	Attached  int      `xml:"attached_gpus"`
	GPUs      []smiGPU `xml:"gpu"`
}

type smiGPU struct {
	ID           string `xml:"id,attr"`
	Name         string `xml:"product_name"`
	Brand        string `xml:"product_brand"`
	Architecture string `xml:"product_architecture"`
	Display      string `xml:"display_active"`
	Persistence  string `xml:"persistence_mode"`
	MIG          struct {
		Current string `xml:"current_mig"`
		Pending string `xml:"pending_mig"`
	} `xml:"mig_mode"`
	Instances []smiPart `xml:"mig_devices>mig_device"`
	Serial    string    `xml:"serial"`
	UUID      string    `xml:"uuid"`
	Minor     int       `xml:"minor_number"`
	VBIOS     string    `xml:"vbios_version"`
	PCI       struct {
		Bus       string `xml:"pci_bus"`
		Device    string `xml:"pci_device"`
		Domain    string `xml:"pci_domain"`
		DeviceID  string `xml:"pci_device_id"`
		BusID     string `xml:"pci_bus_id"`
		SubSystem string `xml:"pci_sub_system_id"`
		MaxGen    string `xml:"pci_gpu_link_info>pcie_gen>max_link_gen"`
		Gen       string `xml:"pci_gpu_link_info>pcie_gen>current_link_gen"`
		MaxWidth  string `xml:"pci_gpu_link_info>link_widths>max_link_width"`
		Width     string `xml:"pci_gpu_link_info>link_widths>current_link_width"`
	} `xml:"pci"`
	Memory struct {
		Total    string `xml:"total"`
		Reserved string `xml:"reserved"`
		Used     string `xml:"used"`
		Free     string `xml:"free"`
	} `xml:"fb_memory_usage"`
	BAR1 struct {
		Total string `xml:"total"`
		Used  string `xml:"used"`
		Free  string `xml:"free"`
	} `xml:"bar1_memory_usage"`
	ComputeMode string `xml:"compute_mode"`
	Utilization struct {
		GPU    string `xml:"gpu_util"`
		Memory string `xml:"memory_util"`
	} `xml:"utilization"`
	Temperature struct {
		GPU string `xml:"gpu_temp"`
	} `xml:"temperature"`
}

// smiPart is an instance of a divided card.
type smiPart struct {
	Index   int `xml:"index"`
	GPU     int `xml:"gpu_instance_id"`
	Compute int `xml:"compute_instance_id"`
	Memory  struct {
		Total string `xml:"total"`
	} `xml:"fb_memory_usage"`
}

func smiXML(p *machine.Proc, cards []Card, numbers []int, version string) int {
	log := smiLog{Timestamp: time.Now().UTC().Format("Mon Jan _2 15:04:05 2006"), Driver: version, CUDA: cudaVersion(version), Attached: len(numbers)}
	for _, i := range numbers {
		c := cards[i]
		g := smiGPU{ID: smiBus(c), Name: c.Name, Brand: "NVIDIA", Architecture: c.arch.String(), Display: "Disabled", Persistence: "Disabled",
			Serial: "N/A", UUID: c.UUID, Minor: i, VBIOS: "92.00.25.00.08", ComputeMode: "Default"}
		g.MIG.Current, g.MIG.Pending = strings.Trim(c.modeWord(c.mig), "[]"), strings.Trim(c.modeWord(c.pending), "[]")
		for n, part := range c.usable() {
			one := smiPart{Index: n, GPU: part.number}
			one.Memory.Total = fmt.Sprintf("%d MiB", int(part.gib*1024))
			g.Instances = append(g.Instances, one)
		}
		g.PCI.Domain, g.PCI.Bus, g.PCI.Device = c.Address[:4], strings.ToUpper(c.Address[5:7]), strings.ToUpper(c.Address[8:10])
		g.PCI.DeviceID, g.PCI.BusID = fmt.Sprintf("%04X%04X", c.Device, c.Vendor), smiBus(c)
		g.PCI.MaxGen, g.PCI.Gen, g.PCI.MaxWidth, g.PCI.Width = "4", "1", "16x", "16x" // idle
		g.PCI.SubSystem = fmt.Sprintf("%04X%04X", c.SubDevice, c.SubVendor)
		g.Memory.Total, g.Memory.Reserved, g.Memory.Used, g.Memory.Free = fmt.Sprintf("%d MiB", c.memory), "0 MiB", "0 MiB", fmt.Sprintf("%d MiB", c.memory)
		g.BAR1.Total, g.BAR1.Used, g.BAR1.Free = fmt.Sprintf("%d MiB", c.memory), "1 MiB", fmt.Sprintf("%d MiB", c.memory-1)
		g.Utilization.GPU, g.Utilization.Memory, g.Temperature.GPU = "0 %", "0 %", "31 C"
		log.GPUs = append(log.GPUs, g)
	}
	data, err := xml.MarshalIndent(log, "", "\t")
	if err != nil {
		return p.Fail("%v", err)
	}
	p.Printf("<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n%s\n", data)
	return 0
}
