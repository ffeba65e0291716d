// Package distro has all differences between the distributions that machines may run.
// docs/distributions.md describes them for users.
package distro

import (
	"path"
	"slices"
	"strings"
)

// Distro is one release of a distribution.
type Distro struct {
	Name    string // in cluster.yaml: "ubuntu-24.04"
	Title   string // for people: "Ubuntu 24.04"
	ID      string // ID= of os-release(5)
	Release string // its code name
	Kernel  string // series of the kernel that it was released with, e.g. "6.8", where it has newer ones too
	User    string // the usual login user

	// Image is a cloud image with the checksum that its distributor publishes. It is a dated
	// one, because the image at the address of the newest changes and its checksum would not
	// match.
	Image, SHA256, SHA512 string
	Sums                  string // the file of checksums beside an image

	Mirror   string   // the host of its archive
	Security string   // URL of security updates, used even with a mirror; empty: mirrors have them too
	Packages []string // packages that this image lacks, in addition to those that every image lacks

	// Prebuilt is NVIDIA's driver with prebuilt, signed modules for each kernel of the
	// archive, and DKMS the one whose modules are built on the machine.
	Prebuilt, DKMS Driver
}

// Driver returns the way in which NVIDIA's driver is installed.
func (d Distro) Driver(dkms bool) Driver {
	if dkms {
		return d.DKMS
	}
	return d.Prebuilt
}

// All returns the supported distributions; the first is the default.
func All() []Distro {
	const debian = "debian.org"
	return []Distro{
		{
			Name: "ubuntu-24.04", Title: "Ubuntu 24.04", ID: "ubuntu", Release: "noble", Kernel: "6.8", User: "ubuntu",
			Image:  "https://cloud-images.ubuntu.com/releases/noble/release-20260826/ubuntu-24.04-server-cloudimg-amd64.img",
			SHA256: "d0fe84bb5f80853425fa6be28e2c106f30104c3cfe8611933f2e65c9b63f0e30",
			Sums:   "SHA256SUMS", Mirror: "archive.ubuntu.com", Prebuilt: ubuntuPrebuilt(), DKMS: ubuntuDKMS(),
		},
		{
			// The image generic, not genericcloud: the kernel for clouds lacks drivers of
			// passed-through devices.
			Name: "debian-13", Title: "Debian 13", ID: "debian", Release: "trixie", User: "debian",
			Image:  "https://cloud." + debian + "/images/cloud/trixie/20260914-2601/debian-13-generic-amd64-20260914-2601.qcow2",
			SHA512: "a733e7d49442a03e70d03e4eb5aaf3967f3efc69ef70952f9bb10fc1ee2c4876eb95956b5ad2d31350e5fada768feb651352535fb8cd1233f61998a5a7d2e93c",
			Sums:   "SHA512SUMS", Mirror: "deb." + debian, Security: "http://deb." + debian + "/debian-security",
			Packages: []string{"xfsprogs"}, DKMS: debianDKMS(),
		},
	}
}

// Names returns the names for cluster.yaml, the default first.
func Names() []string {
	var out []string
	for _, d := range All() {
		out = append(out, d.Name)
	}
	return out
}

// ByName returns the distribution of that name; the default for any other.
func ByName(name string) Distro {
	all := All()
	return all[max(0, slices.IndexFunc(all, func(d Distro) bool { return d.Name == name }))]
}

// UnusableRelease names the release of a cloud image on which machines get no network: Ubuntu 26.04's
// cloud-init and netplan do not rename a card that is up already, and the seeds name it eth0
// (canonical/cloud-init#6887). It goes by the names that Ubuntu gives its images; empty: none is
// known.
func UnusableRelease(image string) string {
	name := path.Base(image)
	if strings.HasPrefix(name, "ubuntu-26.04-") || strings.HasPrefix(name, "resolute-") || strings.Contains(image, "/resolute/") {
		return "Ubuntu 26.04"
	}
	return ""
}

// Release reads ID and VERSION_ID of os-release(5), e.g. "debian" and "12"; Debian's testing has no
// VERSION_ID.
func Release(osRelease string) (id, version string) {
	fields := map[string]string{}
	for line := range strings.Lines(osRelease) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		fields[key] = strings.Trim(value, `"'`)
	}
	return fields["ID"], fields["VERSION_ID"]
}

// System names the system of an os-release(5) as cluster.yaml would, e.g. "debian-12".
func System(osRelease string) string {
	id, version := Release(osRelease)
	return strings.TrimSuffix(id+"-"+version, "-")
}

// IsKnown reports whether homelab knows a system, of which [System] is the name.
func IsKnown(system string) bool { return slices.Contains(Names(), system) }
