package machine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// KernelLog is the kernel's place among the units.
const KernelLog = "kernel"

// JournalLine is a line of a unit's journal, or of the kernel's.
type JournalLine struct {
	At   time.Time
	From string
	Text string
}

// maxJournal is how many lines of a unit are kept.
const maxJournal = 500

// Log adds a line to a unit's journal.
func (s *System) Log(unit, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := JournalLine{At: time.Now(), From: strings.TrimSuffix(unit, ".service"), Text: fmt.Sprintf(format, args...)}
	s.journal[unit] = keep(s.journal[unit], line, maxJournal)
}

// Kmsg adds a line to the kernel's log.
func (s *System) Kmsg(format string, args ...any) {
	s.Log(KernelLog, "[%12.6f] %s", time.Since(s.booted).Seconds(), fmt.Sprintf(format, args...))
}

// Messages is what a unit has said since the last boot.
func (s *System) Messages(unit string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, line := range s.journal[unit] {
		out = append(out, line.Text)
	}
	return out
}

// Journals are all journals by unit.
func (s *System) Journals() map[string][]JournalLine {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := maps.Clone(s.journal)
	for unit, lines := range out {
		out[unit] = slices.Clone(lines)
	}
	return out
}
