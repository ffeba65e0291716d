package guest

import "strings"

// debianKernel is the kernel of the simulated Debian image, and of its archive.
const debianKernel = "6.12.88+deb13-amd64"

// distro is what differs between the cloud images of distributions.
type distro struct {
	id, release      string // of os-release(5)
	osRelease, fstab string
	mirror, security string   // URLs of its archives
	suites           []string // of the mirror; that of the security archive is RELEASE-security
	components       string
	programs, units  []string // daemons, and those that run
	packages         []string // installed in the image
	lacks            []string // programs that others have
}

// distroOf knows distributions by the code names of their releases.
//
// What is said of Debian was seen on a home-made image of Debian's packages that was
// booted; versions of Ubuntu's packages and of kernels are made up.
func distroOf(release string) (distro, bool) {
	common := []string{"bash", "ca-certificates", "cloud-init", "coreutils", "curl", "gnupg", "iproute2", "openssh-server", "sudo", "systemd", "unattended-upgrades", "wget"}
	switch release {
	case "noble":
		return distro{
			id: "ubuntu", release: release,
			osRelease: "PRETTY_NAME=\"Ubuntu 24.04.4 LTS\"\nNAME=\"Ubuntu\"\nVERSION_ID=\"24.04\"\nVERSION=\"24.04.4 LTS (Noble Numbat)\"\n" +
				"VERSION_CODENAME=noble\nID=ubuntu\nID_LIKE=debian\nUBUNTU_CODENAME=noble\n",
			fstab:  "LABEL=cloudimg-rootfs\t/\t ext4\tdiscard,commit=30,errors=remount-ro\t0 1\n",
			mirror: "http://archive.ubuntu.com/ubuntu", suites: []string{"noble", "noble-updates", "noble-security"},
			components: "main universe restricted multiverse",
			programs:   []string{"sshd", "cron", "multipathd", "unattended-upgrade-shutdown"},
			units:      []string{"ssh", "cron", "multipathd", "unattended-upgrades"},
			packages:   append(common, "linux-image-virtual", "ubuntu-server-minimal", "linux-image-"+imageKernel, "linux-modules-"+imageKernel),
		}, true
	case "trixie":
		return distro{
			id: "debian", release: release,
			osRelease: "PRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"13\"\nVERSION=\"13 (trixie)\"\n" +
				"VERSION_CODENAME=trixie\nDEBIAN_VERSION_FULL=13.6\nID=debian\n",
			fstab:  "LABEL=cloudimg-rootfs / ext4 rw,discard,errors=remount-ro,x-systemd.growfs 0 1\n",
			mirror: "http://deb.debian.org/debian", security: "http://deb.debian.org/debian-security", suites: []string{"trixie", "trixie-updates"},
			components: "main",
			programs:   []string{"sshd", "cron", "unattended-upgrade-shutdown"},
			units:      []string{"ssh", "cron", "unattended-upgrades"},
			packages:   append(common, "linux-image-amd64", "linux-image-"+debianKernel),
			lacks:      []string{"mkfs.xfs", "xfs_growfs", "xfs_info"},
		}, true
	}
	return distro{}, false
}

// version is that of a package in the image.
func (o distro) version(name string) string {
	switch {
	case o.id == "debian" && strings.HasPrefix(name, "linux-image-"):
		return "6.12.88-1"
	case o.id == "debian" && name == "cloud-init":
		return "25.1.4-1+deb13u1"
	case o.id == "debian":
		return "1.0-1"
	case name == "cloud-init":
		return "26.1-0ubuntu1~24.04.1"
	case name == "linux-image-virtual":
		return strings.Replace(kernelVersion(imageKernel), "-", ".", 1)
	case strings.HasSuffix(name, imageKernel):
		return kernelVersion(imageKernel)
	}
	return "1.0-1ubuntu1"
}

func (o distro) sourcesFile() string { return "/etc/apt/sources.list.d/" + o.id + ".sources" }

// sources is apt's file of the distribution's archives, as cloud-init writes it.
func (o distro) sources(mirror, security string) string {
	stanza := func(uri string, suites []string) string {
		return "Types: deb\nURIs: " + uri + "\nSuites: " + strings.Join(suites, " ") + "\nComponents: " + o.components +
			"\nSigned-By: /usr/share/keyrings/" + o.id + "-archive-keyring.gpg\n"
	}
	out := stanza(mirror, o.suites)
	if security != "" {
		out += "\n" + stanza(security, []string{o.release + "-security"})
	}
	return out
}

// debianVersions are those of packages in Debian 13's main and security archives on
// 2026-11-22, by name; a package of Ubuntu's that is not here is not there.
func debianVersions(name string) string {
	return map[string]string{
		"qemu-guest-agent": "1:10.0.13+ds-0+deb13u1", "nfs-common": "1:2.8.3-1", "nfs-kernel-server": "1:2.8.3-1", "open-iscsi": "2.1.11-1+deb13u2",
		"curl": "8.14.1-2+deb13u7", "wget": "1.25.0-2", "ca-certificates": "20250419+deb13u1", "gnupg": "2.4.7-21+deb13u1", "jq": "1.7.1-6+deb13u4",
		"xfsprogs": "6.13.0-2+deb13u1", "cryptsetup": "2:2.7.5-2", "dmsetup": "2:1.02.205-2", "lvm2": "2.03.31-2", "multipath-tools": "0.11.1-2",
		"htop": "3.4.1-5", "git": "1:2.47.3-0+deb13u1", "pciutils": "1:3.13.0-2", "chrony": "4.6.1-3+deb13u2", "socat": "1.8.0.3-1+deb13u1", "zstd": "1.5.7+dfsg-1",
	}[name]
}

// inDebian is a package as Debian has it.
func (r release) inDebian() (release, bool) {
	if r.origin == toolkitArchive {
		return r, true
	}
	version := debianVersions(r.name)
	r.versions, r.origin = []string{version}, debianArchive
	return r, version != ""
}

// distro is that of a running machine, by its os-release.
func (s *system) distro() distro {
	data, _ := s.root().ReadFile("/etc/os-release")
	for line := range strings.Lines(string(data)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			if o, known := distroOf(name); known {
				return o
			}
		}
	}
	o, _ := distroOf("noble")
	return o
}
