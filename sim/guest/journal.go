package guest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// kernelLog is the kernel's place among the units.
const kernelLog = "kernel"

// journalLine is a line of a unit's journal, or of the kernel's.
type journalLine struct {
	at   time.Time
	from string
	text string
}

// maxJournal is how many lines of a unit are kept.
const maxJournal = 500

// log adds a line to a unit's journal.
func (s *system) log(unit, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := journalLine{at: time.Now(), from: strings.TrimSuffix(unit, ".service"), text: fmt.Sprintf(format, args...)}
	s.journal[unit] = keep(s.journal[unit], line, maxJournal)
}

// kmsg adds a line to the kernel's log.
func (s *system) kmsg(format string, args ...any) {
	s.log(kernelLog, "[%12.6f] %s", time.Since(s.booted).Seconds(), fmt.Sprintf(format, args...))
}

// said is what a unit has said since the last boot.
func (s *system) said(unit string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, line := range s.journal[unit] {
		out = append(out, line.text)
	}
	return out
}

// journals are all journals by unit.
func (s *system) journals() map[string][]journalLine {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := maps.Clone(s.journal)
	for unit, lines := range out {
		out[unit] = slices.Clone(lines)
	}
	return out
}
