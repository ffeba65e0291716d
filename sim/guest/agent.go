package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
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

type agentState struct {
	next  int
	procs map[int]*agentProc
}

type agentProc struct {
	out, err bytes.Buffer
	code     int
	done     chan struct{}
}

// maxOutput is how much of each stream the agent keeps, as qemu-ga does.
const maxOutput = 16 << 20

// capped is a buffer that forgets what is beyond its limit.
type capped struct {
	mu sync.Mutex
	b  *bytes.Buffer
}

func (c *capped) Write(p []byte) (int, error) {
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
func (m *Machine) Talks() bool { return m.talks.Load() }

func (m *Machine) agent() (*system, error) {
	m.mu.Lock()
	s, never := m.sys, m.faults.AgentNeverAnswers
	m.mu.Unlock()
	if s == nil {
		return nil, ErrOff
	}
	if never || !s.isActive(agentUnit) {
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
	p := s.session(disk.RootUser(), bytes.NewReader(input), &capped{b: &job.out}, &capped{b: &job.err})
	p.dir, p.args = "/", argv
	if _, err := p.find(argv[0]); err != nil {
		return 0, fmt.Errorf("guest: Failed to execute child process “%s” (%s): %w", argv[0], strerror(notThere(err)), err)
	}
	if !s.enter() {
		return 0, ErrOff
	}
	s.mu.Lock()
	if s.agent.procs == nil {
		s.agent = agentState{next: 1500, procs: map[int]*agentProc{}}
	}
	s.agent.next++
	pid := s.agent.next
	s.agent.procs[pid] = job
	s.mu.Unlock()
	go func() {
		defer s.wg.Done()
		defer close(job.done)
		ctx, cancel := context.WithCancel(s.ctx)
		defer cancel()
		job.code = p.exec(ctx)
	}()
	return pid, nil
}

// notThere is an error with the words of ENOENT where it says only that.
func notThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("No such file or directory")
	}
	return err
}

// AgentStatus tells how a command does. Its end is told once.
func (m *Machine) AgentStatus(pid int) (ExecStatus, error) {
	s, err := m.agent()
	if err != nil {
		return ExecStatus{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	job := s.agent.procs[pid]
	if job == nil {
		return ExecStatus{}, fmt.Errorf("%w: PID %d does not exist", ErrNoProcess, pid)
	}
	select {
	case <-job.done:
	default:
		return ExecStatus{}, nil
	}
	delete(s.agent.procs, pid)
	return ExecStatus{Exited: true, ExitCode: job.code, Out: job.out.Bytes(), Err: job.err.Bytes()}, nil
}

// AgentReadFile reads a file as root. One that does not exist is an error that
// wraps [fs.ErrNotExist].
func (m *Machine) AgentReadFile(name string) ([]byte, error) {
	s, err := m.agent()
	if err != nil {
		return nil, err
	}
	return s.root().ReadFile(name)
}

// AgentWriteFile writes a file as root; its directory must exist.
func (m *Machine) AgentWriteFile(name string, data []byte) error {
	s, err := m.agent()
	if err != nil {
		return err
	}
	return s.viewAs(nil, m.mutated).WriteFile(name, data, 0o644)
}

// AgentInterfaces lists the network cards with their addresses.
func (m *Machine) AgentInterfaces() ([]Interface, error) {
	s, err := m.agent()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ifaces), nil
}

// Hostname returns the running guest's host name, for messages.
func (m *Machine) Hostname() string {
	if s := m.system(); s != nil {
		return s.host()
	}
	return ""
}

// Units returns the state of every unit that was started since the last boot, as
// "active", "failed" and so on, for tests.
func (m *Machine) Units() map[string]string {
	out := map[string]string{}
	if s := m.system(); s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		for name := range maps.Keys(s.units) {
			out[name] = s.units[name].active
		}
	}
	return out
}
