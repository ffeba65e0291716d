// Package distro is the one place that knows what differs between the distributions that
// machines may run. docs/distributions.md shows the same for people.
package distro

import "slices"

// Distro is one release of a distribution.
type Distro struct {
	Name    string // as cluster.yaml says it: "ubuntu-24.04"
	Title   string // for people: "Ubuntu 24.04"
	ID      string // ID= of os-release(5)
	Release string // its code name
	User    string // who logs in, by custom

	// Image is a cloud image with the checksum that its distributor publishes. It is a
	// dated one: the contents of the address of the newest change under a checksum.
	Image, SHA256, SHA512 string
	Sums                  string // the file of checksums beside an image

	Mirror   string   // the host of its archive
	Security string   // URL of security updates, which stays where a mirror takes the archive's place; empty: a mirror has them too
	Packages []string // what its image lacks of what every machine needs, beyond what no image has

	// Prebuilt is NVIDIA's driver with modules that are built and signed for each kernel
	// of the archive, and DKMS the one whose modules are built on the machine.
	Prebuilt, DKMS Driver
}

// Driver is the way in which NVIDIA's driver comes to a machine.
func (d Distro) Driver(dkms bool) Driver {
	if dkms {
		return d.DKMS
	}
	return d.Prebuilt
}

// All are the distributions that machines can be made of; the first is the default.
func All() []Distro {
	return []Distro{
		{
			Name: "ubuntu-24.04", Title: "Ubuntu 24.04", ID: "ubuntu", Release: "noble", User: "ubuntu",
			Image:  "https://cloud-images.ubuntu.com/releases/noble/release-20260826/ubuntu-24.04-server-cloudimg-amd64.img",
			SHA256: "d0fe84bb5f80853425fa6be28e2c106f30104c3cfe8611933f2e65c9b63f0e30",
			Sums:   "SHA256SUMS", Mirror: "archive.ubuntu.com", Prebuilt: ubuntuPrebuilt(), DKMS: ubuntuDKMS(),
		},
		{
			// The image called generic, not genericcloud: the kernel for clouds leaves out
			// drivers of passed-through devices.
			Name: "debian-13", Title: "Debian 13", ID: "debian", Release: "trixie", User: "debian",
			Image:  "https://cloud.debian.org/images/cloud/trixie/20260914-2601/debian-13-generic-amd64-20260914-2601.qcow2",
			SHA512: "a733e7d49442a03e70d03e4eb5aaf3967f3efc69ef70952f9bb10fc1ee2c4876eb95956b5ad2d31350e5fada768feb651352535fb8cd1233f61998a5a7d2e93c",
			Sums:   "SHA512SUMS", Mirror: "deb.debian.org", Security: "http://deb.debian.org/debian-security",
			Packages: []string{"xfsprogs"}, DKMS: debianDKMS(),
		},
	}
}

// Names are those that cluster.yaml may say, the default first.
func Names() []string {
	var out []string
	for _, d := range All() {
		out = append(out, d.Name)
	}
	return out
}

// Named returns the distribution of that name; the default for any other.
func Named(name string) Distro {
	all := All()
	return all[max(0, slices.IndexFunc(all, func(d Distro) bool { return d.Name == name }))]
}

// ByID returns the distribution with that ID= of os-release(5), whatever its release.
func ByID(id string) (Distro, bool) {
	all := All()
	if i := slices.IndexFunc(all, func(d Distro) bool { return d.ID == id }); i >= 0 {
		return all[i], true
	}
	return Distro{}, false
}
