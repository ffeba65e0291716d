package pvehost

import (
	"context"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/hardware"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// runUpdateGrub is update-grub. Where proxmox-boot-tool keeps the ESPs it does this
// for them.
func runUpdateGrub(_ context.Context, p *machine.Proc) int {
	if p.User.UID != 0 {
		return p.Fail("You must run this as root.")
	}
	fmt.Fprintf(p.Stderr, "Generating grub configuration file ...\n")
	if err := writeGrubConfig(p.FS, p.Sys.Kernel()); err != nil {
		return p.Fail("%s", disk.Strerror(err))
	}
	fmt.Fprintf(p.Stderr, "Found linux image: /boot/vmlinuz-%s\ndone\n", p.Sys.Kernel())
	p.Sys.RecordChange("update-grub")
	return 0
}

// runUpdateInitramfs is update-initramfs -u [-k all].
func runUpdateInitramfs(_ context.Context, p *machine.Proc) int {
	if !optionOf(p.Args, "-u", "-c") {
		return p.Fail("you must specify at least one of -c, -u, or -d")
	}
	p.Printf("update-initramfs: Generating /boot/initrd.img-%s\n", p.Sys.Kernel())
	if err := writeInitramfs(p.FS, p.Sys.Kernel()); err != nil {
		return p.Fail("%s", disk.Strerror(err))
	}
	p.Sys.RecordChange("update-initramfs")
	if p.Sys.Config.Host.Loader == machine.LoaderGRUB || p.Sys.Config.Host.Loader == "" {
		return 0
	}
	return refreshESPs(p)
}

// runBootTool is proxmox-boot-tool status and refresh.
func runBootTool(_ context.Context, p *machine.Proc) int {
	verb := ""
	if len(p.Args) > 1 {
		verb = p.Args[1]
	}
	loader := p.Sys.Config.Host.Loader
	switch {
	case verb == "status" && (loader == machine.LoaderGRUB || loader == ""):
		fmt.Fprintln(p.Stderr, "E: /etc/kernel/proxmox-boot-uuids does not exist.")
		return 2
	case verb == "status":
		with, booted := "uefi", "uefi"
		if loader == machine.LoaderESPGRUB {
			with, booted = "grub", "legacy bios"
		}
		p.Printf("Re-executing '/usr/sbin/proxmox-boot-tool' in new private mount namespace..\nSystem currently booted with %s\n", booted)
		data, err := p.FS.ReadFile("/etc/kernel/proxmox-boot-uuids")
		if err != nil {
			return 2
		}
		for _, id := range disk.Lines(data) {
			p.Printf("%s is configured with: %s (versions: %s)\n", id, with, p.Sys.Kernel())
		}
		return 0
	case verb == "refresh" && (loader == machine.LoaderGRUB || loader == ""):
		p.Printf("Running hook script 'proxmox-auto-removal'..\nRunning hook script 'zz-proxmox-boot'..\n")
		fmt.Fprintln(p.Stderr, "No /etc/kernel/proxmox-boot-uuids found, skipping ESP sync.")
		return 0
	case verb == "refresh":
		p.Printf("Running hook script 'proxmox-auto-removal'..\nRunning hook script 'zz-proxmox-boot'..\n")
		return refreshESPs(p)
	}
	return p.Fail("%s is not simulated", strings.Join(p.Args[1:], " "))
}

// refreshESPs is the hook zz-proxmox-boot.
func refreshESPs(p *machine.Proc) int {
	write := writeGrubConfig
	if p.Sys.Config.Host.Loader == machine.LoaderSystemdBoot {
		write = writeLoaderEntry
	}
	if err := write(p.FS, p.Sys.Kernel()); err != nil {
		fmt.Fprintln(p.Stderr, disk.Strerror(err))
		return 1
	}
	fmt.Fprintf(p.Stderr, "Copying and configuring kernels on /dev/disk/by-uuid/936E-9A3F\n\tCopying kernel and creating boot-entry for %s\n", p.Sys.Kernel())
	p.Sys.RecordChange("proxmox-boot-tool refresh")
	return 0
}

// runHostLspci is lspci with -D, -n, -nn and -k.
func runHostLspci(_ context.Context, p *machine.Proc) int {
	opts, _ := getopt.Parse(p.Args[1:], "d", "s")
	for _, d := range p.Sys.Config.Host.Devices {
		at := d.Address
		if !getopt.Has(opts, "D") {
			at = strings.TrimPrefix(at, "0000:")
		}
		class := d.Class[:4]
		switch {
		case len(opts["n"]) >= 2:
			p.Printf("%s %s [%s]: %s [%s] (rev a1)\n", at, hardware.ClassName(class), class, d.Name, d.ID)
		case getopt.Has(opts, "n"):
			p.Printf("%s %s: %s (rev a1)\n", at, class, d.ID)
		default:
			p.Printf("%s %s: %s (rev a1)\n", at, hardware.ClassName(class), d.Name)
		}
		if driver, err := p.FS.Resolve("/sys/bus/pci/devices/"+d.Address+"/driver", true); err == nil && getopt.Has(opts, "k") {
			p.Printf("\tKernel driver in use: %s\n", driver[strings.LastIndex(driver, "/")+1:])
		}
	}
	return 0
}
