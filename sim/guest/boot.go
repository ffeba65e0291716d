package guest

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

const bootIDFile = "/proc/sys/kernel/random/boot_id"

// How long the stages of a boot take; about 12 s to the first SSH login.
const (
	firmwareTime = 4 * time.Second
	kernelTime   = 3 * time.Second
	networkTime  = 2 * time.Second
	initTime     = 3 * time.Second
	configTime   = time.Second
	finalTime    = time.Second
)

// boot is the way from the power button to the end of cloud-init.
func boot(s *machine.System) {
	if s.Config.Host != nil {
		bootHost(s)
		return
	}
	never := s.Faulty(func(f machine.Faults) bool { return f.NeverBoots })
	if !s.Pause(s.Context(), firmwareTime) || never {
		return
	}
	kernel := s.BootKernel()
	if kernel == "" {
		return // "No bootable device"
	}
	s.Begin(kernel, time.Now())
	kernelFiles(s)
	deviceFiles(s)
	_ = loadNVIDIA(s, true) // the kernel's log says why not
	if !s.Pause(s.Context(), kernelTime) {
		return
	}
	startUserspace(s)
	s.Ready()
	c := cloudInit(s)
	c.local()
	if !s.Pause(s.Context(), networkTime) {
		return
	}
	networkUp(s)
	c.network()
	if !s.Pause(s.Context(), initTime) {
		return
	}
	startEnabled(s)
	c.config()
	if !s.Pause(s.Context(), configTime) {
		return
	}
	mountFstab(s, true) // nothing orders these before any unit, so they come after all
	c.final()
	if !s.Pause(s.Context(), finalTime) {
		return
	}
	c.finish()
}

func kernelFiles(s *machine.System) {
	s.Put("/proc/version", "Linux version "+s.Kernel()+" (buildd@simulated) #91-Ubuntu SMP PREEMPT_DYNAMIC\n", 0o444)
	s.Put("/proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz-"+s.Kernel()+" root=LABEL=cloudimg-rootfs ro console=tty1 console=ttyS0\n", 0o444)
	s.Put("/proc/sys/kernel/osrelease", s.Kernel()+"\n", 0o444)
	s.Put(bootIDFile, machine.HexID(16)+"\n", 0o444)
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

func deviceFiles(s *machine.System) {
	v := s.Root()
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty", "kmsg"} {
		_ = v.Device("/dev/"+name, fs.ModeCharDevice|0o666)
	}
	diskFiles(s)
	for _, p := range s.Config.PCI {
		dir := "/sys/bus/pci/devices/" + p.Address
		s.Put(dir+"/vendor", fmt.Sprintf("0x%04x\n", p.Vendor), 0o444)
		s.Put(dir+"/device", fmt.Sprintf("0x%04x\n", p.Device), 0o444)
		s.Put(dir+"/subsystem_vendor", fmt.Sprintf("0x%04x\n", p.SubVendor), 0o444)
		s.Put(dir+"/subsystem_device", fmt.Sprintf("0x%04x\n", p.SubDevice), 0o444)
		s.Put(dir+"/class", fmt.Sprintf("0x%06x\n", p.Class), 0o444)
	}
}

// startUserspace is what systemd does first.
func startUserspace(s *machine.System) {
	v := s.Root()
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
	mountFstab(s, false)
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
				_ = modprobe(s, line)
			}
		}
	}
}

// applySysctl is systemd-sysctl.
func applySysctl(s *machine.System) {
	v := s.Root()
	entries, _ := v.ReadDir("/etc/sysctl.d")
	files := []string{"/etc/sysctl.conf"}
	for _, e := range entries {
		files = append(files, "/etc/sysctl.d/"+e.Name())
	}
	for _, f := range files {
		data, _ := v.ReadFile(f)
		sysctlLines(s, data)
	}
}

func sysctlLines(s *machine.System, data []byte) {
	for _, line := range disk.Lines(data) {
		key, value, ok := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); ok && !strings.HasPrefix(key, "#") {
			s.Put(sysctlPath(key), strings.TrimSpace(value)+"\n", 0o644)
		}
	}
}

func sysctlPath(key string) string {
	return path.Join("/proc/sys", strings.ReplaceAll(strings.TrimPrefix(key, "-"), ".", "/"))
}
