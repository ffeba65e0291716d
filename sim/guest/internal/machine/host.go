package machine

import (
	"context"
	"io"
	"net/netip"
	"slices"
	"strings"
)

// Loader is what starts the kernel of a Proxmox VE host.
type Loader string

// The ways in which Proxmox's installer sets a host up.
const (
	LoaderGRUB        Loader = "grub"         // on ext4 or xfs
	LoaderSystemdBoot Loader = "systemd-boot" // on ZFS with UEFI: proxmox-boot-tool keeps the ESPs
	LoaderESPGRUB     Loader = "esp-grub"     // on ZFS with BIOS or Secure Boot: the same with GRUB
)

// HostConfig makes a [Machine] a Proxmox VE host instead of an Ubuntu guest: its
// boot loader's files and programs, its PCI devices and which driver has them. It is
// not changed by the Machine.
//
// A change to the command line counts when the boot loader was told and the host has
// rebooted, one to modprobe.d when the initramfs was recreated; then devices go to
// the driver that the kernel would give them to.
type HostConfig struct {
	Version  string // of pve-manager, e.g. 9.2.11
	Kernel   string // e.g. 6.17.4-1-pve
	Intel    bool   // the processors; else AMD
	Loader   Loader // empty: GRUB
	Cmdline  string // options beside those of the installer
	NoIOMMU  bool   // switched off in the firmware
	Address  netip.Addr
	Devices  []HostDevice
	Guests   func() []int // VMIDs that run on it; may be nil
	Programs map[string]HostProgram

	// OnBoot is told, without locks held, what the kernel made of the devices; first
	// for the state in which the host is found, then after each reboot.
	OnBoot func(HostBoot)
}

// HostDevice is a PCI function of a host.
type HostDevice struct {
	Address string // 0000:01:00.0
	ID      string // 10de:2684
	Class   string // 030000
	Name    string // as lspci has it, with its vendor
	Group   int    // of the IOMMU, when it is on; -1 for none
	NUMA    int
	BootVGA bool
	Driver  string // that takes it when nothing keeps it; empty: none
}

// HostBoot is the result of a boot.
type HostBoot struct {
	IOMMU   bool
	Drivers map[string]string // by address; only those that have one
}

// HostProgram is a program that somebody else adds, such as pveum. It returns its
// exit status.
type HostProgram func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int

// Options are those of a kernel's command line.
func Options(cmdline string) []string { return strings.Fields(cmdline) }

// IOMMU is what the kernel makes of its command line and the firmware.
func IOMMU(h *HostConfig, options []string) bool {
	has := func(o string) bool { return slices.Contains(options, o) }
	switch {
	case h.NoIOMMU, has("iommu=off"), has("intel_iommu=off") && h.Intel, has("amd_iommu=off") && !h.Intel:
		return false
	case h.Intel && CompareVersions(h.Kernel, "6.8") < 0:
		return has("intel_iommu=on")
	}
	return true
}

// WouldHaveIOMMU reports whether the IOMMU is on when the host boots as it is
// configured, were it on in the firmware.
func (h *HostConfig) WouldHaveIOMMU() bool {
	with := *h
	with.NoIOMMU = false
	return IOMMU(&with, Options(h.Cmdline))
}
