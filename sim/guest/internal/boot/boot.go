package boot

import (
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/cloud"
	"github.com/cps-gpu/homelab/sim/guest/internal/gpu"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/netplan"
	"github.com/cps-gpu/homelab/sim/guest/internal/storage"
	"github.com/cps-gpu/homelab/sim/guest/internal/systemd"
)

// How long the stages of a boot take; about 12 s to the first SSH login.
const (
	firmwareTime = 4 * time.Second
	KernelTime   = 3 * time.Second
	networkTime  = 2 * time.Second
	initTime     = 3 * time.Second
	configTime   = time.Second
	finalTime    = time.Second
)

// Guest is the way from the power button to the end of cloud-init.
func Guest(s *machine.System) {
	never := s.Faulty(func(f machine.Faults) bool { return f.NeverBoots })
	if !s.Pause(s.Context(), firmwareTime) || never {
		return
	}
	kernel := s.BootKernel()
	if kernel == "" {
		return // "No bootable device"
	}
	s.Begin(kernel, time.Now())
	KernelFiles(s)
	DeviceFiles(s)
	_ = gpu.Load(s, true) // the kernel's log says why not
	if !s.Pause(s.Context(), KernelTime) {
		return
	}
	Userspace(s)
	s.Ready()
	c := cloud.New(s)
	c.Local()
	if !s.Pause(s.Context(), networkTime) {
		return
	}
	netplan.Up(s)
	c.Network()
	if !s.Pause(s.Context(), initTime) {
		return
	}
	systemd.StartEnabled(s)
	c.Settings()
	if !s.Pause(s.Context(), configTime) {
		return
	}
	storage.MountFstab(s, true) // nothing orders these before any unit, so they come after all
	c.Final()
	if !s.Pause(s.Context(), finalTime) {
		return
	}
	c.Finish()
}
