package guest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io/fs"
	"net/netip"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/converge/wait"
	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
)

// system is a machine that is switched on: everything that a power cut ends.
type system struct {
	m      *core
	cfg    *Config
	ctx    context.Context // ends with the power
	cancel context.CancelFunc
	wg     sync.WaitGroup
	up     chan struct{} // closed when user space runs

	kernel string    // uname -r; set before up
	booted time.Time // when the kernel started

	volatile []disk.Mount // file systems that are not on a disk
	table    *disk.Mounts // all of them
	rooms    sync.Map     // see Of
	watches  sync.Map     // of functions, by the folder that they watch

	mu       sync.Mutex
	stopping bool
	mounts   []disk.Mount // data disks
	hostname string
	ifaces   []Interface
	modules  map[string]string        // loaded kernel modules with their versions
	journal  map[string][]journalLine // by unit; the kernel's is its log
}

// Of returns what a room keeps of a running system: a T that only it knows, empty at
// first. It ends with the power.
func Of[T any](s *system) *T {
	have, _ := s.rooms.LoadOrStore(reflect.TypeFor[T](), new(T))
	return have.(*T)
}

func newSystem(ctx context.Context, m *core) *system {
	s := &system{m: m, cfg: &m.config, up: make(chan struct{}), modules: map[string]string{}, journal: map[string][]journalLine{}}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for _, at := range []string{"/proc", "/sys", "/dev", "/run"} {
		s.volatile = append(s.volatile, disk.Mount{At: at, Disk: disk.New()})
	}
	s.table = disk.Mounted(append([]disk.Mount{{At: "/", Disk: m.config.Disk}}, s.volatile...)...)
	return s
}

// mountsChanged renews the table of all file systems. s.mu must be held.
func (s *system) mountsChanged() {
	all := slices.Concat([]disk.Mount{{At: "/", Disk: s.cfg.Disk}}, s.volatile, s.mounts)
	s.table.Set(all)
	s.putMounts()
}

// putMounts writes the kernel's list of mounts. s.mu must be held.
func (s *system) putMounts() {
	text := "/dev/sda / ext4 rw,relatime 0 0\n"
	for _, m := range s.devices() {
		text += m[0] + " " + m[1] + " ext4 rw,relatime 0 0\n"
	}
	s.put("/proc/self/mounts", text, 0o444)
}

// viewAs is the file system for a user; nil is the system itself.
func (s *system) viewAs(u *disk.User, changed func(string)) *disk.View {
	v := &disk.View{Mounts: s.table, User: u, Umask: 0o022}
	if changed != nil {
		v.Changed = func(name string) {
			for _, m := range s.volatile {
				if strings.HasPrefix(name, m.At+"/") {
					return
				}
			}
			changed("file " + name)
			s.watches.Range(func(dir, f any) bool {
				if strings.HasPrefix(name, dir.(string)+"/") {
					f.(func())()
				}
				return true
			})
		}
	}
	return v
}

// Watch calls f after each change that a command makes below a folder.
func (s *system) Watch(dir string, f func()) { s.watches.Store(dir, f) }

// root is the file system for the system itself.
func (s *system) root() *disk.View { return s.viewAs(nil, nil) }

// put writes a file of the system's own, such as one in /proc.
func (s *system) put(name, text string, perm fs.FileMode) {
	v := s.root()
	if err := v.MkdirAll(path.Dir(name), 0o755); err != nil {
		return
	}
	_ = v.WriteFile(name, []byte(text), perm) // fails only where a script has put a directory
}

// Halt ends everything at once.
func (s *system) Halt() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	if n := s.cfg.Network; n != nil {
		n.Unregister(s.m.host)
	}
	s.wg.Wait()
	s.m.software.Halt(s)
}

// enter counts a caller's goroutine among the system's, until it calls leave;
// it reports false when the power is off.
func (s *system) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.wg.Add(1)
	return true
}

// leave is the end of what enter has begun.
func (s *system) leave() { s.wg.Done() }

// spawn runs f as one of the system's goroutines; it reports false when the power is off.
func (s *system) spawn(f func()) bool {
	if !s.enter() {
		return false
	}
	go func() {
		defer s.leave()
		f()
	}()
	return true
}

// Context ends with the power.
func (s *system) Context() context.Context { return s.ctx }

// Machine is what the system runs on.
func (s *system) Machine() *core { return s.m }

// Answers is what the machine is to its network.
func (s *system) answers() network.Host { return s.m.host }

// begin is told which kernel has started, and when.
func (s *system) begin(kernel string, at time.Time) { s.kernel, s.booted = kernel, at }

// Kernel is what uname -r says.
func (s *system) Kernel() string { return s.kernel }

// ready is told that user space runs.
func (s *system) ready() { close(s.up) }

// Up is closed when user space runs.
func (s *system) Up() <-chan struct{} { return s.up }

// scale turns a duration of the simulated world into one of the clock.
func (s *system) scale(d time.Duration) time.Duration {
	return time.Duration(float64(d) / s.cfg.Speed)
}

// pause waits for d of simulated time; it reports false when ctx ended before.
func (s *system) pause(ctx context.Context, d time.Duration) bool {
	return wait.Pause(ctx, s.scale(d)) == nil && ctx.Err() == nil
}

func (s *system) faulty(is func(Faults) bool) bool { return s.m.Faulty(is) }

// stopTime is how long systemd takes to stop everything.
const stopTime = 3 * time.Second

// PowerOff begins an orderly shutdown in the background, or a reboot.
func (s *system) PowerOff(reboot bool) {
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
		if !s.pause(s.ctx, stopTime) {
			return
		}
		s.m.mu.Lock()
		mine := s.m.sys == s
		if mine {
			s.m.sys = nil
		}
		s.m.mu.Unlock()
		if !mine {
			return
		}
		s.Halt()
		if s.cfg.OnPoweroff != nil {
			s.cfg.OnPoweroff(reboot)
		}
		if reboot {
			_ = s.m.Boot(s.ctx) // unless somebody else was faster
		}
	}()
}

// address is the guest's first address on a network.
func (s *system) address() netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.ifaces {
		for _, a := range i.Addrs {
			if !a.Addr().IsLoopback() {
				return a.Addr()
			}
		}
	}
	return netip.Addr{}
}

func (s *system) host() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hostname
}

func (s *system) setHostname(name string) {
	s.mu.Lock()
	s.hostname = name
	s.mu.Unlock()
	s.put("/proc/sys/kernel/hostname", name+"\n", 0o644)
}

// hexID returns n random bytes in hexadecimal.
func hexID(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// program is what a file stands for, nil for one that does nothing.
func (s *system) program(name string) Program { return s.m.software.Program(s, name) }

// service is what a command line does that is not a program, nil for all others.
func (s *system) service(argv []string) Service { return s.m.software.Service(argv) }

// setInterfaces is given the cards that are up. A machine with more than its loopback
// sends packets.
func (s *system) setInterfaces(all []Interface) {
	s.mu.Lock()
	s.ifaces = all
	s.mu.Unlock()
	s.m.talks.Store(len(all) > 1)
}

// interfaces are the network cards with their addresses.
func (s *system) interfaces() []Interface {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ifaces)
}

// ending reports whether the system is on its way down.
func (s *system) ending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping || s.ctx.Err() != nil
}

// showMounts writes the kernel's list of mounts.
func (s *system) showMounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putMounts()
}
