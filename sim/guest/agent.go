package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/systemd"
)

// ErrNoAgent is returned while the QEMU guest agent does not answer.
var ErrNoAgent = errors.New("guest: QEMU guest agent is not running")

// ErrNoProcess is an unknown process number. The agent forgets a process when its
// end has been told.
var ErrNoProcess = errors.New("guest: no such process")

// ExecStatus is what the guest agent knows of a command that it started.
type ExecStatus struct {
	Exited   bool
	ExitCode int
	Signal   int
	Out, Err []byte
}

// agentUnit must run for the agent to answer; the package brings it.
const agentUnit = "qemu-guest-agent.service"

// agentState are the commands of the agent of a running system.
type agentState struct {
	mu    sync.Mutex
	next  int
	procs map[int]*agentProc
}

func (a *agentState) add(job *agentProc) (pid int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.procs == nil {
		a.next, a.procs = 1500, map[int]*agentProc{}
	}
	a.next++
	a.procs[a.next] = job
	return a.next
}

type agentProc struct {
	out, err bytes.Buffer
	code     int
	done     chan struct{}
}

// maxOutput is how much of each stream the agent keeps, as qemu-ga does.
const maxOutput = 16 << 20

// cappedBuffer is a buffer that forgets what is beyond its limit.
type cappedBuffer struct {
	mu sync.Mutex
	b  *bytes.Buffer
}

func (c *cappedBuffer) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.b.Write(p[:min(len(p), maxOutput-min(maxOutput, c.b.Len()))])
	return len(p), nil
}

// AgentUp reports whether the guest agent answers.
func (m *Machine) AgentUp() bool {
	_, err := m.agent()
	return err == nil
}

// Talks reports whether the machine has had its network up since it was switched on,
// and so has sent packets.
func (m *Machine) Talks() bool { return m.core.Talks() }

func (m *Machine) agent() (*machine.System, error) {
	s := m.core.System()
	never := m.core.Faulty(func(f machine.Faults) bool { return f.AgentNeverAnswers })
	if s == nil {
		return nil, machine.ErrOff
	}
	if never || !systemd.Active(s, agentUnit) {
		return nil, ErrNoAgent
	}
	return s, nil
}

// AgentExec starts a command as root, without a shell.
func (m *Machine) AgentExec(argv []string, input []byte) (int, error) {
	s, err := m.agent()
	if err != nil {
		return 0, err
	}
	if len(argv) == 0 {
		return 0, errors.New("guest: no command")
	}
	job := &agentProc{done: make(chan struct{})}
	p := s.Session(disk.RootUser(), bytes.NewReader(input), &cappedBuffer{b: &job.out}, &cappedBuffer{b: &job.err})
	p.Dir, p.Args = "/", argv
	if _, err := p.Find(argv[0]); err != nil {
		return 0, fmt.Errorf("guest: Failed to execute child process “%s” (%s): %w", argv[0], disk.Strerror(machine.NotThere(err)), err)
	}
	pid := machine.StateOf[agentState](s).add(job)
	started := s.Go(func() {
		defer close(job.done)
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		job.code = p.Exec(ctx)
	})
	if !started {
		return 0, machine.ErrOff
	}
	return pid, nil
}

// AgentStatus tells how a command does. Its end is told once.
func (m *Machine) AgentStatus(pid int) (ExecStatus, error) {
	s, err := m.agent()
	if err != nil {
		return ExecStatus{}, err
	}
	a := machine.StateOf[agentState](s)
	a.mu.Lock()
	defer a.mu.Unlock()
	job := a.procs[pid]
	if job == nil {
		return ExecStatus{}, fmt.Errorf("%w: PID %d does not exist", ErrNoProcess, pid)
	}
	select {
	case <-job.done:
	default:
		return ExecStatus{}, nil
	}
	delete(a.procs, pid)
	return ExecStatus{Exited: true, ExitCode: job.code, Out: job.out.Bytes(), Err: job.err.Bytes()}, nil
}

// AgentReadFile reads a file as root. One that does not exist is an error that
// wraps [io/fs.ErrNotExist].
func (m *Machine) AgentReadFile(name string) ([]byte, error) {
	s, err := m.agent()
	if err != nil {
		return nil, err
	}
	if name == Kmsg {
		return kmsg(s.Messages(machine.KernelLog)), nil
	}
	return s.Root().ReadFile(name)
}

// Kmsg is the device with the kernel's log. It never ends: who reads more than there is waits, or is told to try again.
const Kmsg = "/dev/kmsg"

// kmsg are the records of the kernel's log (Documentation/ABI/testing/dev-kmsg): priority, number, microseconds since
// the boot, flags; the text.
func kmsg(log []string) []byte {
	var out []byte
	for i, line := range log {
		at, text, _ := strings.Cut(strings.TrimPrefix(line, "["), "] ")
		seconds, _ := strconv.ParseFloat(strings.TrimSpace(at), 64) // it is ours
		out = fmt.Appendf(out, "6,%d,%d,-;%s\n", i, int64(seconds*1e6), text)
	}
	return out
}

// AgentWriteFile writes a file as root; its directory must exist.
func (m *Machine) AgentWriteFile(name string, data []byte) error {
	s, err := m.agent()
	if err != nil {
		return err
	}
	if name == Kmsg {
		s.Kmsg("%s", bytes.TrimSpace(data))
		return nil
	}
	return s.ViewAs(nil, s.RecordChange).WriteFile(name, data, 0o644)
}

// AgentInterfaces lists the network cards with their addresses.
func (m *Machine) AgentInterfaces() ([]machine.Interface, error) {
	s, err := m.agent()
	if err != nil {
		return nil, err
	}
	return s.Interfaces(), nil
}

// Hostname returns the running guest's host name, for messages.
func (m *Machine) Hostname() string {
	if s := m.core.System(); s != nil {
		return s.Hostname()
	}
	return ""
}

// Units returns the state of every unit that was started since the last boot, as
// "active", "failed" and so on, for tests.
func (m *Machine) Units() map[string]string {
	s := m.core.System()
	if s == nil {
		return map[string]string{}
	}
	return systemd.States(s)
}
