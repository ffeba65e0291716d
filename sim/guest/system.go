package guest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// system is a machine that is switched on: everything that a power cut ends.
type system struct {
	m      *Machine
	ctx    context.Context // ends with the power
	cancel context.CancelFunc
	wg     sync.WaitGroup
	up     chan struct{} // closed when user space runs

	kernel string    // uname -r; set before up
	booted time.Time // when the kernel started

	volatile []disk.Mount // file systems that are not on a disk
	table    *disk.Mounts // all of them

	mu       sync.Mutex
	stopping bool
	mounts   []disk.Mount         // data disks
	stale    map[*disk.Disk]int64 // blocks of a grown XFS that are still read from the disk
	hostname string
	ifaces   []Interface
	modules  map[string]string        // loaded kernel modules with their versions
	journal  map[string][]journalLine // by unit; the kernel's is its log
	units    map[string]*unit
	cloud    cloudState
	agent    agentState
	driver   *driver // NVIDIA's, when loaded
	k3s      *k3sNode
	joining  *k3sNode // a server that is not one yet
	filter   packetFilter
	flocked  map[string]bool // paths whose lock somebody holds
}

func newSystem(ctx context.Context, m *Machine) *system {
	s := &system{m: m, up: make(chan struct{}), modules: map[string]string{}, journal: map[string][]journalLine{}, units: map[string]*unit{}, stale: map[*disk.Disk]int64{}}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for _, at := range []string{"/proc", "/sys", "/dev", "/run"} {
		s.volatile = append(s.volatile, disk.Mount{At: at, Disk: disk.New()})
	}
	s.table = disk.Mounted(append([]disk.Mount{{At: "/", Disk: m.cfg.Disk}}, s.volatile...)...)
	return s
}

// mountsChanged renews the table of all file systems. s.mu must be held.
func (s *system) mountsChanged() {
	all := slices.Concat([]disk.Mount{{At: "/", Disk: s.m.cfg.Disk}}, s.volatile, s.mounts)
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
			if strings.HasPrefix(name, manifestsDir+"/") {
				s.manifestsChanged()
			}
		}
	}
	return v
}

func (s *system) root() *disk.View { return s.viewAs(nil, nil) }

// put writes a file of the system's own, such as one in /proc.
func (s *system) put(name, text string, perm fs.FileMode) {
	v := s.root()
	if err := v.MkdirAll(path.Dir(name), 0o755); err != nil {
		return
	}
	_ = v.WriteFile(name, []byte(text), perm) // fails only where a script has put a directory
}

// Boot switches the machine on and returns; it comes up in the background. The
// context's values are kept, its end does not matter.
func (m *Machine) Boot(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sys != nil {
		return fmt.Errorf("guest %s: already running", m.cfg.Name)
	}
	s := newSystem(ctx, m)
	m.sys = s
	m.talks.Store(false)
	s.wg.Go(s.boot)
	return nil
}

// Kill cuts the power. When it returns, nothing of the guest runs any more.
func (m *Machine) Kill() {
	m.mu.Lock()
	s := m.sys
	m.sys = nil
	m.mu.Unlock()
	if s != nil {
		s.halt()
	}
}

// halt ends everything at once.
func (s *system) halt() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	if n := s.m.cfg.Network; n != nil {
		n.Unregister(s.m)
	}
	s.wg.Wait()
	s.stopUnits()
}

// enter counts a caller's goroutine among the system's, until it calls s.wg.Done;
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

// Shutdown presses the power button. The guest stops its services and powers
// itself off, some seconds later, when its operating system is up; OnPoweroff is
// called then.
func (m *Machine) Shutdown() error {
	s := m.system()
	if s == nil {
		return ErrOff
	}
	s.powerOff(false)
	return nil
}

// stopTime is how long systemd takes to stop everything.
const stopTime = 3 * time.Second

// powerOff begins an orderly shutdown in the background, or a reboot.
func (s *system) powerOff(reboot bool) {
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
		if !s.m.pause(s.ctx, stopTime) {
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
		s.halt()
		if s.m.cfg.OnPoweroff != nil {
			s.m.cfg.OnPoweroff(reboot)
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
