package guest

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
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
func (s *system) boot() {
	if s.cfg.Host != nil {
		s.bootHost()
		return
	}
	never := s.faulty(func(f Faults) bool { return f.NeverBoots })
	if !s.pause(s.Context(), firmwareTime) || never {
		return
	}
	kernel := s.bootKernel()
	if kernel == "" {
		return // "No bootable device"
	}
	s.begin(kernel, time.Now())
	s.kernelFiles()
	s.deviceFiles()
	_ = s.loadNVIDIA(true) // the kernel's log says why not
	if !s.pause(s.Context(), kernelTime) {
		return
	}
	s.startUserspace()
	s.ready()
	c := s.cloudInit()
	c.local()
	if !s.pause(s.Context(), networkTime) {
		return
	}
	s.networkUp()
	c.network()
	if !s.pause(s.Context(), initTime) {
		return
	}
	s.startEnabled()
	c.config()
	if !s.pause(s.Context(), configTime) {
		return
	}
	s.mountFstab(true) // nothing orders these before any unit, so they come after all
	c.final()
	if !s.pause(s.Context(), finalTime) {
		return
	}
	c.finish()
}

func (s *system) kernelFiles() {
	s.put("/proc/version", "Linux version "+s.kernel+" (buildd@simulated) #91-Ubuntu SMP PREEMPT_DYNAMIC\n", 0o444)
	s.put("/proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz-"+s.kernel+" root=LABEL=cloudimg-rootfs ro console=tty1 console=ttyS0\n", 0o444)
	s.put("/proc/sys/kernel/osrelease", s.kernel+"\n", 0o444)
	s.put(bootIDFile, hexID(16)+"\n", 0o444)
	s.put("/proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n", 0o444)
	s.put("/proc/meminfo", fmt.Sprintf("MemTotal: %d kB\nMemAvailable: %d kB\n", s.cfg.Memory>>10, s.cfg.Memory>>10*9/10), 0o444)
	var cpus strings.Builder
	for i := range s.cfg.CPUs {
		fmt.Fprintf(&cpus, "processor\t: %d\nmodel name\t: simulated\n\n", i)
	}
	s.put("/proc/cpuinfo", cpus.String(), 0o444)
	s.put("/proc/uptime", "0.00 0.00\n", 0o444)
	s.put("/proc/modules", "", 0o444)
	s.showMounts()
	s.kmsg("Linux version %s", s.kernel)
}

func (s *system) deviceFiles() {
	v := s.root()
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty", "kmsg"} {
		_ = v.Device("/dev/"+name, fs.ModeCharDevice|0o666)
	}
	diskFiles(s)
	for _, p := range s.cfg.PCI {
		dir := "/sys/bus/pci/devices/" + p.Address
		s.put(dir+"/vendor", fmt.Sprintf("0x%04x\n", p.Vendor), 0o444)
		s.put(dir+"/device", fmt.Sprintf("0x%04x\n", p.Device), 0o444)
		s.put(dir+"/subsystem_vendor", fmt.Sprintf("0x%04x\n", p.SubVendor), 0o444)
		s.put(dir+"/subsystem_device", fmt.Sprintf("0x%04x\n", p.SubDevice), 0o444)
		s.put(dir+"/class", fmt.Sprintf("0x%06x\n", p.Class), 0o444)
	}
}

// startUserspace is what systemd does first.
func (s *system) startUserspace() {
	v := s.root()
	id, _ := v.ReadFile("/etc/machine-id")
	if text := strings.TrimSpace(string(id)); text == "" || text == "uninitialized" {
		s.put("/etc/machine-id", hexID(16)+"\n", 0o444)
	}
	name, _ := v.ReadFile("/etc/hostname")
	s.setHostname(strings.TrimSpace(string(name)))
	entries, _ := v.ReadDir("/tmp")
	for _, e := range entries {
		_ = v.RemoveAll("/tmp/" + e.Name())
	}
	s.mountFstab(false)
	s.loadModulesFiles()
	s.applySysctl()
}

// loadModulesFiles is systemd-modules-load.
func (s *system) loadModulesFiles() {
	v := s.root()
	entries, _ := v.ReadDir("/etc/modules-load.d")
	for _, e := range entries {
		data, _ := v.ReadFile("/etc/modules-load.d/" + e.Name())
		for _, line := range disk.Lines(data) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				_ = s.modprobe(line)
			}
		}
	}
}

// applySysctl is systemd-sysctl.
func (s *system) applySysctl() {
	v := s.root()
	entries, _ := v.ReadDir("/etc/sysctl.d")
	files := []string{"/etc/sysctl.conf"}
	for _, e := range entries {
		files = append(files, "/etc/sysctl.d/"+e.Name())
	}
	for _, f := range files {
		data, _ := v.ReadFile(f)
		s.sysctlLines(data)
	}
}

func (s *system) sysctlLines(data []byte) {
	for _, line := range disk.Lines(data) {
		key, value, ok := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); ok && !strings.HasPrefix(key, "#") {
			s.put(sysctlPath(key), strings.TrimSpace(value)+"\n", 0o644)
		}
	}
}

func sysctlPath(key string) string {
	return path.Join("/proc/sys", strings.ReplaceAll(strings.TrimPrefix(key, "-"), ".", "/"))
}
