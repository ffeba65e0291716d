package image

import (
	"io/fs"
	"slices"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// New returns the disk of a cloud image as its distributor publishes it:
// cloud-init is there, a guest agent and host keys are not. "noble" (Ubuntu
// 24.04) and "trixie" (Debian 13) are what there is; other names give an empty disk
// that does not boot.
func New(release string) *disk.Disk {
	d := disk.New()
	o, ok := ofRelease(release)
	if !ok {
		return d
	}
	v := disk.ViewOf(d)
	dirs := []string{
		"/boot", "/dev", "/etc/apt/sources.list.d", "/etc/cloud/cloud.cfg.d", "/etc/netplan", "/etc/ssh/sshd_config.d", "/etc/sudoers.d",
		"/etc/modprobe.d", "/etc/modules-load.d", "/etc/sysctl.d", "/etc/systemd/system/multi-user.target.wants", "/home", "/mnt", "/opt",
		"/proc", "/root", "/run", "/srv", "/sys", "/tmp", "/usr/bin", "/usr/lib/modules", "/usr/lib/systemd/system", "/usr/local/bin",
		"/usr/local/sbin", "/usr/sbin", "/usr/share/keyrings", "/var/lib/apt/lists", "/var/lib/cloud", "/var/lib/dpkg", "/var/log", "/var/tmp",
	}
	for _, dir := range dirs {
		must(v.MkdirAll(dir, 0o755))
	}
	for dir, mode := range map[string]fs.FileMode{"/root": 0o700, "/tmp": 0o777 | fs.ModeSticky, "/var/tmp": 0o777 | fs.ModeSticky, "/etc/sudoers.d": 0o750} {
		must(v.Chmod(dir, mode))
	}
	for link, to := range map[string]string{
		"/bin": "usr/bin", "/sbin": "usr/sbin", "/lib": "usr/lib", "/etc/os-release": "../usr/lib/os-release", "/etc/localtime": "/usr/share/zoneinfo/Etc/UTC",
	} {
		must(v.Symlink(to, link))
	}
	for name, text := range baseFiles(o) {
		must(v.WriteFile(name, []byte(text), 0o644))
	}
	for _, name := range []string{"/etc/shadow", "/etc/sudoers"} {
		must(v.Chmod(name, 0o640))
	}
	for _, name := range slices.Concat(coreutils, downloads, locks, baseSystem, o.programs) {
		must(v.WriteFile("/usr/bin/"+name, disk.Program(name), 0o755))
	}
	must(v.Symlink("../bin/sshd", "/usr/sbin/sshd"))
	for _, unit := range o.units {
		must(v.Symlink("/usr/lib/systemd/system/"+unit+".service", "/etc/systemd/system/multi-user.target.wants/"+unit+".service"))
	}
	for _, name := range o.packages {
		must(disk.Install(d, name, o.version(name)))
	}
	for _, name := range o.lacks {
		must(v.Remove("/usr/bin/" + name))
	}
	return d
}

// must is for building a disk, which cannot fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func baseFiles(o Distro) map[string]string {
	service := func(description, exec string) string {
		return "[Unit]\nDescription=" + description + "\n\n[Service]\nExecStart=" + exec + "\n\n[Install]\nWantedBy=multi-user.target\n"
	}
	return map[string]string{
		"/usr/lib/os-release": o.osRelease,
		"/etc/machine-id":     "uninitialized\n",
		"/etc/hostname":       o.ID + "\n",
		"/etc/hosts":          "127.0.0.1 localhost\n",
		"/etc/passwd": "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"/etc/group":  "root:x:0:\nadm:x:4:\nsudo:x:27:\nusers:x:100:\nnogroup:x:65534:\ndisk:x:6:\nvideo:x:44:\n",
		"/etc/shadow": "root:*:20000:0:99999:7:::\n",
		"/etc/sudoers": "Defaults env_reset\nroot ALL=(ALL:ALL) ALL\n%sudo ALL=(ALL:ALL) ALL\n" +
			"@includedir /etc/sudoers.d\n",
		"/etc/fstab":    o.fstab,
		o.SourcesFile(): o.Sources(o.Mirror, o.Security),
		"/usr/share/keyrings/" + o.ID + "-archive-keyring.gpg": "simulated\n",
		"/etc/cloud/cloud.cfg":                                 "# simulated: the distribution's defaults\n",
		"/etc/ssh/sshd_config":                                 "Include /etc/ssh/sshd_config.d/*.conf\nPasswordAuthentication no\n",
		"/usr/lib/systemd/system/ssh.service":                  service("OpenBSD Secure Shell server", "/usr/sbin/sshd -D"),
		"/usr/lib/systemd/system/cron.service":                 service("Regular background program processing daemon", "/usr/bin/cron -f"),
		"/usr/lib/systemd/system/multipathd.service":           service("Device-Mapper Multipath Device Controller", "/usr/bin/multipathd -d -s"),
		"/usr/lib/systemd/system/unattended-upgrades.service":  service("Unattended Upgrades Shutdown", "/usr/bin/unattended-upgrade-shutdown --wait-for-signal"),
	}
}
