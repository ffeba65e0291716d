package systemd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// journalOf writes whole lines to a unit's journal.
func journalOf(s *machine.System, unit string) io.Writer { return &journalWriter{s: s, unit: unit} }

type journalWriter struct {
	s    *machine.System
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
		j.s.Log(j.unit, "%s", line)
		j.rest = rest
	}
}

// runJournalctl prints what the kernel and services said. -o cat is faithful.
func runJournalctl(_ context.Context, p *machine.Proc) int {
	opts, _ := getopt.Parse(p.Args[1:], "u", "n", "o", "unit", "lines", "output", "since", "S", "until", "U", "p", "g")
	since, until, err := period(getopt.Last(opts, "since", "S"), getopt.Last(opts, "until", "U"))
	if err != nil {
		fmt.Fprintln(p.Stderr, err)
		return 1
	}
	all := entries(p.Sys, append(opts["u"], opts["unit"]...), getopt.Has(opts, "k", "dmesg"))
	all = slices.DeleteFunc(all, func(l machine.JournalLine) bool { return l.At.Before(since) || l.At.After(until) })
	reverse := getopt.Has(opts, "r", "reverse")
	if n, err := strconv.Atoi(getopt.Last(opts, "n", "lines")); err == nil {
		// systemd 252 goes on from --since then, and prints the oldest lines; 255 prints the newest. Machines
		// have either, and here the older one (seen with 252.39; src/journal/journalctl.c of both).
		if since.Unix() > 0 && !reverse {
			all = all[:min(n, len(all))]
		}
		all = newest(all, n)
	}
	if reverse {
		slices.Reverse(all)
	}
	if len(all) == 0 && !getopt.Has(opts, "q", "quiet") {
		p.Printf("-- No entries --\n")
		return 0
	}
	host := p.Sys.Hostname()
	for _, l := range all {
		if getopt.Last(opts, "o", "output") != "cat" {
			l.Text = fmt.Sprintf("%s %s %s[1]: %s", l.At.UTC().Format("Jan 02 15:04:05"), host, l.From, l.Text)
		}
		p.Printf("%s\n", l.Text)
	}
	return 0
}

// entries are the lines of some units, in the order of time; of all where none is named.
func entries(s *machine.System, units []string, kernel bool) []machine.JournalLine {
	var all []machine.JournalLine
	for name, lines := range s.Journals() {
		named := len(units) == 0 && !kernel || kernel && name == machine.KernelLog
		if named || slices.ContainsFunc(units, func(u string) bool { return UnitName(u) == name }) {
			all = append(all, lines...)
		}
	}
	slices.SortStableFunc(all, func(a, b machine.JournalLine) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.From, b.From)) })
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
			return time.UnixMicro(int64(math.Round(n * 1e6))), nil
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

// newest are the last n.
func newest[T any](all []T, n int) []T { return all[max(0, len(all)-max(n, -n)):] }
