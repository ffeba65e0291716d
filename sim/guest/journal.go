package guest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
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

// Journal returns what a unit has said since the last boot, for tests.
func (m *Machine) Journal(unit string) []string {
	s := m.system()
	if s == nil {
		return nil
	}
	return s.said(unitName(unit))
}

// journalWriter writes whole lines to a unit's journal.
func (s *system) journalWriter(unit string) io.Writer { return &journalWriter{s: s, unit: unit} }

type journalWriter struct {
	s    *system
	unit string
	rest string
}

func (j *journalWriter) Write(p []byte) (int, error) {
	j.rest += string(p)
	for {
		line, rest, ok := strings.Cut(j.rest, "\n")
		if !ok {
			return len(p), nil
		}
		j.s.log(j.unit, "%s", line)
		j.rest = rest
	}
}

// runJournalctl prints what the kernel and services said. -o cat is faithful.
func runJournalctl(_ context.Context, p *proc) int {
	opts, _ := flags(p.args[1:], "u", "n", "o", "unit", "lines", "output", "since", "S", "until", "U", "p", "g")
	since, until, err := period(last(opts, "since", "S"), last(opts, "until", "U"))
	if err != nil {
		fmt.Fprintln(p.stderr, err)
		return 1
	}
	all := p.sys.entries(append(opts["u"], opts["unit"]...), has(opts, "k", "dmesg"))
	all = slices.DeleteFunc(all, func(l journalLine) bool { return l.at.Before(since) || l.at.After(until) })
	if n, err := strconv.Atoi(last(opts, "n", "lines")); err == nil {
		all = part(all, n, true, false)
	}
	if has(opts, "r", "reverse") {
		slices.Reverse(all)
	}
	if len(all) == 0 && !has(opts, "q", "quiet") {
		p.printf("-- No entries --\n")
		return 0
	}
	host := p.sys.host()
	for _, l := range all {
		if last(opts, "o", "output") != "cat" {
			l.text = fmt.Sprintf("%s %s %s[1]: %s", l.at.UTC().Format("Jan 02 15:04:05"), host, l.from, l.text)
		}
		p.printf("%s\n", l.text)
	}
	return 0
}

// entries are the lines of some units, in the order of time; of all where none is named.
func (s *system) entries(units []string, kernel bool) []journalLine {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []journalLine
	for name, lines := range s.journal {
		named := len(units) == 0 && !kernel || kernel && name == kernelLog
		if named || slices.ContainsFunc(units, func(u string) bool { return unitName(u) == name }) {
			all = append(all, lines...)
		}
	}
	slices.SortStableFunc(all, func(a, b journalLine) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.from, b.from)) })
	return all
}

// period reads --since and --until, which both may be empty.
func period(since, until string) (from, to time.Time, err error) {
	now := time.Now()
	if from, err = moment(cmp.Or(since, "@0"), now); err == nil {
		to, err = moment(cmp.Or(until, "now"), now)
	}
	return from, to, err
}

// moment reads a point in time as systemd.time(7) has it; of its relative forms
// those of time.ParseDuration.
func moment(text string, now time.Time) (time.Time, error) {
	day := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch text {
	case "now":
		return now, nil
	case "today":
		return day, nil
	case "yesterday":
		return day.AddDate(0, 0, -1), nil
	}
	if seconds, ok := strings.CutPrefix(text, "@"); ok {
		if n, err := strconv.ParseFloat(seconds, 64); err == nil {
			return time.UnixMilli(int64(n * 1000)), nil
		}
	}
	ago, past := strings.CutSuffix(text, " ago")
	if d, err := time.ParseDuration(strings.ReplaceAll(ago, " ", "")); err == nil && (past || strings.ContainsRune("+-", rune(text[0]))) {
		if past {
			d = -d
		}
		return now.Add(d), nil
	}
	for _, layout := range []string{time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("Failed to parse timestamp: %s", text)
}
