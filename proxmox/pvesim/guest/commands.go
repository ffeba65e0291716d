package guest

import "slices"

// maxCommands bounds the memory that a busy guest's list takes; of a longer list
// the beginning is forgotten.
const maxCommands = 4000

// Commands returns the arguments of every program that was started in this guest,
// over SSH, by the guest agent, by cloud-init or by another program, oldest first.
// It is what ps would have shown to every user of the machine.
func (m *Machine) Commands() [][]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.cmds)
}

func (m *Machine) ran(args []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.cmds) >= maxCommands {
		m.cmds = append(m.cmds[:0], m.cmds[maxCommands/2:]...)
	}
	m.cmds = append(m.cmds, slices.Clone(args))
}
