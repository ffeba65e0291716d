package guest

import (
	"context"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// runUpdateGrub is update-grub. Where proxmox-boot-tool keeps the ESPs it does this
// for them.
func runUpdateGrub(_ context.Context, p *proc) int {
	if p.user.UID != 0 {
		return p.fail("You must run this as root.")
	}
	fmt.Fprintf(p.stderr, "Generating grub configuration file ...\n")
	if err := writeGrubConfig(p.fs, p.sys.kernel); err != nil {
		return p.fail("%s", disk.Strerror(err))
	}
	fmt.Fprintf(p.stderr, "Found linux image: /boot/vmlinuz-%s\ndone\n", p.sys.kernel)
	p.sys.mutated("update-grub")
	return 0
}

// runUpdateInitramfs is update-initramfs -u [-k all].
func runUpdateInitramfs(_ context.Context, p *proc) int {
	if !optionOf(p.args, "-u", "-c") {
		return p.fail("you must specify at least one of -c, -u, or -d")
	}
	p.printf("update-initramfs: Generating /boot/initrd.img-%s\n", p.sys.kernel)
	if err := writeInitramfs(p.fs, p.sys.kernel); err != nil {
		return p.fail("%s", disk.Strerror(err))
	}
	p.sys.mutated("update-initramfs")
	if p.sys.cfg.Host.Loader == LoaderGRUB || p.sys.cfg.Host.Loader == "" {
		return 0
	}
	return refreshESPs(p)
}

// runBootTool is proxmox-boot-tool status and refresh.
func runBootTool(_ context.Context, p *proc) int {
	verb := ""
	if len(p.args) > 1 {
		verb = p.args[1]
	}
	loader := p.sys.cfg.Host.Loader
	switch {
	case verb == "status" && (loader == LoaderGRUB || loader == ""):
		fmt.Fprintln(p.stderr, "E: /etc/kernel/proxmox-boot-uuids does not exist.")
		return 2
	case verb == "status":
		with, booted := "uefi", "uefi"
		if loader == LoaderESPGRUB {
			with, booted = "grub", "legacy bios"
		}
		p.printf("Re-executing '/usr/sbin/proxmox-boot-tool' in new private mount namespace..\nSystem currently booted with %s\n", booted)
		data, err := p.fs.ReadFile("/etc/kernel/proxmox-boot-uuids")
		if err != nil {
			return 2
		}
		for _, id := range disk.Lines(data) {
			p.printf("%s is configured with: %s (versions: %s)\n", id, with, p.sys.kernel)
		}
		return 0
	case verb == "refresh" && (loader == LoaderGRUB || loader == ""):
		p.printf("Running hook script 'proxmox-auto-removal'..\nRunning hook script 'zz-proxmox-boot'..\n")
		fmt.Fprintln(p.stderr, "No /etc/kernel/proxmox-boot-uuids found, skipping ESP sync.")
		return 0
	case verb == "refresh":
		p.printf("Running hook script 'proxmox-auto-removal'..\nRunning hook script 'zz-proxmox-boot'..\n")
		return refreshESPs(p)
	}
	return p.fail("%s is not simulated", strings.Join(p.args[1:], " "))
}

// refreshESPs is the hook zz-proxmox-boot.
func refreshESPs(p *proc) int {
	write := writeGrubConfig
	if p.sys.cfg.Host.Loader == LoaderSystemdBoot {
		write = writeLoaderEntry
	}
	if err := write(p.fs, p.sys.kernel); err != nil {
		fmt.Fprintln(p.stderr, disk.Strerror(err))
		return 1
	}
	fmt.Fprintf(p.stderr, "Copying and configuring kernels on /dev/disk/by-uuid/936E-9A3F\n\tCopying kernel and creating boot-entry for %s\n", p.sys.kernel)
	p.sys.mutated("proxmox-boot-tool refresh")
	return 0
}

// runHostLspci is lspci with -D, -n, -nn and -k.
func runHostLspci(_ context.Context, p *proc) int {
	opts, _ := flags(p.args[1:], "d", "s")
	for _, d := range p.sys.cfg.Host.Devices {
		at := d.Address
		if !has(opts, "D") {
			at = strings.TrimPrefix(at, "0000:")
		}
		class := d.Class[:4]
		switch {
		case len(opts["n"]) >= 2:
			p.printf("%s %s [%s]: %s [%s] (rev a1)\n", at, className(class), class, d.Name, d.ID)
		case has(opts, "n"):
			p.printf("%s %s: %s (rev a1)\n", at, class, d.ID)
		default:
			p.printf("%s %s: %s (rev a1)\n", at, className(class), d.Name)
		}
		if driver, err := p.fs.Resolve("/sys/bus/pci/devices/"+d.Address+"/driver", true); err == nil && has(opts, "k") {
			p.printf("\tKernel driver in use: %s\n", driver[strings.LastIndex(driver, "/")+1:])
		}
	}
	return 0
}
