package nvidia

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/distro"
	"github.com/cps-gpu/homelab/remote"
)

// DriverState is the observed state of a machine's driver.
type DriverState struct {
	Kernel     string            // of the running kernel, e.g. "6.8.0-85-generic"
	Loaded     string            // version of the loaded module, e.g. "580.173.02"; empty: none is loaded
	LoadedOpen bool              // the loaded module is of the open flavour
	Packages   map[string]string // installed packages of the driver and toolkit, with their versions
	Held       []string          // held packages
	Runtime    string            // path of nvidia-container-runtime; empty: missing
	Containerd Containerd
	SMI        SMI           // what nvidia-smi reports; zero if it failed
	SMIError   error         // why it failed: ErrVersionMismatch, ErrNotLoaded, ErrNoDevices or another error
	Log        []string      // the driver's last lines in the kernel's log
	System     string        // of os-release(5), as cluster.yaml names it, e.g. "debian-13"
	Built      []ModuleBuild // output of dkms status
	BuildLog   []string      // the end of the log of a failed DKMS build
	Fabric     Fabric        // switches between the GPUs
}

// GPUs are those that the driver has brought up.
func (s DriverState) GPUs() []SMIGPU { return s.SMI.GPUs }

// mismatchNVML reports whether module and libraries are of different versions.
func (s DriverState) mismatchNVML() bool { return errors.Is(s.SMIError, ErrVersionMismatch) }

// Containerd is K3s' configuration of its containerd, or that of a CRI-O.
type Containerd struct {
	CRIO       bool   // it is CRI-O's
	Configured bool   // K3s has started once and written a configuration
	NVIDIA     bool   // and found NVIDIA's runtime
	Template   string // a template that replaces K3s' own configuration
}

//go:embed observe.sh
var observeScript string

// ObserveDriver reads the state of a machine's driver, in one round trip. It changes nothing,
// and works without a driver; the runner should be root's, to read the kernel's log.
func ObserveDriver(ctx context.Context, r remote.Runner) (DriverState, error) {
	out, err := remote.Output(ctx, r, "sh", "-c", observeScript)
	if err != nil {
		return DriverState{}, fmt.Errorf("look at the NVIDIA driver: %w", err)
	}
	state, err := parseObservation(string(out))
	if err != nil {
		return DriverState{}, fmt.Errorf("look at the NVIDIA driver: %w", err)
	}
	return state, nil
}

const sectionMark = "=== "

func parseObservation(out string) (DriverState, error) {
	sections := map[string]string{}
	var name string
	for line := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(line, sectionMark); ok {
			name = strings.TrimSpace(rest)
			continue
		}
		sections[name] += line
	}
	if _, ok := sections["end"]; !ok {
		return DriverState{}, errors.New("the output is truncated")
	}
	s := DriverState{
		Kernel:   strings.TrimSpace(sections["kernel"]),
		Packages: map[string]string{},
		Held:     strings.Fields(sections["held"]),
		Runtime:  strings.TrimSpace(sections["runtime"]),
		Log:      lines(sections["log"]),
		System:   distro.System(sections["system"]),
		Built:    parseDKMS(sections["dkms"]),
		Fabric:   parseFabric(sections["fabric"]),
		BuildLog: buildLog(lines(sections["make.errors"]), lines(sections["make.log"])),
	}
	s.Loaded, s.LoadedOpen = loadedModule(sections["loaded"])
	for _, line := range lines(sections["packages"]) {
		f := strings.Fields(line)
		if len(f) == 3 && f[2] == "installed" {
			s.Packages[f[0]] = f[1]
		}
	}
	for _, line := range lines(sections["containerd"]) {
		template, ok := strings.CutPrefix(line, "template ")
		switch {
		case ok:
			s.Containerd.Template = template
		default:
			s.Containerd.Configured = true
			s.Containerd.NVIDIA = s.Containerd.NVIDIA || line == "nvidia"
			s.Containerd.CRIO = s.Containerd.CRIO || line == "crio"
		}
	}
	slices.Sort(s.Held)
	s.SMI, s.SMIError = ParseSMI([]byte(strings.TrimSpace(sections["smi"])))
	return s, nil
}

// buildLog returns the end of a log, preceded by its first errors if those are further up:
// compilers run in parallel.
func buildLog(first, end []string) []string {
	first = slices.DeleteFunc(first, func(line string) bool { return slices.Contains(end, line) })
	if len(first) > 0 {
		first = append(first, "…")
	}
	return append(first, end...)
}

// lines splits text and leaves out empty lines.
func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// moduleVersion finds the version in /proc/driver/nvidia/version, whose first
// line is, for example,
// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.173.02  Release Build  (…)".
var moduleVersion = regexp.MustCompile(`(?m)^NVRM version:.*?\s(\d{3}\.\d+(?:\.\d+)?)\s`)

func loadedModule(text string) (version string, open bool) {
	m := moduleVersion.FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	return m[1], strings.Contains(text, "Open Kernel Module")
}
