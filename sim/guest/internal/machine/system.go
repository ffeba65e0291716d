package machine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
)

// System is a machine that is switched on: everything that a power cut ends.
type System struct {
	m      *Machine
	Config *Config
	ctx    context.Context // ends with the power
	cancel context.CancelFunc
	wg     sync.WaitGroup
	up     chan struct{} // closed when user space runs

	kernel string    // uname -r; set before up
	booted time.Time // when the kernel started

	// Reloads is how often systemd has reloaded its units since the machine booted.
	Reloads atomic.Int64

	volatile []disk.Mount // file systems that are not on a disk
	table    *disk.Mounts // all of them
	rooms    sync.Map     // see Of
	watches  sync.Map     // of functions, by the folder that they watch
	warm     bool         // see Warm

	mu       sync.Mutex
	stopping bool
	mounts   []disk.Mount // data disks
	hostname string
	ifaces   []Interface
	modules  map[string]string        // loaded kernel modules with their versions
	journal  map[string][]JournalLine // by unit; the kernel's is its log
}

// StateOf returns what a room keeps of a running system: a T that only it knows, empty at
// first. It ends with the power.
func StateOf[T any](s *System) *T {
	have, _ := s.rooms.LoadOrStore(reflect.TypeFor[T](), new(T))
	return have.(*T)
}

// Warm reports whether the machine was rebooted, not switched on: its cards were not reset.
func (s *System) Warm() bool { return s.warm }

// NewSystem is a machine's system before its kernel starts.
func NewSystem(ctx context.Context, m *Machine) *System {
	s := &System{m: m, Config: &m.Config, up: make(chan struct{}), modules: map[string]string{}, journal: map[string][]JournalLine{}}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for _, at := range []string{"/proc", "/sys", "/dev", "/run"} {
		s.volatile = append(s.volatile, disk.Mount{At: at, Disk: disk.New()})
	}
	s.table = disk.NewMounts(append([]disk.Mount{{At: "/", Disk: m.Config.Disk}}, s.volatile...)...)
	return s
}

// Halt ends everything at once.
func (s *System) Halt() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	if n := s.Config.Network; n != nil {
		n.Unregister(s.m.host)
	}
	s.wg.Wait()
	s.m.software.Halt(s)
}

// Enter counts a caller's goroutine among the system's, until it calls Leave;
// it reports false when the power is off.
func (s *System) Enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.wg.Add(1)
	return true
}

// Leave is the end of what Enter has begun.
func (s *System) Leave() { s.wg.Done() }

// Wait returns when none of the system's goroutines is left.
func (s *System) Wait() { s.wg.Wait() }

// Go runs f as one of the system's goroutines; it reports false when the power is off.
func (s *System) Go(f func()) bool {
	if !s.Enter() {
		return false
	}
	go func() {
		defer s.Leave()
		f()
	}()
	return true
}

// Context ends with the power.
func (s *System) Context() context.Context { return s.ctx }

// Machine is what the system runs on.
func (s *System) Machine() *Machine { return s.m }

// Answers is what the machine is to its network.
func (s *System) Answers() network.Host { return s.m.host }

// Begin says which kernel has started, and when.
func (s *System) Begin(kernel string, at time.Time) { s.kernel, s.booted = kernel, at }

// Kernel is what uname -r says.
func (s *System) Kernel() string { return s.kernel }

// BootTime is when the kernel started.
func (s *System) BootTime() time.Time { return s.booted }

// Ready says that user space runs.
func (s *System) Ready() { close(s.up) }

// Up is closed when user space runs.
func (s *System) Up() <-chan struct{} { return s.up }

// Scale turns a duration of the simulated world into one of the clock.
func (s *System) Scale(d time.Duration) time.Duration {
	return time.Duration(float64(d) / s.Config.Speed)
}

// Pause waits for d of simulated time; it reports false when ctx ended before.
func (s *System) Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(s.Scale(d))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err() == nil
}

// Faulty reports whether the machine has a fault now.
func (s *System) Faulty(is func(Faults) bool) bool { return s.m.Faulty(is) }

// stopTime is how long systemd takes to stop everything.
const stopTime = 3 * time.Second

// PowerOff begins an orderly shutdown in the background, or a reboot.
func (s *System) PowerOff(reboot bool) {
	s.mu.Lock()
	already := s.stopping
	s.stopping = true
	s.mu.Unlock()
	if already {
		return
	}
	go func() { // not in s.wg: it waits for that
		select {
		case <-s.up:
		case <-s.ctx.Done():
			return
		}
		if !s.Pause(s.ctx, stopTime) {
			return
		}
		s.m.mu.Lock()
		mine := s.m.sys == s
		if mine {
			s.m.sys, s.m.warm = nil, reboot
		}
		s.m.mu.Unlock()
		if !mine {
			return
		}
		s.Halt()
		if s.Config.OnPoweroff != nil {
			s.Config.OnPoweroff(reboot)
		}
		if reboot {
			_ = s.m.Boot(s.ctx) // unless somebody else was faster
		}
	}()
}

// HexID returns n random bytes in hexadecimal.
func HexID(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// Program is what a file stands for, nil for one that does nothing.
func (s *System) Program(name string) Program { return s.m.software.Program(s, name) }

// Service is what a command line does that is not a program, nil for all others.
func (s *System) Service(argv []string) Service { return s.m.software.Service(argv) }

// Ending reports whether the system is on its way down.
func (s *System) Ending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping || s.ctx.Err() != nil
}
