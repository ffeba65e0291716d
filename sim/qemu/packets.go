package qemu

import (
	"os"
	"path/filepath"

	"github.com/cps-gpu/homelab/sim/guest"
)

// header is that of a file of packets without any.
const header = 24

// Talks looks for what the guest has sent since it was switched on.
func (m *machine) Talks() bool {
	m.mu.Lock()
	sent, on := m.shape.sent, m.run != nil
	m.mu.Unlock()
	files, _ := filepath.Glob(sent + "*")
	for _, name := range files {
		if info, err := os.Stat(name); on && err == nil && info.Size() > header {
			return true
		}
	}
	return false
}

// answering returns the machine whose agent has opened its port.
func (m *machine) answering() (*agent, error) {
	r, err := m.running()
	if err != nil {
		return nil, err
	}
	if !r.listening.Load() {
		return nil, guest.ErrNoAgent
	}
	return r.agent, nil
}

// AgentUp pings the agent.
func (m *machine) AgentUp() bool {
	a, err := m.answering()
	return err == nil && a.ping()
}

func (m *machine) AgentExec(argv []string, input []byte) (int, error) {
	a, err := m.answering()
	if err != nil {
		return 0, err
	}
	return a.exec(argv, input)
}

func (m *machine) AgentStatus(pid int) (guest.ExecStatus, error) {
	a, err := m.answering()
	if err != nil {
		return guest.ExecStatus{}, err
	}
	return a.status(pid)
}

func (m *machine) AgentReadFile(name string) ([]byte, error) {
	a, err := m.answering()
	if err != nil {
		return nil, err
	}
	return a.readFile(name)
}

func (m *machine) AgentWriteFile(name string, data []byte) error {
	a, err := m.answering()
	if err != nil {
		return err
	}
	return a.writeFile(name, data)
}

func (m *machine) AgentInterfaces() ([]guest.Interface, error) {
	a, err := m.answering()
	if err != nil {
		return nil, err
	}
	return a.interfaces()
}
