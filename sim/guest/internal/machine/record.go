package machine

import "slices"

// record is what a test may want to know of a guest: what was started in it, and
// what that has changed.
type record struct {
	mutations []string
	commands  [][]string
}

// Of a record, this much is kept; of a lean one's command, this many bytes.
const (
	maxRecord   = 4000
	leanRecord  = 100
	leanCommand = 256
)

// Commands returns the arguments of every program that was started in this guest,
// over SSH, by the guest agent, by cloud-init or by another program, oldest first.
// It is what ps would have shown to every user of the machine.
func (m *Machine) Commands() [][]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.record.commands)
}

// Mutations returns what commands (over SSH, the guest agent or cloud-init) have
// changed so far in this guest: files written, units started or stopped,
// packages installed or removed. What services write by themselves is not among
// them, nor is anything below /run, /proc, /sys and /dev.
func (m *Machine) Mutations() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.record.mutations)
}

func (m *Machine) ran(args []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	args = slices.Clone(args)
	if m.Config.Lean {
		args = shorten(args, leanCommand)
	}
	m.record.commands = keep(m.record.commands, args, m.keeps())
}

// RecordChange records a change that a command has made.
func (s *System) RecordChange(what string) { s.m.recordChange(what) }

func (m *Machine) recordChange(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.record.mutations); n > 0 && m.record.mutations[n-1] == what {
		return // a file that is written in pieces
	}
	m.record.mutations = keep(m.record.mutations, what, m.keeps())
}

func (m *Machine) keeps() int {
	if m.Config.Lean {
		return leanRecord
	}
	return maxRecord
}

// keep appends to a list that forgets its older half when it is full.
func keep[T any](list []T, one T, limit int) []T {
	if len(list) >= limit {
		n := copy(list, list[len(list)-limit/2:])
		clear(list[n:])
		list = list[:n]
	}
	return append(list, one)
}

// shorten shortens arguments, the longest of which are scripts, to so many bytes.
func shorten(args []string, limit int) []string {
	for i, a := range args {
		if len(a) > limit {
			args[i] = string([]byte(a[:limit])) // a copy, or all of it would stay in memory
			return args[: i+1 : i+1]
		}
		limit -= len(a)
	}
	return args
}
