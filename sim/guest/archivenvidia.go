package guest

import (
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// nvidiaArchive is NVIDIA's repository for Debian 13. Its branches and names were read in
// public scripts and notes of people who use it (the newest of October 2026 was
// 615.71.09, the oldest 590); what its packages need is more than is said here.
const nvidiaArchive = "developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64"

// Kernels of Debian's archive beside the image's. The archive keeps the headers of those
// it has, and no others'.
const (
	newestDebianKernel = "6.12.107+deb13-amd64"
	laterDebianKernel  = "6.12.110+deb13-amd64" // which no metapackage brings yet
)

var (
	debianKernelPackage = regexp.MustCompile(`^linux-(image|headers)-(6\.12\.\d+\+deb13-amd64)$`)
	pinningPackage      = regexp.MustCompile(`^nvidia-driver-pinning-(\d{3})$`)
)

// nvidiaVersions are those of NVIDIA's repository, newest first.
func nvidiaVersions() []string {
	return []string{"615.71.09-1", "610.57.04-1", "595.71.05-1", "590.48.01-1"}
}

// debianOnly is a package that Debian 13 or NVIDIA's repository for it has under a name
// that Ubuntu's has not, or has otherwise.
func debianOnly(name string) (release, bool) {
	r := release{name: name, origin: debianArchive}
	kernelRelease := "6.12.107-1"
	switch {
	case name == "linux-image-amd64", name == "linux-headers-amd64":
		r.needs = []string{strings.TrimSuffix(name, "amd64") + newestDebianKernel}
	case name == "dkms":
		r.programs, kernelRelease = []string{"dkms"}, "3.2.2-1~deb13u1"
	case name == "build-essential":
		r.needs, kernelRelease = []string{"gcc", "make"}, "12.12"
	case name == "gcc", name == "make":
		r.programs, kernelRelease = []string{name}, map[string]string{"gcc": "4:14.2.0-1", "make": "4.4.1-2"}[name]
	case debianKernelPackage.MatchString(name):
		kernel := debianKernelPackage.FindStringSubmatch(name)[2]
		if kernel != newestDebianKernel && kernel != laterDebianKernel {
			return release{}, false
		}
		abi, _, _ := strings.Cut(kernel, "+")
		if kernelRelease = abi + "-1"; strings.HasPrefix(name, "linux-headers-") {
			r.needs = []string{"linux-image-" + kernel, "gcc"} // gcc-14, with which the kernel was built
		}
	default:
		return nvidiaRelease(name)
	}
	r.versions = []string{kernelRelease}
	return r, true
}

func nvidiaRelease(name string) (release, bool) {
	r := release{name: name, origin: nvidiaArchive, versions: nvidiaVersions()}
	switch name {
	case "nvidia-driver-cuda":
		r.needs, r.programs = []string{"libcuda1", "libnvidia-ml1", "nvidia-kernel-support"}, []string{"nvidia-smi", "nvidia-debugdump"}
	case "nvidia-kernel-open-dkms", "nvidia-kernel-dkms":
		r.needs = []string{"dkms", "nvidia-kernel-support"}
	case "nvidia-kernel-support":
		r.needs = []string{"firmware-nvidia-gsp"}
	case "libcuda1", "libnvidia-ml1", "firmware-nvidia-gsp":
	default:
		m := pinningPackage.FindStringSubmatch(name)
		if m == nil || !slices.ContainsFunc(r.versions, func(v string) bool { return strings.HasPrefix(v, m[1]+".") }) {
			return release{}, false
		}
		r.versions = []string{m[1] + "-1"}
	}
	return r, true
}

// pinned puts the versions of the branch first that a pinning package is installed for.
func (r release) pinned(d *disk.Disk) release {
	if r.origin != nvidiaArchive {
		return r
	}
	for name := range disk.Database(d) {
		if m := pinningPackage.FindStringSubmatch(name); m != nil {
			slices.SortStableFunc(r.versions, func(a, b string) int {
				return boolean(strings.HasPrefix(b, m[1]+".")) - boolean(strings.HasPrefix(a, m[1]+"."))
			})
		}
	}
	return r
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
