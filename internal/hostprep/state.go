package hostprep

import (
	"bytes"
	"context"
	_ "embed" // the script below
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
	"github.com/cps-gpu/homelab/remote"
)

//go:embed observe.sh
var observeScript string

// Loader is the boot loader of the host. It determines where the kernel's command line is.
type Loader string

// The loaders that Proxmox VE uses.
const (
	GRUB        Loader = "GRUB"
	SystemdBoot Loader = "systemd-boot"
)

// State is the observed state of a host.
type State struct {
	Host     string // its own name
	Version  string // of Proxmox VE, e.g. 9.0.3
	Kernel   string // running, e.g. 6.14.8-2-pve
	Intel    bool   // the processors' vendor is Intel; false: AMD
	UEFI     bool
	Loaders  []Loader // usually one; an ESP can hold both; none: the ESPs could not be read
	ESPs     bool     // proxmox-boot-tool manages the ESPs
	Cmdline  string   // of the running kernel
	Booted   time.Time
	BootID   string
	IOMMU    bool // IOMMU groups exist
	Devices  []Device
	Files    []File   // the configuration of boot loader and modules, in the order in which it is read
	Guests   []string // running: "VM 100", "container 101"
	NVIDIACT []string // configurations of containers that name NVIDIA devices
}

// Device is one PCI function of the host.
type Device struct {
	pci.Function
	Driver   string // that holds it on the host; empty: none
	NUMANode int    // -1: the host has only one, or does not report it
	BootVGA  bool   // the firmware used it for its screen, and the console is on it
}

// File is a file of the host.
type File struct {
	Path    string // after following links
	Text    string
	Mode    uint32 // permission bits
	Changed time.Time
}

// Observe reads the state of the host behind r, which must be root there, in one round trip. A
// machine that is not a Proxmox VE host is an error.
func Observe(ctx context.Context, r remote.Runner) (State, error) {
	out, err := remote.Output(ctx, r, "sh", "-c", observeScript, "observe.sh")
	if err != nil {
		return State{}, fmt.Errorf("look at the host: %w", err)
	}
	s, err := parseState(out)
	if err != nil {
		return State{}, fmt.Errorf("look at the host: %w", err)
	}
	return s, nil
}

// section is a part of the output of observe.sh.
type section struct{ name, text string }

func sections(out []byte) []section {
	var all []section
	for _, part := range bytes.Split(out, []byte("\n@@ "))[1:] {
		name, text, _ := bytes.Cut(part, []byte("\n"))
		all = append(all, section{string(name), string(text)})
	}
	return all
}

func parseState(out []byte) (State, error) {
	var s State
	text := map[string]string{}
	for _, part := range sections(out) {
		if name, ok := strings.CutPrefix(part.name, "file "); ok {
			if f, ok := parseFile(name, part.text); ok && !slices.ContainsFunc(s.Files, func(o File) bool { return o.Path == f.Path }) {
				s.Files = append(s.Files, f)
			}
			continue
		}
		text[part.name] = strings.TrimSpace(part.text)
	}
	if _, whole := text["end"]; !whole {
		return s, fmt.Errorf("the output was truncated after %d bytes", len(out))
	}
	rest, ok := strings.CutPrefix(text["version"], "pve-manager/")
	if !ok {
		return s, errors.New("it is not a Proxmox VE host, or the login is not root's: pveversion prints nothing")
	}
	s.Version, _, _ = strings.Cut(rest, "/")
	s.Host, _, _ = strings.Cut(text["hostname"], ".")
	s.Kernel, s.Cmdline, s.BootID = text["kernel"], text["cmdline"], text["bootid"]
	s.Intel = strings.Contains(text["cpu"], "GenuineIntel")
	s.UEFI = text["firmware"] == "efi"
	s.IOMMU = text["groups"] != ""
	s.Booted = seconds(strings.TrimPrefix(text["booted"], "btime "))
	s.Guests, s.NVIDIACT = lines(text["guests"]), lines(text["nvidia-containers"])
	s.Devices = parseDevices(text["pci"], text["names"])
	_, s.ESPs = text["esps"], text["esps"] != ""
	s.Loaders = loaders(text["esps"])
	return s, nil
}

// loaders parses the status of proxmox-boot-tool: "936E-9A3F is configured with: uefi (versions:
// …), grub (versions: …)", where uefi is systemd-boot. A host without ESPs of its own boots with
// GRUB. The status skips an ESP that is missing or cannot be mounted, so a host with ESPs may show
// no loader.
func loaders(status string) []Loader {
	if status == "" {
		return []Loader{GRUB}
	}
	var out []Loader
	for _, line := range lines(status) {
		_, with, ok := strings.Cut(line, " is configured with: ")
		if !ok {
			continue
		}
		if strings.Contains(with, "uefi (") && !slices.Contains(out, SystemdBoot) {
			out = append(out, SystemdBoot)
		}
		if strings.Contains(with, "grub (") && !slices.Contains(out, GRUB) {
			out = append(out, GRUB)
		}
	}
	return out
}

// parseFile parses "644 1763670000 /etc/modules".
func parseFile(name, text string) (File, bool) {
	f := strings.SplitN(name, " ", 3)
	if len(f) != 3 || !strings.HasPrefix(f[2], "/") {
		return File{}, false
	}
	mode, err := strconv.ParseUint(f[0], 8, 32)
	return File{Path: f[2], Text: text, Mode: uint32(mode), Changed: seconds(f[1])}, err == nil
}

// parseDevices parses lines like "0000:01:00.0 0x030000 0x10de 0x2684 1 -1 group=13
// driver=nouveau": the fifth field is boot_vga, the sixth the NUMA node.
func parseDevices(functions, names string) []Device {
	called := map[string]string{}
	for _, line := range lines(names) {
		if address, name, ok := strings.Cut(line, " "); ok {
			called[address] = name
		}
	}
	var out []Device
	for _, line := range lines(functions) {
		f := strings.Fields(line)
		if len(f) != 8 {
			continue
		}
		address, err := proxmox.ParsePCIAddress(f[0])
		if err != nil {
			continue
		}
		hex := func(s string) string { return strings.TrimPrefix(s, "0x") }
		d := Device{
			Function: pci.Function{Address: address, Class: hex(f[1]), Vendor: hex(f[2]), Device: hex(f[3]), IOMMUGroup: -1},
			BootVGA:  f[4] == "1", Driver: strings.TrimPrefix(f[7], "driver="), NUMANode: -1,
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(f[6], "group=")); err == nil {
			d.IOMMUGroup = n
		}
		if n, err := strconv.Atoi(f[5]); err == nil {
			d.NUMANode = n
		}
		// "VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090] (rev a1)"
		if _, name, ok := strings.Cut(called[f[0]], ": "); ok {
			d.Name, _, _ = strings.Cut(name, " (rev")
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b Device) int { return a.Address.Compare(b.Address) })
	return out
}

// file returns a file, or an empty one if it does not exist.
func (s State) file(path string) File {
	i := slices.IndexFunc(s.Files, func(f File) bool { return f.Path == path })
	if i < 0 {
		return File{Path: path}
	}
	return s.Files[i]
}

// filesUnder returns the files that are in one of the folders, or are one of the paths.
func (s State) filesUnder(places ...string) []File {
	return slices.DeleteFunc(slices.Clone(s.Files), func(f File) bool {
		return !slices.ContainsFunc(places, func(p string) bool {
			return f.Path == p || strings.HasSuffix(p, "/") && strings.HasPrefix(f.Path, p)
		})
	})
}

// kernelAtLeast compares the running kernel's series.
func (s State) kernelAtLeast(major, minor int) bool {
	a, rest, _ := strings.Cut(s.Kernel, ".")
	b, _, _ := strings.Cut(rest, ".")
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	return errX == nil && errY == nil && (x > major || x == major && y >= minor)
}

func seconds(s string) time.Time {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(n, 0)
}

func lines(s string) []string {
	var out []string
	for line := range strings.SplitSeq(s, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}
