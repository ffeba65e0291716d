package pvehost

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/boot"
	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/sshd"
	"github.com/cps-gpu/homelab/sim/guest/internal/systemd"
)

// hostFirmwareTime is how long a server takes before its boot loader.
const hostFirmwareTime = 90 * time.Second

// Boot is the way of a Proxmox VE host to its SSH server. The first time it was
// up before anybody looked.
func Boot(s *machine.System) {
	h := s.Config.Host
	found := !s.Config.Disk.Exists(sshd.HostKeyFile)
	if !found && (!s.Pause(s.Context(), hostFirmwareTime) || s.Faulty(func(f machine.Faults) bool { return f.NeverBoots })) {
		return
	}
	v := s.Root()
	booted := time.Now()
	if found {
		booted = booted.Add(-24 * time.Hour)
	}
	s.Begin(h.Kernel, booted)
	boot.KernelFiles(s)
	boot.DeviceFiles(s)
	cmdline := bootLine(v, h.Loader)
	s.Put("/proc/cmdline", cmdline+"\n", 0o444)
	vendor := map[bool]string{true: "GenuineIntel", false: "AuthenticAMD"}[h.Intel]
	s.Put("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: "+vendor+"\n", 0o444)
	s.Put("/proc/stat", fmt.Sprintf("cpu  0 0 0 0\nbtime %d\n", booted.Unix()), 0o444)
	if h.Loader == machine.LoaderSystemdBoot {
		_ = v.MkdirAll("/sys/firmware/efi", 0o755)
	}
	result := hostDevices(s, machine.Options(cmdline))
	if !found && !s.Pause(s.Context(), boot.KernelTime) {
		return
	}
	boot.Userspace(s)
	_ = sshd.MakeHostKey(v)                                // fails only where a script has put a folder
	_ = systemd.Start(s.Context(), s, "ssh.service", true) // its state says when it did not
	systemd.StartEnabled(s)
	if n := s.Config.Network; n != nil && h.Address.IsValid() {
		n.Register(h.Address, s.Answers())
	}
	s.Ready()
	if h.OnBoot != nil {
		h.OnBoot(result)
	}
}

// hostDevices gives every device to a driver, and shows them all in /sys.
func hostDevices(s *machine.System, options []string) machine.HostBoot {
	h := s.Config.Host
	result := machine.HostBoot{IOMMU: machine.IOMMU(h, options), Drivers: map[string]string{}}
	config := readModprobe(s.Root(), "/boot/initrd.img-"+s.Kernel())
	v := s.Root()
	for _, d := range h.Devices {
		dir := "/sys/bus/pci/devices/" + d.Address
		vendor, device, _ := strings.Cut(d.ID, ":")
		s.Put(dir+"/vendor", "0x"+vendor+"\n", 0o444)
		s.Put(dir+"/device", "0x"+device+"\n", 0o444)
		s.Put(dir+"/class", "0x"+d.Class+"\n", 0o444)
		s.Put(dir+"/numa_node", fmt.Sprintf("%d\n", d.NUMA), 0o444)
		if strings.HasPrefix(d.Class, "03") {
			s.Put(dir+"/boot_vga", map[bool]string{true: "1\n", false: "0\n"}[d.BootVGA], 0o444)
		}
		if driver := config.driver(d); driver != "" {
			result.Drivers[d.Address] = driver
			_ = v.MkdirAll("/sys/bus/pci/drivers/"+driver, 0o755)
			_ = v.Symlink("../../../../bus/pci/drivers/"+driver, dir+"/driver")
		}
		if result.IOMMU && d.Group >= 0 {
			group := fmt.Sprintf("/sys/kernel/iommu_groups/%d", d.Group)
			_ = v.MkdirAll(group+"/devices", 0o755)
			_ = v.Symlink("../../../.."+dir, group+"/devices/"+d.Address)
			_ = v.Symlink("../../../.."+strings.TrimPrefix(group, "/sys"), dir+"/iommu_group")
		}
	}
	if h.Guests != nil {
		for _, id := range h.Guests() {
			s.Put(fmt.Sprintf("/run/qemu-server/%d.pid", id), "1\n", fs.FileMode(0o644))
		}
	}
	return result
}

// modprobeConfig is what modprobe.d(5) says, as far as it matters to vfio.
type modprobeConfig struct {
	blacklist []string
	after     []string // modules that are loaded after vfio-pci
	ids       []string // what vfio-pci takes; of several lines the last counts
}

func readModprobe(v *disk.View, file string) modprobeConfig {
	var c modprobeConfig
	data, _ := v.ReadFile(file)
	for _, line := range disk.Lines(data) {
		f := strings.Fields(strings.ReplaceAll(line, "vfio_pci", "vfio-pci"))
		switch {
		case len(f) == 2 && f[0] == "blacklist":
			c.blacklist = append(c.blacklist, f[1])
		case len(f) == 4 && f[0] == "softdep" && f[2] == "pre:" && f[3] == "vfio-pci":
			c.after = append(c.after, f[1])
		case len(f) > 2 && f[0] == "options" && f[1] == "vfio-pci":
			for _, o := range f[2:] {
				if ids, ok := strings.CutPrefix(o, "ids="); ok {
					c.ids = strings.Split(strings.ToLower(ids), ",") // the kernel reads numbers (drivers/vfio/pci/vfio_pci.c)
				}
			}
		}
	}
	return c
}

// driver says who gets a device. vfio-pci takes those of its ids that nobody was
// there for before it.
func (c modprobeConfig) driver(d machine.HostDevice) string {
	mine := slices.Contains(c.ids, d.ID)
	module := d.Driver
	if module == "xhci_hcd" {
		module = "xhci_pci" // the driver's name is not the module's
	}
	switch {
	case mine && (d.Driver == "" || slices.Contains(c.after, module) || slices.Contains(c.blacklist, module)):
		return "vfio-pci"
	case slices.Contains(c.blacklist, module):
		return ""
	}
	return d.Driver
}
