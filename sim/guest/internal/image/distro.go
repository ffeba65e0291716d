package image

import (
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/archive"
	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// Distro is what differs between the cloud images of distributions.
type Distro struct {
	ID, Release      string // of os-release(5)
	osRelease, fstab string
	Mirror, Security string   // URLs of its archives
	suites           []string // of the mirror; that of the security archive is RELEASE-security
	components       string
	programs, units  []string // daemons, and those that run
	packages         []string // installed in the image
	lacks            []string // programs that others have
}

// ofRelease knows distributions by the code names of their releases.
//
// What is said of Debian was seen on a home-made image of Debian's packages that was
// booted; versions of Ubuntu's packages and of kernels are made up.
func ofRelease(release string) (Distro, bool) {
	common := []string{"bash", "ca-certificates", "cloud-init", "coreutils", "curl", "gnupg", "iproute2", "openssh-server", "sudo", "systemd", "unattended-upgrades", "wget"}
	switch release {
	case "noble":
		return Distro{
			ID: "ubuntu", Release: release,
			osRelease: "PRETTY_NAME=\"Ubuntu 24.04.4 LTS\"\nNAME=\"Ubuntu\"\nVERSION_ID=\"24.04\"\nVERSION=\"24.04.4 LTS (Noble Numbat)\"\n" +
				"VERSION_CODENAME=noble\nID=ubuntu\nID_LIKE=debian\nUBUNTU_CODENAME=noble\n",
			fstab:  "LABEL=cloudimg-rootfs\t/\t ext4\tdiscard,commit=30,errors=remount-ro\t0 1\n",
			Mirror: "http://archive.ubuntu.com/ubuntu", suites: []string{"noble", "noble-updates", "noble-security"},
			components: "main universe restricted multiverse",
			programs:   []string{"sshd", "cron", "multipathd", "unattended-upgrade-shutdown"},
			units:      []string{"ssh", "cron", "multipathd", "unattended-upgrades"},
			packages:   append(common, "linux-image-virtual", "ubuntu-server-minimal", "linux-image-"+archive.ImageKernel, "linux-modules-"+archive.ImageKernel),
		}, true
	case "trixie":
		const mirrors = "http://deb." + "debian.org/"
		return Distro{
			ID: "debian", Release: release,
			osRelease: "PRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"13\"\nVERSION=\"13 (trixie)\"\n" +
				"VERSION_CODENAME=trixie\nDEBIAN_VERSION_FULL=13.6\nID=debian\n",
			fstab:  "LABEL=cloudimg-rootfs / ext4 rw,discard,errors=remount-ro,x-systemd.growfs 0 1\n",
			Mirror: mirrors + "debian", Security: mirrors + "debian-security", suites: []string{"trixie", "trixie-updates"},
			components: "main",
			programs:   []string{"sshd", "cron", "unattended-upgrade-shutdown"},
			units:      []string{"ssh", "cron", "unattended-upgrades"},
			packages:   append(common, "linux-image-amd64", "linux-image-"+archive.DebianKernel),
			lacks:      []string{"mkfs.xfs", "xfs_growfs", "xfs_info"},
		}, true
	}
	return Distro{}, false
}

// version is that of a package in the image.
func (o Distro) version(name string) string {
	switch {
	case o.ID == "debian" && strings.HasPrefix(name, "linux-image-"):
		return "6.12.88-1"
	case o.ID == "debian" && name == "cloud-init":
		return "25.1.4-1+deb13u1"
	case o.ID == "debian":
		return "1.0-1"
	case name == "cloud-init":
		return "26.1-0ubuntu1~24.04.1"
	case name == "linux-image-virtual":
		return strings.Replace(archive.KernelVersion(archive.ImageKernel), "-", ".", 1)
	case strings.HasSuffix(name, archive.ImageKernel):
		return archive.KernelVersion(archive.ImageKernel)
	}
	return "1.0-1ubuntu1"
}

// SourcesFile is where apt reads of the archives.
func (o Distro) SourcesFile() string { return "/etc/apt/sources.list.d/" + o.ID + ".sources" }

// Sources is apt's file of the distribution's archives, as cloud-init writes it.
func (o Distro) Sources(mirror, security string) string {
	stanza := func(uri string, suites []string) string {
		return "Types: deb\nURIs: " + uri + "\nSuites: " + strings.Join(suites, " ") + "\nComponents: " + o.components +
			"\nSigned-By: /usr/share/keyrings/" + o.ID + "-archive-keyring.gpg\n"
	}
	out := stanza(mirror, o.suites)
	if security != "" {
		out += "\n" + stanza(security, []string{o.Release + "-security"})
	}
	return out
}

// DistroOf is the distribution on a disk, by its os-release.
func DistroOf(v *disk.View) Distro {
	data, _ := v.ReadFile("/etc/os-release")
	for line := range strings.Lines(string(data)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			if o, known := ofRelease(name); known {
				return o
			}
		}
	}
	o, _ := ofRelease("noble")
	return o
}
