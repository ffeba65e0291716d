package windows

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/iso"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/hypervisor"
)

// How long things take.
const (
	prompt   = 4 * time.Second // from power-on to the prompt of the disc
	waits    = 5 * time.Second // for a key
	setup    = 20 * time.Minute
	starting = 40 * time.Second
)

// system is a file of a disk on which Windows is.
const system = "/Windows/System32/ntoskrnl.exe"

// IsInstalled reports whether Windows is on a disk.
func IsInstalled(disk *guest.Disk) bool { return disk != nil && disk.Exists(system) }

// IsDisc reports whether a VM boots Windows' disc.
func IsDisc(discs [][]byte) bool {
	if len(discs) == 0 {
		return false
	}
	files, _, err := iso.Read(discs[0])
	return err == nil && files["bootmgr.efi"] != nil
}

// Guest is a VM whose system is Windows, or will be. It is safe for concurrent use.
type Guest struct {
	board hypervisor.Board
	disk  *guest.Disk
	speed float64

	mu      sync.Mutex
	on      int       // how often it was switched on; 0: it is off
	boots   int       // all of them
	since   time.Time // of the firmware
	begun   bool      // something boots
	up      bool      // the agent answers
	problem error     // what Setup shows and waits for
	traffic [2]hypervisor.Traffic
}

// New returns a machine that is off.
func New(b hypervisor.Board, disk *guest.Disk, speed float64) *Guest {
	if speed <= 0 {
		speed = 1
	}
	return &Guest{board: b, disk: disk, speed: speed}
}

// Boot switches it on: the disk if Windows is on it, else the disc, which waits for a key.
func (g *Guest) Boot(context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.boots++
	g.on, g.since, g.begun, g.up, g.problem = g.boots, time.Now(), false, false, nil
	if IsInstalled(g.disk) {
		g.begin(0, starting)
	}
	return nil
}

// begin goes on to a system with an agent. It is called with mu held.
func (g *Guest) begin(disc int64, takes time.Duration) {
	g.begun = true
	g.traffic[1].Read += disc
	g.traffic[0].Read += 300 << 20
	life := g.on
	time.AfterFunc(time.Duration(float64(takes)/g.speed), func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.on != life || g.problem != nil {
			return
		}
		g.traffic[0].Written += 12 << 30
		g.up = g.disk.WriteFile(system, []byte("MZ"), 0o644) == nil
	})
}

// Press is a key: at the prompt of the disc any one starts Setup.
func (g *Guest) Press(string) {
	g.mu.Lock()
	waited := time.Duration(float64(time.Since(g.since)) * g.speed)
	starts := g.on != 0 && !g.begun && IsDisc(g.board.Discs) && waited >= prompt && waited < prompt+waits
	if starts {
		g.begin(700<<20, setup)
	}
	g.mu.Unlock()
	if !starts {
		return
	}
	seed, err := g.board.Seed()
	if err == nil {
		err = install(seed, g.board.Discs)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.problem = err
}

// Problem is what Setup shows and waits for, nil for nothing.
func (g *Guest) Problem() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.problem
}

// Traffic returns what was read and written since power-on: QEMU's figures outlive a reset.
func (g *Guest) Traffic() (disk, disc hypervisor.Traffic) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.traffic[0], g.traffic[1]
}

// Kill cuts the power. A disk on which Setup has not ended stays empty.
func (g *Guest) Kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.on, g.up = 0, false
}

// Shutdown asks Windows to end. A firmware does not hear it, nor Setup.
func (g *Guest) Shutdown() error {
	g.mu.Lock()
	up := g.up
	if up {
		g.on, g.up = 0, false
	}
	g.mu.Unlock()
	if up && g.board.OnPoweroff != nil {
		go g.board.OnPoweroff(false)
	}
	return nil
}

// Replug shows the disks that the VM has now; nobody looks at them.
func (g *Guest) Replug([]hypervisor.Drive) {}

// Talks reports whether Windows has its network up.
func (g *Guest) Talks() bool { return g.AgentUp() }

// AgentUp reports whether the agent answers.
func (g *Guest) AgentUp() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.up
}

func (g *Guest) agent() error {
	if !g.AgentUp() {
		return guest.ErrNoAgent
	}
	return nil
}

// AgentExec starts no program: Windows has none of those that are asked for.
func (g *Guest) AgentExec([]string, []byte) (int, error) {
	if err := g.agent(); err != nil {
		return 0, err
	}
	return 0, errors.New("Failed to execute helper program (Invalid argument)")
}

// AgentStatus knows no program.
func (g *Guest) AgentStatus(pid int) (guest.ExecStatus, error) {
	if err := g.agent(); err != nil {
		return guest.ExecStatus{}, err
	}
	return guest.ExecStatus{}, fmt.Errorf("%w: PID %d does not exist", guest.ErrNoProcess, pid)
}

// errNoPath is what Windows says, in its language, of a file that is not there (error_setg_win32 in qga/commands-win32.c).
var errNoPath = errors.New("The system cannot find the path specified.")

// AgentReadFile knows one file.
func (g *Guest) AgentReadFile(name string) ([]byte, error) {
	if err := g.agent(); err != nil {
		return nil, err
	}
	if name != `C:\Windows\win.ini` {
		return nil, errNoPath
	}
	return []byte("; for 16-bit app support\r\n"), nil
}

// AgentWriteFile writes nothing.
func (g *Guest) AgentWriteFile(string, []byte) error {
	if err := g.agent(); err != nil {
		return err
	}
	return errNoPath
}

// AgentInterfaces returns none.
func (g *Guest) AgentInterfaces() ([]guest.Interface, error) { return nil, g.agent() }
