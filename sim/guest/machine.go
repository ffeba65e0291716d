package guest

import (
	"context"
	"maps"
	"path"
	"strings"
	"sync"

	"github.com/cps-gpu/homelab/sim/guest/internal/apt"
	"github.com/cps-gpu/homelab/sim/guest/internal/boot"
	"github.com/cps-gpu/homelab/sim/guest/internal/cloud"
	"github.com/cps-gpu/homelab/sim/guest/internal/gpu"
	"github.com/cps-gpu/homelab/sim/guest/internal/hardware"
	"github.com/cps-gpu/homelab/sim/guest/internal/iptables"
	"github.com/cps-gpu/homelab/sim/guest/internal/k3s"
	"github.com/cps-gpu/homelab/sim/guest/internal/kubeadm"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/netplan"
	"github.com/cps-gpu/homelab/sim/guest/internal/programs"
	"github.com/cps-gpu/homelab/sim/guest/internal/pvehost"
	"github.com/cps-gpu/homelab/sim/guest/internal/shell"
	"github.com/cps-gpu/homelab/sim/guest/internal/sshd"
	"github.com/cps-gpu/homelab/sim/guest/internal/storage"
	"github.com/cps-gpu/homelab/sim/guest/internal/systemd"
)

// Machine is one virtual computer. It is safe for concurrent use.
type Machine struct{ core *machine.Machine }

// New returns a machine that is off.
func New(cfg machine.Config) *Machine {
	m := &Machine{}
	m.core = machine.New(cfg, software(), m)
	return m
}

// software are the rooms that a machine is made of.
func software() machine.Software {
	return machine.Software{Boot: bootAny, Halt: func(s *machine.System) { systemd.StopAll(s) }, Program: programOf, Service: serviceOf}
}

// bootAny boots what the machine is.
func bootAny(s *machine.System) {
	if s.Config.Host != nil {
		pvehost.Boot(s)
		return
	}
	boot.Guest(s)
}

// programOf returns the function that a program stands for, or nil.
func programOf(s *machine.System, name string) machine.Program {
	if r := pvehost.Program(s, name); r != nil {
		return r
	}
	return allPrograms()[name]
}

// allPrograms are the programs of every room.
var allPrograms = sync.OnceValue(func() map[string]machine.Program {
	all := map[string]machine.Program{}
	for _, room := range []func() map[string]machine.Program{
		programs.Programs, shell.Programs, storage.Programs, systemd.Programs, apt.Programs, netplan.Programs, iptables.Programs,
		hardware.Programs, gpu.Programs, boot.Programs, cloud.Programs, sshd.Programs, k3s.Programs, kubeadm.Programs,
	} {
		maps.Copy(all, room())
	}
	return all
})

// serviceOf is K3s, kubelet or CRI-O, for what starts it.
func serviceOf(argv []string) machine.Service {
	if path.Base(argv[0]) == "k3s" && len(argv) > 1 && (argv[1] == "server" || argv[1] == "agent") {
		return k3s.Start
	}
	if kubeadm.IsKubelet(argv) {
		return kubeadm.Start
	}
	if kubeadm.IsCRIO(argv) {
		return kubeadm.StartCRIO
	}
	return nil
}

// Boot switches the machine on and returns; it comes up in the background. The
// context's values are kept, its end does not matter.
func (m *Machine) Boot(ctx context.Context) error { return m.core.Boot(ctx) }

// Kill cuts the power. When it returns, nothing of the guest runs any more.
func (m *Machine) Kill() { m.core.Kill() }

// Shutdown presses the power button. The guest stops its services and powers
// itself off, some seconds later, when its operating system is up; OnPoweroff is
// called then.
func (m *Machine) Shutdown() error { return m.core.Shutdown() }

// Running reports whether the machine is on.
func (m *Machine) Running() bool { return m.core.System() != nil }

// Up is closed when the machine's user space runs; nil when it is off.
func (m *Machine) Up() <-chan struct{} {
	s := m.core.System()
	if s == nil {
		return nil
	}
	return s.Up()
}

// SetFaults changes the faults; those of booting count from the next boot.
func (m *Machine) SetFaults(f machine.Faults) { m.core.SetFaults(f) }

// Disk returns the OS disk.
func (m *Machine) Disk() *Disk { return m.core.Disk() }

// SetDisks changes what disks a machine has: one is plugged in or pulled out, or one
// grows. What was mounted from a disk that is gone is gone too, and with it the units that
// require it.
func (m *Machine) SetDisks(disks []machine.BlockDevice) {
	s := m.core.System()
	if s == nil {
		m.core.SetDisks(disks)
		return
	}
	was := s.MountedDisks()
	m.core.SetDisks(disks)
	for _, name := range storage.Replug(s, was) {
		_ = systemd.Stop(s, name)
	}
}

// Commands returns the arguments of every program that was started in this guest,
// over SSH, by the guest agent, by cloud-init or by another program, oldest first.
// It is what ps would have shown to every user of the machine.
func (m *Machine) Commands() [][]string { return m.core.Commands() }

// Mutations returns what commands (over SSH, the guest agent or cloud-init) have
// changed so far in this guest: files written, units started or stopped,
// packages installed or removed. What services write by themselves is not among
// them, nor is anything below /run, /proc, /sys and /dev.
func (m *Machine) Mutations() []string { return m.core.Mutations() }

// Journal returns what a unit has said since the last boot, for tests.
func (m *Machine) Journal(unit string) []string {
	s := m.core.System()
	if s == nil {
		return nil
	}
	return s.Messages(systemd.UnitName(unit))
}

// EtcdMembers returns the names of etcd's members as the server on this machine
// knows them, in order; those that do not run have " (away)" behind them. It is nil
// where no server runs.
func (m *Machine) EtcdMembers() []string {
	if all := k3s.Members(m.core); all != nil {
		return all
	}
	return kubeadm.Members(m.core)
}

// AuthorizedKeys lets those log in as root who have one of the keys.
func (m *Machine) AuthorizedKeys(keys ...string) error {
	return m.Disk().WriteFile("/root/.ssh/authorized_keys", []byte(strings.Join(keys, "\n")+"\n"), 0o600)
}

// HostKey returns the machine's public SSH key as an authorized_keys file has it;
// empty before its first boot.
func (m *Machine) HostKey() string {
	data, err := m.Disk().ReadFile(sshd.HostKeyFile + ".pub")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
