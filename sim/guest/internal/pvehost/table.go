package pvehost

import (
	"context"
	"slices"

	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// Program returns the program of that name, nil when the machine is not a host or has none.
func Program(s *machine.System, name string) machine.Program {
	h := s.Config.Host
	if h == nil {
		return nil
	}
	if program := h.Programs[name]; program != nil {
		return func(ctx context.Context, p *machine.Proc) int {
			return program(ctx, p.Args, p.Stdin, p.Stdout, p.Stderr)
		}
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
		return func(_ context.Context, p *machine.Proc) int {
			p.Printf("pve-manager/%s/14a22df3 (running kernel: %s)\n", h.Version, p.Sys.Kernel())
			return 0
		}
	}
	return nil
}

// hostPrograms are those that a host has and an Ubuntu guest does not have.
func hostPrograms() []string {
	return []string{"proxmox-boot-tool", "pveversion", "pveum", "pvesm", "pvesh", "qm", "lspci"}
}

// optionOf reports whether one of the options was given.
func optionOf(args []string, names ...string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return slices.Contains(names, a) })
}
