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
	all := entries(p.sys, append(opts["u"], opts["unit"]...), has(opts, "k", "dmesg"))
	all = slices.DeleteFunc(all, func(l journalLine) bool { return l.at.Before(since) || l.at.After(until) })
	if n, err := strconv.Atoi(last(opts, "n", "lines")); err == nil {
		all = newest(all, n)
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
func entries(s *system, units []string, kernel bool) []journalLine {
	var all []journalLine
	for name, lines := range s.journals() {
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

// newest are the last n.
func newest[T any](all []T, n int) []T { return all[max(0, len(all)-max(n, -n)):] }
