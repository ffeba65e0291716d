package nvidia

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/apt"
	"github.com/cps-gpu/homelab/internal/distro"
	"github.com/cps-gpu/homelab/remote"
)

// Recipe is a driver and how it is installed on a machine.
type Recipe struct {
	Driver
	System string     // the machine's distribution, as cluster.yaml names it; empty: Ubuntu 24.04
	Build  bool       // DKMS builds the modules on the machine; otherwise they are prebuilt and signed
	Fabric FabricKind // switches between the GPUs, which need the fabric manager; empty: none
	HWE    bool       // the machine runs Ubuntu's newer kernel series (linux-generic-hwe-…), whose modules are packages of their own
}

// ForMachine fits the recipe to the kernel that a machine starts next, and to the switches between its
// GPUs.
func (r Recipe) ForMachine(s DriverState) Recipe {
	first := distro.ByName(r.System).Kernel
	kernel := s.NextKernel()
	r.Fabric = s.Fabric.kind()
	r.HWE = !r.Build && first != "" && kernel != "" && !strings.HasPrefix(kernel, first+".")
	return r
}

// fillNames fills branch, flavour and kernel series into names of packages.
func (r Recipe) fillNames(packages []string) []string {
	names := distro.Fill(packages, r.Branch, r.Flavour == Open)
	for i, name := range names {
		if r.HWE && strings.HasPrefix(name, "linux-") && strings.HasSuffix(name, "-generic") {
			names[i] = name + "-hwe-" + strings.TrimPrefix(distro.ByName(r.System).Name, "ubuntu-")
		}
	}
	return names
}

func (r Recipe) distroDriver() distro.Driver { return distro.ByName(r.System).Driver(r.Build) }

// String names the driver, as the distribution's packages do.
func (r Recipe) String() string {
	name := r.Driver.String()
	if r.source() != nil {
		name = strconv.Itoa(r.Branch) + "-" + string(r.Flavour)
	}
	if r.Build {
		name += ", built by DKMS"
	}
	return name
}

// mode is the word of cluster.yaml for where the modules come from.
func (r Recipe) mode() string { return mode(r.Build) }

func mode(build bool) string {
	if build {
		return "dkms"
	}
	return "prebuilt"
}

// source is the repository of the packages, in addition to the distribution's own; nil: none.
func (r Recipe) source() *distro.Source { return r.distroDriver().Source }

// Packages returns what to install for computing, without a desktop: the kernel, its modules
// or their sources, and NVIDIA's libraries.
func (r Recipe) Packages() []string {
	return append(r.fillNames(r.distroDriver().Packages), r.fabricPackages()...)
}

// Holds returns the driver's packages to hold. What brings new kernels is held in addition, as far as
// a machine has it.
func (r Recipe) Holds() []string {
	return append(r.fillNames(r.distroDriver().Holds), r.fabricPackages()...)
}

// kernelMeta are the packages with which a distribution brings new kernels. Cloud images have others
// than the driver's recipe: unattended-upgrades would install a newer kernel through them, without
// modules, and the next restart would start it.
var kernelMeta = regexp.MustCompile(`^linux-((image|headers)-)?(generic|virtual|lowlatency|kvm|amd64|cloud-amd64)(-hwe-[\d.]+)?$`)

// kernels are the installed packages that bring new kernels, sorted.
func (s DriverState) kernels() []string {
	var out []string
	for name := range s.Packages {
		if kernelMeta.MatchString(name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// HoldsOn are the packages to hold on a machine: Holds, and whatever else would bring another kernel.
func (r Recipe) HoldsOn(s DriverState) []string {
	out := r.Holds()
	for _, name := range s.kernels() {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// KernelWithoutModules names the kernel that a machine starts next if it has no modules of the driver for
// that; empty: it has.
func (r Recipe) KernelWithoutModules(s DriverState) string {
	kernel := s.NextKernel()
	for name := range s.Packages {
		if !r.Build && prebuiltPackage.MatchString(name) && strings.HasSuffix(name, "-"+kernel) {
			return ""
		}
	}
	if r.Build && s.builtFor(kernel) {
		return ""
	}
	return kernel
}

// Patterns of packages with prebuilt modules, with modules that DKMS builds, and of each
// flavour. Canonical's prebuilt ones of both flavours can be installed at once, and then it is
// undefined which is loaded. All others conflict (nvidia-dkms-kernel and
// nvidia-kernel-source), so apt removes the other one, unless it is held.
var (
	prebuiltPackage  = regexp.MustCompile(`^linux-(modules|objects|signatures)-nvidia-`)
	dkmsPackage      = regexp.MustCompile(`^nvidia-dkms-|^nvidia-(open-)?kernel(-open)?-dkms$`)
	flavouredPackage = regexp.MustCompile(`^(?:(?:linux-(?:modules|objects)-nvidia|nvidia-(?:dkms|kernel-source|headless|headless-no-dkms|driver))-(\d+)-server(-open)?(?:-.+)?|nvidia-kernel(-open)?-dkms)$`)
)

// otherMode reports whether a package has modules of the other mode.
func (r Recipe) otherMode(name string) bool {
	if r.Build {
		return prebuiltPackage.MatchString(name)
	}
	return dkmsPackage.MatchString(name)
}

// otherFlavour reports whether a package is of the branch's other flavour.
func (r Recipe) otherFlavour(name string) bool {
	m := flavouredPackage.FindStringSubmatch(name)
	return m != nil && (m[1] == "" || m[1] == strconv.Itoa(r.Branch)) && (m[2]+m[3] != "") != (r.Flavour == Open)
}

// otherPackages returns the packages on a machine of the other mode or flavour, sorted.
func (r Recipe) otherPackages(s DriverState) []string {
	var out []string
	for name := range s.Packages {
		if r.otherMode(name) || r.otherFlavour(name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// frees returns the packages that the other mode or flavour holds and this one does not.
func (r Recipe) frees(s DriverState) []string {
	if len(r.otherPackages(s)) == 0 {
		return nil
	}
	var theirs []string
	for _, build := range []bool{false, true} {
		for _, flavour := range []Flavour{Open, Proprietary} {
			other := r
			other.Build, other.Flavour = build, flavour
			theirs = append(theirs, other.Holds()...)
		}
	}
	ours := r.HoldsOn(s)
	return slices.DeleteFunc(slices.Clone(s.Held), func(name string) bool {
		return slices.Contains(ours, name) || !slices.Contains(theirs, name)
	})
}

// InstallDriver installs and holds the driver's missing packages, and lets DKMS build missing
// modules for the kernel that starts next. The runner must be root's. If nothing is missing it
// does not touch the machine. The modules are for the newest installed kernel, so a machine
// that runs an older one has to be restarted; [Recipe.Diff] says so. A build that fails is a
// [*BuildError].
func InstallDriver(ctx context.Context, r remote.Runner, d Recipe) error {
	state, err := ObserveDriver(ctx, r)
	if err != nil {
		return err
	}
	if d.DiffPackages(state).Empty() {
		return d.repairFabric(ctx, r, state)
	}
	switch missing := d.diffInstalled(state); {
	case missing.Empty():
	case onlyHolds(missing): // installing would upgrade what is there
		if err := d.holdPackages(ctx, r); err != nil {
			return err
		}
	default:
		converge.Progressf(ctx, "installing NVIDIA driver %s", d)
		if err := d.install(ctx, r, state); err != nil {
			return fmt.Errorf("install NVIDIA driver %s: %w", d, WithBuildLog(ctx, r, err))
		}
	}
	if err := d.startFabric(ctx, r, state); err != nil || !d.Build {
		return err
	}
	return d.build(ctx, r)
}

// onlyHolds reports whether packages may change by themselves, and nothing else is wrong.
func onlyHolds(d converge.Diff) bool {
	return !slices.ContainsFunc(d, func(f converge.Field) bool { return !strings.HasPrefix(f.Path, holdPath) })
}

// FetchDriver downloads what [InstallDriver] would install, and changes nothing else: what does not
// exist or cannot be reached shows while the machine still works. A driver of another repository than
// the distribution's is not downloaded.
func FetchDriver(ctx context.Context, r remote.Runner, d Recipe) error {
	state, err := ObserveDriver(ctx, r)
	if err != nil || onlyHolds(d.diffInstalled(state)) || d.source() != nil {
		return err
	}
	converge.Progressf(ctx, "downloading NVIDIA driver %s", d)
	lists, err := apt.ReadLists(ctx, r)
	if err == nil {
		err = d.available(ctx, r, state)
	}
	if err == nil {
		err = apt.Install(ctx, r, d.aptArguments(state), lists, "--download-only")
	}
	if err != nil {
		return fmt.Errorf("download NVIDIA driver %s: %w", d, err)
	}
	return nil
}

// aptArguments returns what apt-get is told to install, and to remove in the same go. Modules that DKMS
// builds fit any kernel, so the kernel stays; prebuilt ones come with the newest of their series.
func (r Recipe) aptArguments(s DriverState) []string {
	packages := r.Packages()
	kernels := slices.DeleteFunc(slices.Clone(packages), func(name string) bool { return !kernelMeta.MatchString(name) })
	if r.Build && !slices.ContainsFunc(kernels, func(name string) bool { return s.Packages[name] == "" }) { // with its headers
		packages = slices.DeleteFunc(packages, func(name string) bool { return slices.Contains(kernels, name) })
	}
	for _, name := range r.otherPackages(s) {
		packages = append(packages, name+"-") // apt-get's word for: remove it
	}
	return packages
}

func (r Recipe) install(ctx context.Context, on remote.Runner, s DriverState) error {
	if source := r.source(); source != nil {
		for _, f := range [][2]string{{source.Keyring, source.Key}, {"/etc/apt/sources.list.d/" + source.File, source.List()}} {
			if err := remote.WriteFile(ctx, on, f[0], []byte(f[1]), 0o644); err != nil {
				return err
			}
		}
	}
	if free := r.frees(s); len(free) > 0 {
		if err := remote.Run(ctx, on, slices.Concat([]string{"apt-mark", "unhold"}, free)...); err != nil {
			return err
		}
	}
	lists, err := apt.ReadLists(ctx, on)
	if err != nil {
		return err
	}
	if err := r.available(ctx, on, s); err != nil {
		return err
	}
	if before := r.fillNames(r.distroDriver().Before); len(before) > 0 {
		if err := apt.Install(ctx, on, before, lists); err != nil {
			return err
		}
	}
	if err := apt.Install(ctx, on, r.aptArguments(s), lists); err != nil {
		return err
	}
	return r.holdPackages(ctx, on)
}

func (r Recipe) holdPackages(ctx context.Context, on remote.Runner) error {
	now, err := ObserveDriver(ctx, on)
	if err != nil {
		return err
	}
	return remote.Run(ctx, on, slices.Concat([]string{"apt-mark", "hold"}, r.HoldsOn(now))...)
}
