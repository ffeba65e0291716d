package nvidia

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/apt"
	"github.com/cps-gpu/homelab/remote"
)

// ModuleBuild is a line of "dkms status": a module's source, and its state for a kernel.
type ModuleBuild struct {
	Module, Version string
	Kernel, Arch    string // empty if it was not built
	State           string // "added", "built", "installed", "installed-weak" or "broken"
	Note            string // what DKMS adds, such as "Original modules exist"
}

// builtLine is what DKMS 3 prints, "nvidia/580.173.02, 6.8.0-90-generic, x86_64: installed"
// with notes in parentheses, "nvidia/580.173.02: added", and with a comma for the slash
// what DKMS 2 printed (do_status and do_status_weak of dkms, 3.0.10 to 3.4.3).
var builtLine = regexp.MustCompile(`^([^\s,/:]+)(?:/|, )([^\s,:]+)(?:, ([^\s,:]+), ([^\s,:]+))?: ([a-z-]+)(?: from [^\s()]+)?((?: ?\([^()]*\))*)$`)

// parseDKMS reads the output of "dkms status". Other lines, such as errors about foreign
// modules, are left out.
func parseDKMS(out string) []ModuleBuild {
	var all []ModuleBuild
	for _, line := range lines(out) {
		m := builtLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		var notes []string
		for note := range strings.SplitSeq(strings.Trim(m[6], " ()"), "(") {
			if note = strings.Trim(note, " )"); note != "" {
				notes = append(notes, note)
			}
		}
		all = append(all, ModuleBuild{Module: m[1], Version: m[2], Kernel: m[3], Arch: m[4], State: m[5], Note: strings.Join(notes, ", ")})
	}
	return all
}

// builtFor reports whether DKMS has installed NVIDIA's modules for a kernel. Its notes do not
// count: whether the modules load shows at boot.
func (s DriverState) builtFor(kernel string) bool {
	return slices.ContainsFunc(s.Built, func(b ModuleBuild) bool {
		return strings.HasPrefix(b.Module, "nvidia") && b.Kernel == kernel && b.State == "installed"
	})
}

// hasDKMSSource reports whether DKMS knows NVIDIA's modules at all. Their package registers them
// once, and "dkms remove" for the last kernel deletes the registration.
func (s DriverState) hasDKMSSource() bool {
	return slices.ContainsFunc(s.Built, func(b ModuleBuild) bool { return strings.HasPrefix(b.Module, "nvidia") })
}

var kernelImage = regexp.MustCompile(`^linux-image-(\d[\w.+~-]*)$`)

// NextKernel is the newest installed kernel, which starts next; the running one if no package
// names one.
func (s DriverState) NextKernel() string {
	next := ""
	for name := range s.Packages {
		if m := kernelImage.FindStringSubmatch(name); m != nil && !strings.HasSuffix(m[1], "-unsigned") && (next == "" || newer(m[1], next)) {
			next = m[1]
		}
	}
	return cmp.Or(next, s.Kernel)
}

// newer compares two kernels' names number by number.
func newer(a, b string) bool {
	numbers := func(s string) []int {
		var out []int
		for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
			n, err := strconv.Atoi(f)
			if err != nil {
				n = 0 // no kernel has such a number
			}
			out = append(out, n)
		}
		return out
	}
	return slices.Compare(numbers(a), numbers(b)) > 0
}

// diffBuilt says whether the kernel that starts next would have no module.
func (r Recipe) diffBuilt(s DriverState) converge.Diff {
	if kernel := s.NextKernel(); r.Build && !s.builtFor(kernel) {
		return converge.Diff{{Path: ModulePath + kernel, Have: "not built", Want: "built by DKMS", Effect: converge.Create,
			Note: dkmsCure(s.BuildLog)}}
	}
	return nil
}

// build has DKMS build the modules for the kernel that starts next, if it has not yet.
func (r Recipe) build(ctx context.Context, on remote.Runner) error {
	s, err := ObserveDriver(ctx, on)
	if err != nil || r.diffBuilt(s).Empty() {
		return err
	}
	kernel := s.NextKernel()
	if _, there := s.Packages["linux-headers-"+kernel]; !there {
		if err := apt.Install(ctx, on, []string{"linux-headers-" + kernel}, ""); err != nil {
			return fmt.Errorf("DKMS cannot build NVIDIA's modules for kernel %s, whose headers are not there: %w\n"+
				"  archives keep the newest kernels only: upgrade the machine's kernel and restart it", kernel, err)
		}
	}
	converge.Progressf(ctx, "building NVIDIA's modules for kernel %s", kernel)
	if !s.hasDKMSSource() {
		again := slices.DeleteFunc(r.Packages(), func(name string) bool { return !dkmsPackage.MatchString(name) })
		if err := apt.Install(ctx, on, append([]string{"--reinstall"}, again...), ""); err != nil {
			return WithBuildLog(ctx, on, err)
		}
		if err := r.holdPackages(ctx, on); err != nil { // apt-get has released it
			return err
		}
	}
	err = on.Run(ctx, remote.Cmd{Args: []string{"dkms", "autoinstall", "-k", kernel}, Stdout: converge.ProgressWriter(ctx)})
	if err != nil {
		return WithBuildLog(ctx, on, err)
	}
	if s, err = ObserveDriver(ctx, on); err != nil || r.diffBuilt(s).Empty() {
		return err
	}
	return &BuildError{Kernel: kernel, Log: s.BuildLog, Err: fmt.Errorf("dkms autoinstall -k %s reported success, but dkms status lists no module", kernel)}
}

// BuildError means that DKMS could not build NVIDIA's modules.
type BuildError struct {
	Kernel string
	Log    []string // the end of make.log; empty: the build did not get that far
	Err    error
}

// Error implements error.
func (e *BuildError) Error() string {
	text := e.Err.Error()
	if len(e.Log) > 0 {
		text += "\n  make.log ends with:\n    " + strings.Join(e.Log, "\n    ")
	}
	if why := dkmsCure(append(slices.Clone(e.Log), e.Err.Error())); why != "" {
		text += "\n  " + why
	}
	return text
}

// Unwrap returns what dkms or apt-get said.
func (e *BuildError) Unwrap() error { return e.Err }

// WithBuildLog adds the log of a failed build to the error of an installation or build.
func WithBuildLog(ctx context.Context, on remote.Runner, err error) error {
	s, failed := ObserveDriver(ctx, on)
	if failed != nil || len(s.BuildLog) == 0 && dkmsCure([]string{err.Error()}) == "" {
		return err
	}
	return &BuildError{Kernel: s.NextKernel(), Log: s.BuildLog, Err: err}
}

// dkmsCure says what to do about a failed build, if its output shows that.
func dkmsCure(log []string) string {
	said := strings.Join(log, "\n")
	for _, c := range [][2]string{
		{"kernel headers for kernel", "install the headers of that kernel: apt-get install linux-headers-KERNEL; if the archive no longer has them, upgrade the kernel and restart"},
		{"No space left on device", "the disk is full: give the node a larger one (disk:), and run this again"},
		{"cc: command not found", "there is no compiler: apt-get install build-essential"},
		{"cc: not found", "there is no compiler: apt-get install build-essential"},
		{"Cannot find compiler", "there is no compiler: apt-get install build-essential"},
		{"Killed", "the compiler was killed, usually because memory ran out: give the node 4 GiB or more"},
		{"implicit declaration of function", sourceTooOld},
		{"incompatible pointer type", sourceTooOld},
		{"has no member named", sourceTooOld},
		{"Bad return status for module build", sourceTooOld},
		{"error:", sourceTooOld},
	} {
		if strings.Contains(said, c[0]) {
			return c[1]
		}
	}
	return ""
}

const sourceTooOld = "the driver's source does not fit the kernel; usually the kernel is newer than the driver: pin a newer branch (nvidia.driver.branch), " +
	"or boot the previous kernel; the whole log is /var/lib/dkms/nvidia/VERSION/build/make.log there"
