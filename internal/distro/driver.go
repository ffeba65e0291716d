package distro

import (
	_ "embed" // the key of NVIDIA's repository
	"slices"
	"strconv"
	"strings"
)

// Driver is one way in which NVIDIA's driver comes to machines of a distribution. In the
// names of packages {branch} stands for 580, {series} for 580-server-open or 580-server,
// and {-open} for -open or nothing.
type Driver struct {
	Source *Source // where the packages come from, beside the distribution's archive; nil: nowhere else

	// Before are installed first of all: what apt installs next depends on them.
	Before []string
	// Packages are installed, and of those Holds do not change by themselves. So do
	// others that come with them.
	Packages, Holds []string
	Branches        []int // that the packages are there for, and not as another's alias; oldest first
}

// There reports whether the distribution has this way at all.
func (d Driver) There() bool { return len(d.Packages) > 0 }

// First is the oldest branch.
func (d Driver) First() int { return slices.Min(d.Branches) }

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

// Source is a repository of packages beside the distribution's own.
type Source struct {
	Title string // for people
	File  string // in /etc/apt/sources.list.d
	URL   string // of a flat repository
	// Key is the armoured key that signs it, and Keyring the file that it is put into:
	// no other repository is trusted for it. Fingerprint is the key's; a test holds the
	// key against it.
	Key         string
	Keyring     string
	Fingerprint string
}

// List is the file of the source, as sources.list(5) has it in its deb822 form.
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
		// A kernel that moves without its modules, or a library that moves without the
		// loaded module, takes every GPU of the machine away.
		Holds: []string{"linux-generic", "linux-modules-nvidia-{series}-generic", "nvidia-headless-no-dkms-{series}",
			"nvidia-utils-{branch}-server", "libnvidia-decode-{branch}-server", "libnvidia-encode-{branch}-server",
			"linux-image-generic", "linux-headers-generic", "nvidia-kernel-common-{branch}-server",
			"nvidia-compute-utils-{branch}-server", "libnvidia-compute-{branch}-server"},
		Branches: []int{535, 550, 570, 580, 595},
	}
}

// ubuntuDKMS are the same modules as source. linux-generic brings the headers of each
// kernel with the kernel; neither is held, as DKMS builds the modules anew.
// build-essential is the compiler, which DKMS only recommends.
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

// debianDKMS are NVIDIA's own packages, for computing only (NVIDIA Driver Installation
// Guide, "Debian"). Their names have no branch: a package with a file of apt's pins it.
// Those that are held depend on exactly their version of all others.
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
