package gpu

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cps-gpu/homelab/sim/guest/internal/archive"
	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// Programs returns NVIDIA's programs, and those that build and find its driver.
func Programs() map[string]machine.Program {
	return map[string]machine.Program{
		"nvidia-smi":               runSMI,
		"nvidia-container-runtime": runToolkit, "nvidia-container-runtime.cdi": runToolkit, "nvidia-ctk": runToolkit, "nvidia-container-cli": runToolkit,
		"vectorAdd":      runVectorAdd,
		"gpu-python3":    runPython,
		"ubuntu-drivers": runUbuntuDrivers,
		"dkms":           runDKMS,
	}
}

// Vendor is NVIDIA's number.
const Vendor = 0x10de

// chip is what the simulator needs to know of a GPU.
type chip struct {
	Name   string
	memory int // MiB
	arch   architecture
	cc     string // compute capability
}

type architecture int

const (
	maxwell architecture = iota
	pascal
	volta
	turing
	ampere
	ada
	hopper
	blackwell
)

func (a architecture) String() string {
	return [...]string{"Maxwell", "Pascal", "Volta", "Turing", "Ampere", "Ada Lovelace", "Hopper", "Blackwell"}[a]
}

// chips are those of the presets and of common homelabs, by PCI device id.
func chips() map[uint16]chip {
	return map[uint16]chip{
		0x1db4: {"Tesla V100-PCIE-16GB", 16384, volta, "7.0"},
		0x1b38: {"Tesla P40", 24576, pascal, "6.1"},
		0x1b06: {"NVIDIA GeForce GTX 1080 Ti", 11264, pascal, "6.1"},
		0x17fd: {"Tesla M40", 11448, maxwell, "5.2"},
		0x1eb8: {"Tesla T4", 15360, turing, "7.5"},
		0x20f1: {"NVIDIA A100-PCIE-40GB", 40960, ampere, "8.0"},
		0x20b5: {"NVIDIA A100 80GB PCIe", 81920, ampere, "8.0"},
		0x20b0: {"NVIDIA A100-SXM4-40GB", 40960, ampere, "8.0"},
		0x20b2: {"NVIDIA A100-SXM4-80GB", 81920, ampere, "8.0"},
		0x20b7: {"NVIDIA A30", 24576, ampere, "8.0"},
		0x2235: {"NVIDIA A40", 46068, ampere, "8.6"},
		0x2204: {"NVIDIA GeForce RTX 3090", 24576, ampere, "8.6"},
		0x2684: {"NVIDIA GeForce RTX 4090", 24564, ada, "8.9"},
		0x26b9: {"NVIDIA L40S", 46068, ada, "8.9"},
		0x27b8: {"NVIDIA L4", 23034, ada, "8.9"},
		0x2330: {"NVIDIA H100 80GB HBM3", 81559, hopper, "9.0"},
		0x2331: {"NVIDIA H100 PCIe", 81559, hopper, "9.0"},
		0x2335: {"NVIDIA H200", 143771, hopper, "9.0"},
		0x2901: {"NVIDIA B200", 183359, blackwell, "10.0"},
		0x2b85: {"NVIDIA GeForce RTX 5090", 32607, blackwell, "12.0"},
		0x2bb1: {"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 97887, blackwell, "12.0"},
	}
}

// Card is a GPU that is plugged into the guest.
type Card struct {
	machine.PCI
	chip
	known bool

	mig, pending bool // in MIG mode, now and after a reset
	instances    []instance
}

// Cards are NVIDIA's display functions in PCI order, whether or not they work.
func Cards(pci []machine.PCI) []Card {
	var out []Card
	for _, p := range pci {
		if p.Vendor != Vendor || p.Class>>16 != 0x03 {
			continue
		}
		c := Card{PCI: p}
		if c.chip, c.known = chips()[p.Device]; !c.known {
			c.chip = chip{Name: "NVIDIA Graphics Device", memory: 16384, arch: ampere, cc: "8.0"}
		}
		if p.Model != "" {
			c.Name = p.Model
		}
		if c.UUID == "" {
			h := fmt.Sprintf("%x", sha256.Sum256([]byte(p.Host+p.Address)))
			c.UUID = fmt.Sprintf("GPU-%s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:32])
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Card) int { return strings.Compare(a.Address, b.Address) })
	return out
}

// Driver is NVIDIA's kernel module as it is loaded.
type Driver struct {
	Branch  string // "580-server"
	Open    bool
	Version string // "580.173.02"
	usable  []Card // those that it could bring up
	// unsigned is one that DKMS has built: its signature is of a key that no firmware has.
	unsigned bool
	// contained is one of a container, which has its libraries too.
	contained bool
}

// nvidia is the driver of a running system, when it is loaded.
type nvidia struct{ p atomic.Pointer[Driver] }

func loadedDriver(s *machine.System) *Driver { return machine.StateOf[nvidia](s).p.Load() }

// upstream takes Ubuntu's part from a package version.
func upstream(version string) string {
	version, _, _ = strings.Cut(version, "-")
	return version
}

var moduleForKernel = regexp.MustCompile(`^linux-modules-nvidia-(\d+(?:-server)?)(-open)?-(\d[\w.-]*-generic)$`)

// InstalledDriver finds the module that is installed for a kernel: prebuilt, or built by
// DKMS, which depmod looks for first.
func InstalledDriver(os *disk.Disk, kernel string) *Driver {
	if data, err := disk.ViewOf(os).ReadFile(dkmsModule(kernel)); err == nil {
		if f := strings.Fields(string(data)); len(f) == 3 {
			return &Driver{Branch: f[0], Version: f[1], Open: f[2] == "open", unsigned: true}
		}
	}
	all := disk.Database(os)
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(all))) {
		if m := moduleForKernel.FindStringSubmatch(name); m != nil && m[3] == kernel {
			return &Driver{Branch: m[1], Open: m[2] != "", Version: upstream(archive.DriverVersion(m[1]))}
		}
	}
	return nil
}

// refuses says, in the module's words, why it does not drive a card. It has them in two lines
// in the logs that people publish.
func (d *Driver) refuses(c Card) string {
	where := fmt.Sprintf("NVRM: The NVIDIA GPU %s (PCI ID: %04x:%04x)\nNVRM:", c.Address, c.Vendor, c.Device)
	number := 0
	_, _ = fmt.Sscanf(d.Branch, "%d", &number)
	switch {
	case d.Open && c.arch < turing:
		return where + " installed in this system is not supported by open nvidia.ko because it does not include the required GPU System Processor (GSP)."
	case !d.Open && c.arch >= blackwell:
		return where + " installed in this system requires use of the NVIDIA open kernel modules."
	case number > 580 && c.arch < turing, number < 570 && c.arch >= blackwell, number < 525 && c.arch >= hopper:
		return where + " installed in this system is not supported by the NVIDIA " + d.Version + " driver release."
	}
	return ""
}

// ErrModuleMissing is what a kernel without the module says.
var ErrModuleMissing = errors.New("not found in directory")

// Load loads the module. At boot udev does so, and only where a card is.
func Load(s *machine.System, atBoot bool) error {
	cards := Cards(s.Config.PCI)
	if atBoot {
		resetCards(s)
	}
	if loadedDriver(s) != nil || atBoot && len(cards) == 0 || blacklisted(s, "nvidia") && atBoot {
		return nil
	}
	d := InstalledDriver(s.Config.Disk, s.Kernel())
	if d == nil {
		return fmt.Errorf("FATAL: Module nvidia %w /lib/modules/%s", ErrModuleMissing, s.Kernel())
	}
	if d.unsigned && s.Config.SecureBoot { // kernel/module/signing.c
		s.Kmsg("Loading of module with unavailable key is rejected")
		return errors.New("ERROR: could not insert 'nvidia': Key was rejected by service")
	}
	broken := s.Faulty(func(f machine.Faults) bool { return f.DriverFailsToLoad })
	alone := s.Faulty(func(f machine.Faults) bool { return f.SecondGPUFails })
	all := disk.Database(s.Config.Disk)
	firmware := all["nvidia-firmware-"+d.Branch].Version+all["firmware-nvidia-gsp"].Version != ""
	for i, c := range cards {
		why := d.refuses(c)
		if why == "" && d.Open && !firmware {
			why = fmt.Sprintf("NVRM: GPU %s: RmInitAdapter failed! (no GSP firmware)", c.Address)
		}
		if why == "" && (broken || alone && i > 0) {
			why = fmt.Sprintf("NVRM: GPU %s: RmInitAdapter failed! (0x62:0x56:2477)", c.Address)
		}
		if why != "" {
			for line := range strings.SplitSeq(why, "\n") {
				s.Kmsg("%s", line)
			}
			continue
		}
		d.usable = append(d.usable, c)
	}
	if len(d.usable) == 0 {
		s.Kmsg("NVRM: None of the NVIDIA devices were initialized.")
		return errors.New("ERROR: could not insert 'nvidia': No such device")
	}
	machine.StateOf[nvidia](s).p.Store(d)
	nvidiaFiles(s, d)
	return nil
}

func nvidiaFiles(s *machine.System, d *Driver) {
	flavour := "NVIDIA UNIX x86_64 Kernel Module"
	if d.Open {
		flavour = "NVIDIA UNIX Open Kernel Module for x86_64"
	}
	s.Kmsg("nvidia: loading NVIDIA UNIX Kernel Module  %s", d.Version)
	s.Put("/proc/driver/nvidia/version", "NVRM version: "+flavour+"  "+d.Version+"  Release Build  (buildd@simulated)\nGCC version:  gcc version 13.3.0\n", 0o444)
	s.Put("/sys/module/nvidia/version", d.Version+"\n", 0o444)
	for i, c := range d.usable {
		s.Put(fmt.Sprintf("/proc/driver/nvidia/gpus/%s/information", c.Address), fmt.Sprintf(
			"Model: \t\t %s\nGPU UUID: \t %s\nBus Location: \t %s\nDevice Minor: \t %d\n", c.Name, c.UUID, c.Address, i), 0o444)
		s.Put(fmt.Sprintf("/dev/nvidia%d", i), "", 0o666)
	}
	s.Put("/dev/nvidiactl", "", 0o666)
	s.AddModules(d.Version, "nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm")
}

func blacklisted(s *machine.System, module string) bool {
	v := s.Root()
	entries, _ := v.ReadDir("/etc/modprobe.d")
	for _, e := range entries {
		data, _ := v.ReadFile("/etc/modprobe.d/" + e.Name())
		if slices.Contains(disk.Lines(data), "blacklist "+module) {
			return true
		}
	}
	return false
}

// NVML is what happens when a program opens NVIDIA's library: the cards, or why not.
func NVML(s *machine.System) ([]Card, *NVMLError) {
	d := loadedDriver(s)
	if d == nil {
		return nil, &NVMLError{9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n"}
	}
	library := ""
	if d.contained {
		library = d.Version
	}
	for name, p := range disk.Database(s.Config.Disk) {
		if strings.HasPrefix(name, "libnvidia-compute-") || name == "libnvidia-ml1" {
			library = upstream(p.Version)
		}
	}
	switch {
	case library == "":
		return nil, &NVMLError{12, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is properly installed and present in your system.\nPlease also try adding directory that contains libnvidia-ml.so to your system PATH.\n"}
	case library != d.Version:
		branch, _, _ := strings.Cut(library, ".")
		return nil, &NVMLError{18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: " + branch + library[len(branch):] + "\n"}
	case len(d.usable) == 0:
		return nil, &NVMLError{6, "No devices were found\n"}
	}
	return withInstances(s, d.usable), nil
}

// NVMLError is nvidia-smi's last word.
type NVMLError struct {
	code int
	text string
}

// VisibleCards are those of the machine's cards that a container was given. Of a divided card it sees
// the instances that it was given, or all.
func VisibleCards(b *machine.Box, all []Card) []Card {
	switch b.Visible {
	case "void", "none":
		return nil
	case "all":
		return all
	case "":
		return all[:min(b.Count, len(all))]
	}
	var out []Card
	names := strings.Split(b.Visible, ",")
	for i, c := range all {
		given := slices.DeleteFunc(c.usable(), func(i instance) bool { return !slices.Contains(names, i.uuid) })
		switch {
		case slices.Contains(names, c.UUID) || slices.Contains(names, strconv.Itoa(i)):
			out = append(out, c)
		case len(given) > 0:
			c.instances = given
			out = append(out, c)
		}
	}
	return out
}

// Instance is a part of a divided card that programs can use.
type Instance struct{ UUID, Profile string }

// Divided reports whether a card is in MIG mode, and its instances.
func (c Card) Divided() (mig bool, all []Instance) {
	for _, i := range c.usable() {
		all = append(all, Instance{i.uuid, i.name})
	}
	return c.mig, all
}
