package nvidia

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
)

// DiffPackages says which packages are missing or not held, and whether the modules are built.
// On a machine without a GPU, such as one in which a template is made, nothing more can be
// checked.
func (r Recipe) DiffPackages(s DriverState) converge.Diff {
	return append(r.diffInstalled(s), r.diffBuilt(s)...)
}

// FieldMode is the path of the difference between the present and the wanted source of the
// modules: prebuilt and signed, or built by DKMS.
const FieldMode = "mode"

// ModulePath begins the paths of modules that DKMS has not built for the kernel that starts next.
const ModulePath = "module/"

// diffInstalled compares only packages. Another source or flavour of the modules is a
// difference of its own, because packages are removed.
func (r Recipe) diffInstalled(s DriverState) converge.Diff {
	var d converge.Diff
	others := r.otherPackages(s)
	note := "packages to remove: " + strings.Join(others, ", ")
	switch {
	case slices.ContainsFunc(others, r.otherMode):
		d = append(d, converge.Field{Path: FieldMode, Have: mode(!r.Build), Want: r.mode(), Effect: converge.Restart, Note: note})
	case len(others) > 0: // the loaded one may be different
		d = append(d, converge.Field{Path: "flavour", Have: flavourOf(r.Flavour != Open), Want: string(r.Flavour), Note: note})
	}
	return append(d, packages(r.Packages(), r.HoldsOn(s), s)...)
}

// Diff returns the differences between the wanted and the present driver: its packages, and
// what is loaded.
func (r Recipe) Diff(s DriverState) converge.Diff {
	diff := append(r.DiffPackages(s), r.diffFabric(s)...)
	if s.mismatchNVML() {
		return append(diff, converge.Field{
			Path: "driver", Have: "module " + s.Loaded, Want: "module and libraries of one version", Effect: converge.Restart,
			Note: "a driver was installed over the one that is loaded, and no program can use a GPU until the machine restarts: drain the node, restart it, and hold kernel and driver",
		})
	}
	if s.Loaded == "" {
		return append(diff, converge.Field{Path: "driver", Have: "not loaded", Want: r.String(), Effect: converge.Restart, Note: whyNotLoaded(s)})
	}
	if branch, _, _ := strings.Cut(s.Loaded, "."); branch != fmt.Sprint(r.Branch) {
		return append(diff, converge.Field{Path: "driver", Have: s.Loaded, Want: r.String(), Effect: converge.Restart, Note: "the installed driver loads at the next boot"})
	}
	if open := r.Flavour == Open; s.LoadedOpen != open {
		return append(diff, converge.Field{Path: "driver", Have: flavourOf(s.LoadedOpen) + " modules", Want: flavourOf(open) + " modules", Effect: converge.Restart, Note: "the installed driver loads at the next boot"})
	}
	return diff
}

// DiffGPUs says whether the driver has brought up as many GPUs as the machine has.
func DiffGPUs(s DriverState, want int) converge.Diff {
	if len(s.GPUs()) == want {
		return nil
	}
	return converge.Diff{{
		Path: "gpus", Have: fmt.Sprint(len(s.GPUs())), Want: fmt.Sprint(want), Effect: converge.Restart, Note: whyNotLoaded(s),
	}}
}

// diffPackages says which of the toolkit's packages are missing, of another
// version, or not held.
func (t Toolkit) diffPackages(s DriverState) converge.Diff {
	return packages(t.packages(), t.holds(), s)
}

// Stale reports whether a machine has the toolkit in another version, or only a part of it.
func (t Toolkit) Stale(s DriverState) bool {
	return s.Runtime != "" && !onlyHolds(t.diffPackages(s))
}

// Diff returns the differences between the wanted and the present toolkit: its packages, and
// whether K3s has found it. The latter is not checked until K3s has started once.
func (t Toolkit) Diff(s DriverState) converge.Diff {
	diff := t.diffPackages(s)
	if s.Containerd.Template != "" {
		diff = append(diff, converge.Field{
			Path: "containerd", Have: s.Containerd.Template, Effect: converge.Restart,
			Note: "the template overrides what K3s detects: remove the file and restart K3s",
		})
	}
	if s.Runtime == "" {
		return append(diff, converge.Field{Path: "runtime", Have: "no nvidia-container-runtime", Want: "nvidia-container-runtime in PATH", Effect: converge.Create, Note: "install " + t.holds()[0]})
	}
	if s.Containerd.CRIO && !s.Containerd.NVIDIA {
		return append(diff, converge.Field{
			Path: "containerd", Have: "no runtime nvidia", Want: "runtime nvidia", Effect: converge.Update,
			Note: "CRI-O looks for NVIDIA's runtime at its start: restart crio; pods keep running",
		})
	}
	if s.Containerd.Configured && !s.Containerd.NVIDIA {
		diff = append(diff, converge.Field{
			Path: "containerd", Have: "no runtime nvidia", Want: "runtime nvidia", Effect: converge.Restart,
			Note: "the toolkit was installed after K3s had started, and K3s detects it only at start: restart k3s-agent (or k3s, on a server)",
		})
	}
	return diff
}

// holdPath begins the paths of packages that may change by themselves.
const holdPath = "hold/"

func packages(want, holds []string, s DriverState) converge.Diff {
	var diff converge.Diff
	for _, p := range want {
		name := bare(p)
		have, ok := s.Packages[name]
		_, version, pinned := strings.Cut(p, "=")
		switch {
		case !ok:
			diff = append(diff, converge.Field{Path: "package/" + name, Want: "installed", Effect: converge.Create})
		case pinned && have != version:
			diff = append(diff, converge.Field{Path: "package/" + name, Have: have, Want: version, Effect: converge.Restart})
		}
	}
	for _, name := range holds {
		if !slices.Contains(s.Held, name) {
			diff = append(diff, converge.Field{Path: holdPath + name, Have: "may change by itself", Want: "held"})
		}
	}
	return diff
}

func flavourOf(open bool) string {
	if open {
		return string(Open)
	}
	return string(Proprietary)
}

func whyNotLoaded(s DriverState) string {
	for _, f := range ExplainLog(s.Log) {
		if f.Stops {
			return f.Means + ": " + f.Do + fmt.Sprintf(" (%q)", f.Line)
		}
	}
	if s.SMIError == nil {
		return ""
	}
	for _, c := range [][2]string{
		{"No devices were found", "the module is loaded but sees no GPU: is the mapping attached to the VM?"},
		{"couldn't communicate with the NVIDIA driver", "no module is loaded: the modules are for another kernel than the running one, or there is no GPU in the machine; restart it, then look at dmesg"},
	} {
		if strings.Contains(s.SMIError.Error(), c[0]) {
			return c[1] + fmt.Sprintf(" (%q)", c[0])
		}
	}
	return s.SMIError.Error()
}
