package guest

import (
	"context"
	"io"
	"net/netip"
	"slices"
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

// HostBoot is what came of a boot.
type HostBoot struct {
	IOMMU   bool
	Drivers map[string]string // by address; only those that have one
}

// HostProgram is a program that somebody else adds, such as pveum. It returns its
// exit status.
type HostProgram func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int

// hostProgram returns the program of that name, nil when the machine is not a host or has none.
func (s *system) hostProgram(name string) Program {
	h := s.cfg.Host
	if h == nil {
		return nil
	}
	if program := h.Programs[name]; program != nil {
		return func(ctx context.Context, p *proc) int { return program(ctx, p.args, p.stdin, p.stdout, p.stderr) }
	}
	switch name {
	case "update-grub":
		return runUpdateGrub
	case "update-initramfs":
		return runUpdateInitramfs
	case "proxmox-boot-tool":
		return runBootTool
	case "lspci":
		return runHostLspci
	case "pveversion":
		return func(_ context.Context, p *proc) int {
			p.printf("pve-manager/%s/14a22df3 (running kernel: %s)\n", h.Version, p.sys.kernel)
			return 0
		}
	}
	return nil
}

// hostPrograms are those that a host has and an Ubuntu guest does not have.
func hostPrograms() []string {
	return []string{"proxmox-boot-tool", "pveversion", "pveum", "pvesm", "pvesh", "qm"}
}

// optionOf reports whether one of the options was given.
func optionOf(args []string, names ...string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return slices.Contains(names, a) })
}
