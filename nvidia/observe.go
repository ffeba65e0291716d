package nvidia

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/remote"
)

// DriverState is what a machine says about its driver.
type DriverState struct {
	Kernel     string            // of the running kernel, e.g. "6.8.0-85-generic"
	Loaded     string            // version of the loaded module, e.g. "580.173.02"; empty: none is loaded
	LoadedOpen bool              // the loaded module is of the open flavour
	Packages   map[string]string // installed packages that concern us, with their versions
	Held       []string          // packages that do not change by themselves
	Runtime    string            // path of nvidia-container-runtime; empty: not there
	Containerd Containerd
	SMI        SMI      // what nvidia-smi reports; zero when it failed
	SMIError   error    // why it failed: ErrVersionMismatch, ErrNotLoaded, ErrNoDevices or other words
	Log        []string // the driver's last words in the kernel's log
	System     string   // ID= of os-release(5)
	Built      []Built  // what DKMS has
	BuildLog   []string // the end of the log of a build of DKMS' that failed
}

// GPUs are those that the driver has brought up.
func (s DriverState) GPUs() []SMIGPU { return s.SMI.GPUs }

// mismatchNVML reports whether module and libraries are of different versions.
func (s DriverState) mismatchNVML() bool { return errors.Is(s.SMIError, ErrVersionMismatch) }

// Containerd is what K3s has told its containerd.
type Containerd struct {
	Configured bool   // K3s has started once and written a configuration
	NVIDIA     bool   // and found NVIDIA's runtime
	Template   string // a file that takes the place of what K3s would write
}

//go:embed observe.sh
var observeScript string

// ObserveDriver asks a machine about its driver, in one round trip. It changes
// nothing, and needs no driver to be there; the runner should be root's, so that
// the kernel's log can be read.
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
		System:   strings.Trim(strings.TrimSpace(sections["system"]), `"'`),
		Built:    parseDKMS(sections["dkms"]),
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
		}
	}
	slices.Sort(s.Held)
	s.SMI, s.SMIError = ParseSMI([]byte(strings.TrimSpace(sections["smi"])))
	return s, nil
}

// buildLog is the end of a log, after the first errors in it where those are before its
// end: compilers run side by side.
func buildLog(errors, end []string) []string {
	errors = slices.DeleteFunc(errors, func(line string) bool { return slices.Contains(end, line) })
	if len(errors) > 0 {
		errors = append(errors, "…")
	}
	return append(errors, end...)
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
