package pvehost

import (
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/image"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// NewDisk returns the disk of a Proxmox VE host as its installer leaves it
// (pve-installer, Proxmox/Install.pm), with what c says beyond that.
func NewDisk(name string, c *machine.HostConfig) *disk.Disk {
	d := image.New("noble")
	v := disk.ViewOf(d)
	for _, gone := range []string{"/etc/cloud", "/var/lib/cloud", "/etc/netplan", "/usr/bin/cloud-init", "/usr/bin/netplan"} {
		_ = v.RemoveAll(gone)
	}
	for _, dir := range []string{"/etc/default/grub.d", "/etc/kernel", "/etc/pve/lxc", "/boot/grub"} {
		must(v.MkdirAll(dir, 0o755))
	}
	for path, text := range hostFiles(name, c) {
		must(v.WriteFile(path, []byte(text), 0o644))
	}
	must(v.Symlink("../modules", "/etc/modules-load.d/modules.conf"))
	for _, name := range hostPrograms() {
		must(v.WriteFile("/usr/bin/"+name, disk.Program(name), 0o755))
	}
	must(v.MkdirAll("/usr/sbin", 0o755))
	for _, name := range []string{"pvesm", "pveum", "qm"} { // where Proxmox's packages put them
		must(v.WriteFile("/usr/sbin/"+name, disk.Program(name), 0o755))
	}
	must(v.WriteFile("/boot/vmlinuz-"+c.Kernel, []byte("simulated\n"), 0o644))
	must(writeInitramfs(v, c.Kernel))
	if c.Loader == machine.LoaderSystemdBoot {
		must(writeLoaderEntry(v, c.Kernel))
	} else {
		must(writeGrubConfig(v, c.Kernel))
	}
	return d
}

func hostFiles(name string, c *machine.HostConfig) map[string]string {
	extra := ""
	if c.Cmdline != "" {
		extra = " " + c.Cmdline
	}
	files := map[string]string{
		"/usr/lib/os-release": "PRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"13\"\nVERSION_CODENAME=trixie\nID=debian\n",
		"/etc/hostname":       name + "\n",
		"/etc/fstab":          "# <file system> <mount point> <type> <options> <dump> <pass>\n",
		"/etc/modules":        "# /etc/modules is obsolete and has been replaced by /etc/modules-load.d/.\n# Please see modules-load.d(5) and modprobe.d(5) for details.\n#\n# Updating this file still works, but it is undocumented and unsupported.\n",
		"/etc/modprobe.d/pve-blacklist.conf": "# This file contains a list of modules which are not supported by Proxmox VE\n\n" +
			"# nvidiafb see bugreport https://bugzilla.proxmox.com/show_bug.cgi?id=701\nblacklist nvidiafb\n",
		"/etc/modprobe.d/zfs.conf": "options zfs zfs_arc_max=1683627008\n",
		"/etc/default/grub": "# If you change this file or any /etc/default/grub.d/*.cfg file,\n# run 'update-grub' afterwards to update /boot/grub/grub.cfg.\n" +
			"# For full documentation of the options in these files, see:\n#   info -f grub -n 'Simple configuration'\n\n" +
			"GRUB_DEFAULT=0\nGRUB_TIMEOUT=5\nGRUB_DISTRIBUTOR=`( . /etc/os-release && echo ${NAME} )`\n" +
			"GRUB_CMDLINE_LINUX_DEFAULT=\"quiet" + extra + "\"\nGRUB_CMDLINE_LINUX=\"\"\n\n" +
			"# If your computer has multiple operating systems installed, then you\n# probably want to run os-prober.\n#GRUB_DISABLE_OS_PROBER=false\n",
	}
	if c.Loader != machine.LoaderGRUB && c.Loader != "" {
		files["/etc/kernel/proxmox-boot-uuids"] = "936E-9A3F\n936F-0211\n"
		files["/etc/kernel/cmdline"] = "root=ZFS=rpool/ROOT/pve-1 boot=zfs" + extra + "\n"
		files["/etc/default/grub.d/zfs.cfg"] = "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX root=ZFS=rpool/ROOT/pve-1 boot=zfs\""
	}
	return files
}

// Where the boot loaders have what they start. The ESPs are not mounted, so theirs is
// where nobody looks.
const (
	grubConfigFile = "/boot/grub/grub.cfg"
	loaderEntry    = "/.esp/loader/entries/proxmox.conf"
)

// writeGrubConfig is grub-mkconfig, as far as the command line goes.
func writeGrubConfig(v *disk.View, kernel string) error {
	vars := map[string]string{}
	paths := []string{"/etc/default/grub"}
	entries, _ := v.ReadDir("/etc/default/grub.d")
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".cfg") {
			paths = append(paths, "/etc/default/grub.d/"+e.Name())
		}
	}
	for _, path := range paths {
		data, err := v.ReadFile(path)
		if err != nil {
			continue
		}
		for _, line := range disk.Lines(data) {
			key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
			if !ok || strings.HasPrefix(key, "#") {
				continue
			}
			value = strings.Trim(strings.TrimSpace(value), `"'`)
			value = strings.ReplaceAll(value, "${"+key+"}", vars[key])
			vars[key] = strings.ReplaceAll(value, "$"+key, vars[key])
		}
	}
	root := "root=/dev/mapper/pve-root"
	if strings.Contains(vars["GRUB_CMDLINE_LINUX"], "root=ZFS") {
		root = ""
	}
	options := strings.Join(strings.Fields(root+" ro "+vars["GRUB_CMDLINE_LINUX"]+" "+vars["GRUB_CMDLINE_LINUX_DEFAULT"]), " ")
	return v.WriteFile(grubConfigFile, fmt.Appendf(nil, "menuentry 'Proxmox VE GNU/Linux' {\n\tlinux\t/boot/vmlinuz-%s %s\n\tinitrd\t/boot/initrd.img-%s\n}\n", kernel, options, kernel), 0o600)
}

// writeLoaderEntry is what zz-proxmox-boot writes to each ESP.
func writeLoaderEntry(v *disk.View, kernel string) error {
	data, err := v.ReadFile("/etc/kernel/cmdline")
	if err != nil {
		if data, err = v.ReadFile("/proc/cmdline"); err != nil {
			return err
		}
	}
	line, _, _ := strings.Cut(string(data), "\n")
	if !strings.Contains(line, "root=") {
		return fmt.Errorf("No root= parameter in /etc/kernel/cmdline found!")
	}
	if err := v.MkdirAll("/.esp/loader/entries", 0o700); err != nil {
		return err
	}
	return v.WriteFile(loaderEntry, fmt.Appendf(nil, "title    Proxmox Virtual Environment\nversion  %s\noptions  %s\nlinux    /EFI/proxmox/%s/vmlinuz-%s\n", kernel, strings.TrimSpace(line), kernel, kernel), 0o644)
}

// bootLine returns the command line that the loader passes.
func bootLine(v *disk.View, loader machine.Loader) string {
	file, key := grubConfigFile, "linux"
	if loader == machine.LoaderSystemdBoot {
		file, key = loaderEntry, "options"
	}
	data, err := v.ReadFile(file)
	if err != nil {
		return ""
	}
	for _, line := range disk.Lines(data) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] != key {
			continue
		}
		if key == "linux" {
			return "BOOT_IMAGE=" + strings.Join(f[1:], " ")
		}
		return "initrd=\\EFI\\proxmox\\initrd.img " + strings.Join(f[1:], " ")
	}
	return ""
}

// writeInitramfs copies modprobe.d to where the kernel finds it first.
func writeInitramfs(v *disk.View, kernel string) error {
	entries, err := v.ReadDir("/etc/modprobe.d")
	if err != nil {
		return err
	}
	var all strings.Builder
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".conf") {
			data, _ := v.ReadFile("/etc/modprobe.d/" + e.Name())
			all.WriteString(string(data) + "\n")
		}
	}
	return v.WriteFile("/boot/initrd.img-"+kernel, []byte(all.String()), 0o644)
}

// must is for building a disk, which cannot fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
