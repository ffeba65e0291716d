package archive

import (
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// NVIDIA is NVIDIA's repository for Debian 13. Its branches and names were read in
// public scripts and notes of people who use it (the newest of October 2026 was
// 615.71.09, the oldest 590); what its packages need is more than is said here.
const NVIDIA = "developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64"

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

// inDebianOnly is a package that Debian 13 or NVIDIA's repository for it has under a name
// that Ubuntu does not know, or has otherwise.
func inDebianOnly(name string) (Release, bool) {
	r := Release{Name: name, Origin: debian}
	kernelRelease := "6.12.107-1"
	switch {
	case name == "linux-image-amd64", name == "linux-headers-amd64":
		r.Needs = []string{strings.TrimSuffix(name, "amd64") + newestDebianKernel}
	case name == "dkms":
		r.Programs, kernelRelease = []string{"dkms"}, "3.2.2-1~deb13u1"
	case name == "build-essential":
		r.Needs, kernelRelease = []string{"gcc", "make"}, "12.12"
	case name == "gcc", name == "make":
		r.Programs, kernelRelease = []string{name}, map[string]string{"gcc": "4:14.2.0-1", "make": "4.4.1-2"}[name]
	case debianKernelPackage.MatchString(name):
		kernel := debianKernelPackage.FindStringSubmatch(name)[2]
		if kernel != newestDebianKernel && kernel != laterDebianKernel {
			return Release{}, false
		}
		abi, _, _ := strings.Cut(kernel, "+")
		if kernelRelease = abi + "-1"; strings.HasPrefix(name, "linux-headers-") {
			r.Needs = []string{"linux-image-" + kernel, "gcc"} // gcc-14, with which the kernel was built
		}
	default:
		return nvidiaRelease(name)
	}
	r.Versions = []string{kernelRelease}
	return r, true
}

func nvidiaRelease(name string) (Release, bool) {
	r := Release{Name: name, Origin: NVIDIA, Versions: nvidiaVersions()}
	switch name {
	case "nvidia-driver-cuda":
		r.Needs, r.Programs = []string{"libcuda1", "libnvidia-ml1", "nvidia-kernel-support"}, []string{"nvidia-smi", "nvidia-debugdump"}
	case "nvidia-kernel-open-dkms", "nvidia-kernel-dkms":
		r.Needs = []string{"dkms", "nvidia-kernel-support"}
	case "nvidia-kernel-support":
		r.Needs = []string{"firmware-nvidia-gsp"}
	case "libcuda1", "libnvidia-ml1", "firmware-nvidia-gsp":
	default:
		m := pinningPackage.FindStringSubmatch(name)
		if m == nil || !slices.ContainsFunc(r.Versions, func(v string) bool { return strings.HasPrefix(v, m[1]+".") }) {
			return Release{}, false
		}
		r.Versions = []string{m[1] + "-1"}
	}
	return r, true
}

// withPins puts the versions of the branch first that a pinning package is installed for.
func (r Release) withPins(d *disk.Disk) Release {
	if r.Origin != NVIDIA {
		return r
	}
	for name := range disk.Database(d) {
		if m := pinningPackage.FindStringSubmatch(name); m != nil {
			slices.SortStableFunc(r.Versions, func(a, b string) int {
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

// DebianKernel is the kernel of the simulated Debian image, and of its archive.
const DebianKernel = "6.12.88+deb13-amd64"

// debianVersions are those of packages in Debian 13's main and security archives on
// 2026-11-22, by name; a package of Ubuntu's that is not here is not there.
func debianVersions(name string) string {
	return map[string]string{
		"qemu-guest-agent": "1:10.0.13+ds-0+deb13u1", "nfs-common": "1:2.8.3-1", "nfs-kernel-server": "1:2.8.3-1", "ceph-common": "18.2.7+ds-1", "open-iscsi": "2.1.11-1+deb13u2",
		"curl": "8.14.1-2+deb13u7", "wget": "1.25.0-2", "ca-certificates": "20250419+deb13u1", "gnupg": "2.4.7-21+deb13u1", "jq": "1.7.1-6+deb13u4",
		"xfsprogs": "6.13.0-2+deb13u1", "cryptsetup": "2:2.7.5-2", "dmsetup": "2:1.02.205-2", "lvm2": "2.03.31-2", "multipath-tools": "0.11.1-2",
		"htop": "3.4.1-5", "git": "1:2.47.3-0+deb13u1", "pciutils": "1:3.13.0-2", "chrony": "4.6.1-3+deb13u2", "socat": "1.8.0.3-1+deb13u1", "zstd": "1.5.7+dfsg-1",
		"containerd": "1.7.24~ds1-6+deb13u1", "runc": "1.1.15+ds1-2+b4", "conntrack": "1:1.4.8-2",
	}[name]
}

// inDebian is a package as Debian has it.
func (r Release) inDebian() (Release, bool) {
	if r.Origin == Toolkit || r.Origin == Kubernetes || r.Origin == CRIO {
		return r, true
	}
	version := debianVersions(r.Name)
	r.Versions, r.Origin = []string{version}, debian
	return r, version != ""
}
