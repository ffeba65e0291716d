package hostprep

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox"
)

// Note is a problem that a person should know about, and that homelab has no command for.
type Note struct {
	What  string `json:"what"`
	Do    string `json:"do,omitempty"`
	Fatal bool   `json:"fatal,omitempty"` // GPU passthrough does not work in this state
}

// Notes returns what a person should know about a host. It is pure.
func (spec Spec) Notes(s State) []Note {
	if !spec.GPUs && !spec.Devices {
		return nil
	}
	var out []Note
	note := func(fatal bool, do, format string, args ...any) {
		out = append(out, Note{What: fmt.Sprintf(format, args...), Do: do, Fatal: fatal})
	}
	functions := spec.functions(s)
	for _, want := range spec.Cards {
		if !slices.ContainsFunc(functions, func(d Device) bool { return d.Address.Whole() == want.Whole() }) {
			note(true, "lspci -nn on the host shows where its cards are", "there is no device at %s", want)
		}
	}
	if spec.GPUs && len(functions) == 0 && len(spec.Cards) == 0 {
		note(true, "is it seated and powered? lspci -nn on the host lists what is there", "there is no NVIDIA card")
	}
	spec.noteIOMMU(s, note)
	spec.noteSharing(s, functions, note)
	if strings.Contains(s.Cmdline, "pcie_acs_override") {
		note(false, "remove it if the cards have groups of their own without it",
			"pcie_acs_override is on the command line: it only makes IOMMU groups look separate, so a VM with one card may reach the memory of another VM")
	}
	if len(s.NVIDIACT) > 0 {
		note(false, "", "containers use NVIDIA cards of the host and lose the cards that VMs get: %s", strings.Join(s.NVIDIACT, ", "))
	}
	for _, d := range functions {
		if d.BootVGA && !spec.Framebuffer {
			note(false, "if a VM does not start with \"BAR 1: can't reserve\", run host:prep with -framebuffer",
				"%s is where the host shows its console; the screen stops when vfio-pci takes it", d.Address)
		}
	}
	return out
}

type noter func(fatal bool, do, format string, args ...any)

// noteIOMMU adds notes about kernel options that had no effect.
func (spec Spec) noteIOMMU(s State, note noter) {
	running := parseCmdline(s.Cmdline)
	asked := !s.Intel || s.kernelAtLeast(6, 8) || running.has("intel_iommu=on")
	if !s.IOMMU && asked && len(spec.options(s).unwantedOptions(running)) == 0 {
		what := map[bool]string{true: "Intel VT-d", false: "AMD-Vi, also called IOMMU"}[s.Intel]
		note(true, "switch on "+what+" in the firmware's setup at the next reboot", "the kernel finds no IOMMU: it is off in the firmware")
	}
	if off := spec.bootDiffers(s); len(off) > 0 && !spec.pending(s, Boot) {
		note(true, "proxmox-boot-tool status and efibootmgr -v on the host show from which disk; the disk with the installation must come first",
			"the host has rebooted since its command line was changed, and %s: it boots from another disk", strings.Join(off, ", "))
	}
	if held := spec.HeldByHostDriver(s); len(held) > 0 && len(spec.Reboot(s)) == 0 {
		note(true, "dmesg | grep -e vfio -e "+held[0].Driver+" shows which driver came first; one that is built in, or listed in /etc/initramfs-tools/modules, comes before vfio-pci",
			"the host has rebooted with vfio-pci for the cards, and its own drivers still hold %s", deviceNames(held))
	}
}

// noteSharing adds notes about other devices that share groups with the cards, or have the same
// ids.
func (spec Spec) noteSharing(s State, functions []Device, note noter) {
	for _, d := range functions {
		if d.Address.Function > 0 {
			continue
		}
		var others []Device
		for _, o := range s.Devices {
			if d.IOMMUGroup >= 0 && o.IOMMUGroup == d.IOMMUGroup && o.Address.Whole() != d.Address.Whole() &&
				!strings.HasPrefix(o.Class, "06") && !spec.isPassedThrough(o, s.Devices) {
				others = append(others, o)
			}
		}
		if len(others) > 0 {
			note(true, "put the card into another slot, or look for ACS in the firmware's setup",
				"%s shares IOMMU group %d with %s, which the host would lose", d.Address, d.IOMMUGroup, deviceNames(others))
		}
	}
	if len(spec.HeldByHostDriver(s)) == 0 && s.file(ourModprobe).Text == "" {
		return
	}
	ids, kept := spec.ids(s), map[proxmox.PCIAddress]bool{}
	for _, d := range s.Devices {
		if !spec.isPassedThrough(d, s.Devices) && slices.Contains(ids, d.ID()) && !kept[d.Address.Whole()] {
			kept[d.Address.Whole()] = true
			console := ""
			if d.BootVGA {
				console = " and shows the host's console, which would go dark"
			}
			note(false, "vfio-pci claims cards by model: use another model for the host, or give this card to a VM too",
				"%s is of the same model as a card that VMs get%s; the host loses it as well", d.Address, console)
		}
	}
}
