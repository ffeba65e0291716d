package distro

import (
	_ "embed" // the key of NVIDIA's repository
	"strconv"
	"strings"
)

// Driver is one way to install NVIDIA's driver on a distribution. In the names of packages
// {branch} stands for 580, {series} for 580-server-open or 580-server, and {-open} for -open
// or nothing.
type Driver struct {
	Source *Source // source of the packages, in addition to the distribution's archive; nil: none

	// Before are installed first, because the next packages depend on them.
	Before []string
	// Packages are installed, and those in Holds are held; Holds also has some of their
	// dependencies.
	Packages, Holds []string
	Branches        []int // for which there are packages that are not aliases; oldest first
}

// IsSupported reports whether the distribution supports this way.
func (d Driver) IsSupported() bool { return len(d.Packages) > 0 }

// Fill fills a driver's branch and flavour into the names of packages.
func Fill(packages []string, branch int, open bool) []string {
	suffix := ""
	if open {
		suffix = "-open"
	}
	number := strconv.Itoa(branch)
	r := strings.NewReplacer("{branch}", number, "{series}", number+"-server"+suffix, "{-open}", suffix)
	out := make([]string, len(packages))
	for i, p := range packages {
		out[i] = r.Replace(p)
	}
	return out
}

// Source is a package repository in addition to the distribution's own.
type Source struct {
	Title string // for people
	File  string // in /etc/apt/sources.list.d
	URL   string // of a flat repository
	// Key is the armoured key that signs it, and Keyring the key's file, which no other
	// repository uses. Fingerprint is the key's; a test compares them.
	Key         string
	Keyring     string
	Fingerprint string
}

// List returns the file of the source, in the deb822 format of sources.list(5).
func (s Source) List() string {
	return "Types: deb\nURIs: " + s.URL + "\nSuites: /\nArchitectures: amd64\nSigned-By: " + s.Keyring + "\n"
}

// nvidiaDebian13 is 8793F200.pub of NVIDIA's repository for Debian 13: "Kitmaker (Debian
// 13 Trixie)", made on 2025-08-15, without an end. NVIDIA's keys of older repositories
// are signed with SHA-1, which apt refuses since 2026-02.
//
//go:embed nvidia-debian13.asc
var nvidiaDebian13 string

// ubuntuPrebuilt are modules that Canonical builds and signs for every kernel. The two
// metapackages linux-generic and linux-modules-nvidia-… move together.
//
// linux-generic stands in for the cloud image's linux-virtual: it has the same kernel,
// and brings linux-modules-extra, which nvidia-drm may need.
func ubuntuPrebuilt() Driver {
	return Driver{
		Packages: []string{"linux-generic", "linux-modules-nvidia-{series}-generic", "nvidia-headless-no-dkms-{series}",
			"nvidia-utils-{branch}-server", "libnvidia-decode-{branch}-server", "libnvidia-encode-{branch}-server"},
		// If the kernel is upgraded without its modules, or a library without the loaded
		// module, no GPU of the machine works.
		Holds: []string{"linux-generic", "linux-modules-nvidia-{series}-generic", "nvidia-headless-no-dkms-{series}",
			"nvidia-utils-{branch}-server", "libnvidia-decode-{branch}-server", "libnvidia-encode-{branch}-server",
			"linux-image-generic", "linux-headers-generic", "nvidia-kernel-common-{branch}-server",
			"nvidia-compute-utils-{branch}-server", "libnvidia-compute-{branch}-server"},
		Branches: []int{535, 550, 570, 580, 595},
	}
}

// ubuntuDKMS are the same modules as source. linux-generic brings the headers of each kernel
// with the kernel; neither is held, because DKMS builds the modules again. build-essential is
// the compiler, which DKMS only recommends.
func ubuntuDKMS() Driver {
	driver := []string{"nvidia-dkms-{series}", "nvidia-headless-no-dkms-{series}",
		"nvidia-utils-{branch}-server", "libnvidia-decode-{branch}-server", "libnvidia-encode-{branch}-server"}
	return Driver{
		Packages: append([]string{"linux-generic", "build-essential", "dkms"}, driver...),
		Holds: append(driver, "nvidia-kernel-source-{series}", "nvidia-kernel-common-{branch}-server",
			"nvidia-compute-utils-{branch}-server", "libnvidia-compute-{branch}-server"),
		Branches: []int{535, 550, 570, 580, 595},
	}
}

// FabricManager is NVIDIA's program for switches between GPUs. In NVIDIA's own repositories
// names have no branch (NVIDIA Fabric Manager guide, 580).
func FabricManager(nvidias bool) []string {
	if nvidias {
		return []string{"nvidia-fabricmanager"}
	}
	return []string{"nvidia-fabricmanager-{branch}"}
}

// NVLink5 are what the fabric manager needs in addition for the switches of NVLink 5.
func NVLink5() []string { return []string{"nvlsm", "infiniband-diags"} }

// debianDKMS are NVIDIA's own packages, for computing only (NVIDIA Driver Installation Guide,
// "Debian"). Their names have no branch: a package with an apt preferences file pins it. The
// held ones depend on the exact version of all others.
func debianDKMS() Driver {
	driver := []string{"nvidia-driver-pinning-{branch}", "nvidia-driver-cuda", "nvidia-kernel{-open}-dkms"}
	return Driver{
		Source: &Source{
			Title: "NVIDIA's repository for Debian 13", File: "nvidia-driver.sources",
			URL: "https://developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64/",
			Key: nvidiaDebian13, Keyring: "/usr/share/keyrings/nvidia-driver.asc", Fingerprint: "02182E60104FCDC26EAE1B8597A5D4CB8793F200",
		},
		Before:   []string{"nvidia-driver-pinning-{branch}"},
		Packages: append([]string{"linux-image-amd64", "linux-headers-amd64", "build-essential", "dkms"}, driver...),
		Holds:    driver,
		Branches: []int{590, 595, 610},
	}
}
