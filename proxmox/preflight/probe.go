package preflight

import (
	"bufio"
	"bytes"
	"context"
	_ "embed" // probe.sh
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
)

//go:embed probe.sh
var probeScript string

// probe is what only a shell on the host can see.
type probe struct {
	kernel  string            // 6.17.4-1-pve
	cmdline []string          // of the running kernel
	modules map[string]string // modules to load at boot, each with the file that lists it
	devices []probedDevice    // from NVIDIA
}

// probedDevice is one function of a card, as the kernel sees it.
type probedDevice struct {
	address proxmox.PCIAddress
	driver  string // that holds it; empty: none
	console bool   // the firmware's console is on it
}

func readProbe(ctx context.Context, r remote.Runner) (*probe, error) {
	out, err := remote.Output(ctx, r, "sh", "-c", probeScript)
	if err != nil {
		return nil, err
	}
	return parseProbe(out)
}

// parseProbe parses the output of probe.sh. It skips unknown lines, because a login may print a
// greeting.
func parseProbe(text []byte) (*probe, error) {
	p := &probe{modules: map[string]string{}}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "kernel":
			p.kernel = words[1]
		case "cmdline":
			p.cmdline = words[1:]
		case "module":
			p.modules[words[1]] = strings.Join(words[2:], " ")
		case "pci":
			address, err := proxmox.ParsePCIAddress(words[1])
			if err != nil {
				continue
			}
			d := probedDevice{address: address, console: slices.Contains(words[2:], "boot_vga")}
			if len(words) > 2 && words[2] != "boot_vga" {
				d.driver = words[2]
			}
			p.devices = append(p.devices, d)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if p.kernel == "" {
		return nil, fmt.Errorf("the host's shell gives an unexpected answer: %.100q", text)
	}
	return p, nil
}

// older reports whether the kernel is older than major.minor.
func (p *probe) older(major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(p.kernel, "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a < major || a == major && b < minor
}

// released reports whether a driver releases a card when a VM needs it: vfio's own drivers do, and
// so does no driver at all.
func released(driver string) bool { return driver == "" || driver == "vfio-pci" }

// checkDrivers checks which drivers hold the functions of the cards on the host. Proxmox unbinds a
// driver when a VM starts, but nvidia, nouveau or a framebuffer do not release the card: the result
// is "BAR 1: can't reserve", or a host that hangs (Proxmox's wiki, PCI(e) Passthrough).
func checkDrivers(w *Requirements, s *observation, h Host, seen *hostObservation) []Finding {
	var out []Finding
	for _, d := range seen.probe.is.devices {
		if !w.mayGetFunction(h.Name, d.address, seen) {
			continue
		}
		cure := "keep it off (docs/real-host.md), or run: `homelab host:prep`"
		switch {
		case released(d.driver):
		case d.address.Function > 0: // audio, USB: their drivers usually release them
			out = append(out, warnf(d.address.String(), cure, "%s on %s, another function of a card, is held by the host's driver %s",
				d.address, h.Name, d.driver))
		default:
			out = append(out, errorf(d.address.String(), cure, "%s on %s is held by the host's driver %s", d.address, h.Name, d.driver))
		}
		if d.console && released(d.driver) && !w.framebufferOff(seen.probe.is) {
			out = append(out, warnf(d.address.String(),
				"let the firmware use another card for its console, or add to the kernel's command line: initcall_blacklist=sysfb_init",
				"the console of %s is on %s, and its framebuffer may hold the card's memory", h.Name, d.address))
		}
	}
	return out
}

// mayGetFunction reports whether a function belongs to a card that may go to one of our machines.
func (w *Requirements) mayGetFunction(host string, at proxmox.PCIAddress, seen *hostObservation) bool {
	for _, g := range seen.cards.is {
		if g.Address.Whole() != at.Whole() {
			continue
		}
		return slices.ContainsFunc(w.gpus(host), func(vm VM) bool { return len(vm.GPUs.Mappings) > 0 || vm.GPUs.fits(g) })
	}
	return false
}

// framebufferOff reports whether the kernel's options turn the framebuffer off.
func (w *Requirements) framebufferOff(p *probe) bool {
	return slices.ContainsFunc(p.cmdline, func(arg string) bool {
		return arg == "initcall_blacklist=sysfb_init" || strings.HasPrefix(arg, "video=efifb:off") || strings.HasPrefix(arg, "video=simplefb:off")
	})
}

// checkModules finds modules in the lists that the kernel does not have, or no longer has. Guides
// older than kernel 6.2 list vfio_virqfd, which became part of vfio.
func checkModules(w *Requirements, s *observation, h Host, seen *hostObservation) []Finding {
	p := seen.probe.is
	if file, asked := p.modules["vfio_virqfd"]; asked && !p.older(6, 2) {
		return []Finding{warnf(h.Name,
			"remove the line: `sed -i --follow-symlinks /vfio_virqfd/d "+file+" && update-initramfs -u -k all`",
			"%s loads vfio_virqfd (%s), which kernel %s does not have: it is part of vfio since 6.2", h.Name, file, p.kernel)}
	}
	return nil
}
