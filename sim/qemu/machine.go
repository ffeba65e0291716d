package qemu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// machine is the guest of a VM.
type machine struct {
	h     *Hypervisor
	board pvesim.Board

	mu    sync.Mutex
	shape shape
	run   *run // nil when off
}

// run is a machine from its start to its end.
type run struct {
	*process
	ctx    context.Context // ends with the process
	end    context.CancelFunc
	net    *port
	killed bool
	rest   sync.WaitGroup // what goes on beside it
}

// Boot switches it on. Whatever its firmware is, the image's kernel is booted.
func (m *machine) Boot(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run != nil {
		return errors.New("already running")
	}
	s := shape{Board: m.board, files: map[string]string{}}
	if err := s.check(); err != nil {
		return err
	}
	name := filepath.Join(m.h.o.Dir, fmt.Sprintf("vm-%d-%d", s.VMID, m.h.number()))
	s.serial, s.sent = name+".console", name+".sent"
	disc, err := s.Seed()
	if err != nil {
		return err
	}
	if disc != nil {
		s.seed = name + ".iso"
		if err := os.WriteFile(s.seed, disc, 0o600); err != nil {
			return err
		}
	}
	m.shape = s
	if err := m.plugIn(ctx, s.Drives); err != nil {
		m.release()
		return err
	}
	r := &run{}
	r.ctx, r.end = context.WithCancel(ctx)
	r.net = newPort(r, m.h.o, s)
	if err := m.start(r); err != nil {
		r.end()
		m.release()
		return err
	}
	m.run = r
	r.rest.Go(r.net.follow)
	go m.awaitEnd(r)
	return nil
}

// start runs QEMU, its cards plugged into the LAN where there is one.
func (m *machine) start(r *run) (err error) {
	var ends []net.Conn
	var cables []*os.File
	defer func() {
		for _, c := range cables {
			_ = c.Close()
		}
		for i, end := range ends {
			if err != nil {
				_ = end.Close()
			} else {
				m.h.o.LAN.Plug(end, m.shape.cards()[i].lan)
			}
		}
	}()
	if m.h.o.LAN != nil {
		for range m.shape.cards() {
			ours, theirs, err := pair()
			if err != nil {
				return err
			}
			ends, cables = append(ends, ours), append(cables, theirs)
		}
	}
	r.process, err = start(r.ctx, m.shape.args(m.h.o), func(e event) { m.hear(r, e) }, cables...)
	return err
}

// plugIn gets the files of drives ready.
func (m *machine) plugIn(ctx context.Context, drives []pvesim.Drive) error {
	for _, d := range drives {
		file, err := d.Disk.(*disk).use(ctx, d.Size)
		if err != nil {
			return fmt.Errorf("%s: %w", d.Key, err)
		}
		m.shape.files[d.Key] = file
	}
	return nil
}

// release leaves the drives that are in use to others.
func (m *machine) release() {
	for _, d := range m.shape.Drives {
		if m.shape.files[d.Key] != "" {
			d.Disk.(*disk).release()
		}
	}
	clear(m.shape.files)
}

// hear is told what QEMU has to say.
func (m *machine) hear(r *run, e event) {
	if e.Event == "RESET" && e.Data.Guest {
		r.net.unplug()
		if off := m.board.OnPoweroff; off != nil {
			go off(true)
		}
	}
}

// awaitEnd clears up when QEMU has ended, and tells so where nobody has killed it.
func (m *machine) awaitEnd(r *run) {
	<-r.ended
	m.mu.Lock()
	killed := r.killed
	if m.run == r {
		m.cleanUp(r)
	}
	m.mu.Unlock()
	if off := m.board.OnPoweroff; off != nil && !killed {
		off(false)
	}
}

func (m *machine) cleanUp(r *run) {
	r.end()
	r.rest.Wait()
	r.net.unplug()
	m.release()
	m.run = nil
}

// Kill cuts the power.
func (m *machine) Kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.run; r != nil {
		r.killed = true
		r.kill()
		m.cleanUp(r)
	}
}

// running returns the machine while it is on.
func (m *machine) running() (*run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == nil {
		return nil, guest.ErrOff
	}
	return m.run, nil
}

// Shutdown asks the agent, as Proxmox does where there is one, else the power button.
func (m *machine) Shutdown() error {
	r, err := m.running()
	if err != nil {
		return err
	}
	if r.listening.Load() && r.agent.shutdown() == nil {
		return nil
	}
	_, err = r.monitor.do(r.ctx, "system_powerdown", nil)
	return err
}

// plugTime is how long a guest may take to released a disk.
const plugTime = 20 * time.Second

// Replug plugs disks in and out of the machine while it runs, and grows them. What
// cannot be is in the console's file: Proxmox's tasks have no place for it here.
func (m *machine) Replug(drives []pvesim.Drive) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(m.run.ctx, plugTime, errors.New("it took more than "+plugTime.String()))
	defer cancel()
	if err := m.replug(ctx, drives); err != nil {
		_ = appendLine(m.shape.serial, "qemu: plugging disks: "+err.Error())
	}
}

func (m *machine) replug(ctx context.Context, drives []pvesim.Drive) error {
	var errs []error
	for _, old := range slices.Clone(m.shape.Drives) {
		if !slices.ContainsFunc(drives, func(d pvesim.Drive) bool { return d.Key == old.Key && d.Disk == old.Disk }) {
			errs = append(errs, m.unplug(ctx, old))
		}
	}
	for _, d := range drives {
		i := slices.IndexFunc(m.shape.Drives, func(o pvesim.Drive) bool { return o.Key == d.Key })
		switch {
		case i < 0:
			errs = append(errs, m.plug(ctx, d))
		case m.shape.Drives[i].Size < d.Size:
			_, err := m.run.monitor.do(ctx, "block_resize", map[string]any{"node-name": "drive-" + d.Key, "size": d.Size})
			if err == nil {
				d.Disk.(*disk).recordSize(d.Size)
				m.shape.Drives[i] = d
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (m *machine) plug(ctx context.Context, d pvesim.Drive) error {
	if err := m.plugIn(ctx, []pvesim.Drive{d}); err != nil {
		return err
	}
	m.shape.Drives = append(slices.Clone(m.shape.Drives), d)
	if c := m.shape.controller(d.Key); c != "" {
		_ = m.run.monitor.line(ctx, "device_add %s", c) // it may be there from an earlier disk; without it the next one fails
	}
	if err := m.run.monitor.raw(ctx, "blockdev-add", m.shape.blockdev(d.Key)); err != nil {
		return err
	}
	return m.run.monitor.line(ctx, "device_add %s", m.shape.disk(d, false))
}

func (m *machine) unplug(ctx context.Context, d pvesim.Drive) error {
	if err := m.run.pull(ctx, d.Key); err != nil {
		return err
	}
	if _, err := m.run.monitor.do(ctx, "blockdev-del", map[string]any{"node-name": "drive-" + d.Key}); err != nil {
		return err
	}
	d.Disk.(*disk).release()
	delete(m.shape.files, d.Key)
	m.shape.Drives = slices.DeleteFunc(slices.Clone(m.shape.Drives), func(o pvesim.Drive) bool { return o.Key == d.Key })
	return nil
}

func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}
