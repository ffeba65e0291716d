package boot

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/hardware"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/storage"
)

// KernelFiles are what a kernel shows of itself in /proc.
func KernelFiles(s *machine.System) {
	s.Put("/proc/version", "Linux version "+s.Kernel()+" (buildd@simulated) #91-Ubuntu SMP PREEMPT_DYNAMIC\n", 0o444)
	s.Put("/proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz-"+s.Kernel()+" root=LABEL=cloudimg-rootfs ro console=tty1 console=ttyS0\n", 0o444)
	s.Put("/proc/sys/kernel/osrelease", s.Kernel()+"\n", 0o444)
	s.Put(machine.BootIDFile, machine.HexID(16)+"\n", 0o444)
	s.Put("/proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n", 0o444)
	s.Put("/proc/meminfo", fmt.Sprintf("MemTotal: %d kB\nMemAvailable: %d kB\n", s.Config.Memory>>10, s.Config.Memory>>10*9/10), 0o444)
	var cpus strings.Builder
	for i := range s.Config.CPUs {
		fmt.Fprintf(&cpus, "processor\t: %d\nmodel name\t: simulated\n\n", i)
	}
	s.Put("/proc/cpuinfo", cpus.String(), 0o444)
	s.Put("/proc/uptime", "0.00 0.00\n", 0o444)
	s.Put("/proc/modules", "", 0o444)
	s.ShowMounts()
	s.Kmsg("Linux version %s", s.Kernel())
}

// DeviceFiles are what udev makes of the devices.
func DeviceFiles(s *machine.System) {
	v := s.Root()
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty", "kmsg"} {
		_ = v.Device("/dev/"+name, fs.ModeCharDevice|0o666)
	}
	storage.DeviceFiles(s)
	for _, p := range s.Config.PCI {
		dir := "/sys/bus/pci/devices/" + p.Address
		s.Put(dir+"/vendor", fmt.Sprintf("0x%04x\n", p.Vendor), 0o444)
		s.Put(dir+"/device", fmt.Sprintf("0x%04x\n", p.Device), 0o444)
		s.Put(dir+"/subsystem_vendor", fmt.Sprintf("0x%04x\n", p.SubVendor), 0o444)
		s.Put(dir+"/subsystem_device", fmt.Sprintf("0x%04x\n", p.SubDevice), 0o444)
		s.Put(dir+"/class", fmt.Sprintf("0x%06x\n", p.Class), 0o444)
	}
}

// Userspace is what systemd does first.
func Userspace(s *machine.System) {
	v := s.Root()
	s.Put("/proc/1/comm", "systemd\n", 0o644)
	_ = v.MkdirAll("/run/systemd/system", 0o755)
	id, _ := v.ReadFile("/etc/machine-id")
	if text := strings.TrimSpace(string(id)); text == "" || text == "uninitialized" {
		s.Put("/etc/machine-id", machine.HexID(16)+"\n", 0o444)
	}
	name, _ := v.ReadFile("/etc/hostname")
	s.SetHostname(strings.TrimSpace(string(name)))
	entries, _ := v.ReadDir("/tmp")
	for _, e := range entries {
		_ = v.RemoveAll("/tmp/" + e.Name())
	}
	storage.MountFstab(s, false)
	loadModulesFiles(s)
	applySysctl(s)
}

// loadModulesFiles is systemd-modules-load.
func loadModulesFiles(s *machine.System) {
	v := s.Root()
	entries, _ := v.ReadDir("/etc/modules-load.d")
	for _, e := range entries {
		data, _ := v.ReadFile("/etc/modules-load.d/" + e.Name())
		for _, line := range disk.Lines(data) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				_ = hardware.Modprobe(s, line)
			}
		}
	}
}
