package programs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// posix writes a regular expression of POSIX the way Go's package wants it.
func posix(pattern string, extended bool) string {
	if extended {
		return pattern
	}
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		special := strings.IndexByte("(){}|+?", c) >= 0
		switch {
		case c == '\\' && i+1 < len(pattern):
			i++
			if strings.IndexByte("(){}|+?", pattern[i]) < 0 {
				b.WriteByte('\\')
			}
			b.WriteByte(pattern[i])
		case special:
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func runGrep(_ context.Context, p *machine.Proc) int {
	opts, rest := getopt.Parse(p.Args[1:], "e", "m", "regexp", "max-count", "A", "B")
	patterns := append(opts["e"], opts["regexp"]...)
	if len(patterns) == 0 {
		if len(rest) == 0 {
			fmt.Fprintln(p.Stderr, "Usage: grep [OPTION]... PATTERNS [FILE]...")
			return 2
		}
		patterns, rest = rest[:1], rest[1:]
	}
	var tests []*regexp.Regexp
	for _, pattern := range patterns {
		re, err := grepPattern(opts, pattern)
		if err != nil {
			_ = p.Fail("%v", err)
			return 2
		}
		tests = append(tests, re)
	}
	return grep(p, opts, tests, rest)
}

func grepPattern(opts map[string][]string, pattern string) (*regexp.Regexp, error) {
	if getopt.Has(opts, "F", "fixed-strings") {
		pattern = regexp.QuoteMeta(pattern)
	} else {
		pattern = posix(pattern, getopt.Has(opts, "E", "P", "extended-regexp"))
	}
	if getopt.Has(opts, "x", "line-regexp") {
		pattern = "^(?:" + pattern + ")$"
	}
	if getopt.Has(opts, "w") {
		pattern = `\b(?:` + pattern + `)\b`
	}
	if getopt.Has(opts, "i", "ignore-case") {
		pattern = "(?i)" + pattern
	}
	return regexp.Compile(pattern)
}

func grep(p *machine.Proc, opts map[string][]string, tests []*regexp.Regexp, names []string) int {
	found, limit := 0, -1
	if m, err := strconv.Atoi(getopt.Last(opts, "m", "max-count")); err == nil {
		limit = m
	}
	quiet := getopt.Has(opts, "q", "quiet", "c", "l")
	if getopt.Has(opts, "s") {
		p.Stderr = io.Discard
	}
	code := each(p, names, func(name string, data []byte) {
		count := 0
		for i, line := range disk.Lines(data) {
			match := slices.ContainsFunc(tests, func(re *regexp.Regexp) bool { return re.MatchString(line) })
			if match == getopt.Has(opts, "v", "invert-match") || limit >= 0 && count >= limit {
				continue
			}
			count++
			if quiet {
				continue
			}
			if len(names) > 1 && !getopt.Has(opts, "h") || getopt.Has(opts, "H") {
				p.Printf("%s:", name)
			}
			if getopt.Has(opts, "n") {
				p.Printf("%d:", i+1)
			}
			if getopt.Has(opts, "o") {
				line = strings.Join(tests[0].FindAllString(line, -1), "\n")
			}
			p.Printf("%s\n", line)
		}
		if found += count; getopt.Has(opts, "c") {
			p.Printf("%d\n", count)
		} else if getopt.Has(opts, "l") && count > 0 {
			p.Printf("%s\n", name)
		}
	})
	switch {
	case found > 0:
		return 0
	case code != 0:
		return 2
	}
	return 1
}

func runHead(_ context.Context, p *machine.Proc) int {
	args := slices.Clone(p.Args[1:])
	for i, a := range args { // head -5
		if len(a) > 1 && a[0] == '-' && a[1] >= '0' && a[1] <= '9' {
			args[i] = "-n" + a[1:]
		}
	}
	opts, names := getopt.Parse(args, "n", "c", "lines", "bytes")
	count := 10
	spec := getopt.Last(opts, "n", "lines")
	if c := getopt.Last(opts, "c", "bytes"); c != "" {
		spec = c
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(spec, "+")); err == nil {
		count = n
	}
	return each(p, names, func(_ string, data []byte) {
		if getopt.Has(opts, "c", "bytes") {
			_, _ = p.Stdout.Write(part(data, count, p.Name() == "tail", false))
			return
		}
		all := slices.Collect(bytes.Lines(data))
		_, _ = p.Stdout.Write(bytes.Join(part(all, count, p.Name() == "tail", strings.HasPrefix(spec, "+")), nil))
	})
}

func runTac(_ context.Context, p *machine.Proc) int {
	return each(p, p.Args[1:], func(_ string, data []byte) {
		all := slices.Collect(bytes.Lines(data))
		slices.Reverse(all)
		_, _ = p.Stdout.Write(bytes.Join(all, nil))
	})
}

// part is the first or last n of s; from counts the start from 1, as tail -n +2.
func part[T any](s []T, n int, tail, from bool) []T {
	switch {
	case tail && from:
		return s[min(max(n-1, 0), len(s)):]
	case tail:
		return s[max(0, len(s)-max(n, -n)):]
	case n < 0:
		return s[:max(0, len(s)+n)]
	}
	return s[:min(n, len(s))]
}

func runWc(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:])
	return each(p, names, func(name string, data []byte) {
		var out []string
		all := !getopt.Has(opts, "l", "w", "c", "m")
		for _, c := range []struct {
			flag string
			n    int
		}{{"l", bytes.Count(data, []byte("\n"))}, {"w", len(bytes.Fields(data))}, {"c", len(data)}} {
			if all || getopt.Has(opts, c.flag) {
				out = append(out, strconv.Itoa(c.n))
			}
		}
		if name != "-" {
			out = append(out, name)
		}
		p.Printf("%s\n", strings.Join(out, " "))
	})
}

func runSort(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:], "k", "t", "o")
	var all []string
	code := each(p, names, func(_ string, data []byte) { all = append(all, disk.Lines(data)...) })
	slices.SortStableFunc(all, func(a, b string) int {
		if getopt.Has(opts, "n", "V") {
			x, _ := strconv.ParseFloat(strings.TrimSpace(a), 64)
			y, _ := strconv.ParseFloat(strings.TrimSpace(b), 64)
			if x != y {
				return map[bool]int{true: -1, false: 1}[x < y]
			}
		}
		return strings.Compare(a, b)
	})
	if getopt.Has(opts, "r") {
		slices.Reverse(all)
	}
	if getopt.Has(opts, "u") {
		all = slices.Compact(all)
	}
	for _, l := range all {
		p.Printf("%s\n", l)
	}
	return code
}

// ranges reads cut's lists: 1, 2-4, 3-.
func ranges(list string) func(int) bool {
	return func(i int) bool {
		for r := range strings.SplitSeq(list, ",") {
			lo, hi, isRange := strings.Cut(r, "-")
			from, _ := strconv.Atoi(lo)
			to, err := strconv.Atoi(hi)
			if !isRange {
				to = from
			} else if err != nil {
				to = 1 << 30
			}
			if i >= from && i <= to {
				return true
			}
		}
		return false
	}
}

func runCut(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:], "d", "f", "c", "b", "delimiter", "fields")
	delim := getopt.Last(opts, "d", "delimiter")
	if delim == "" {
		delim = "\t"
	}
	return each(p, names, func(_ string, data []byte) {
		for _, line := range disk.Lines(data) {
			fields, sep, want := strings.Split(line, delim), delim, getopt.Last(opts, "f", "fields")
			if c := getopt.Last(opts, "c", "b"); c != "" {
				fields, sep, want = strings.Split(line, ""), "", c
			} else if len(fields) == 1 {
				p.Printf("%s\n", line)
				continue
			}
			var out []string
			for i, f := range fields {
				if ranges(want)(i + 1) {
					out = append(out, f)
				}
			}
			p.Printf("%s\n", strings.Join(out, sep))
		}
	})
}

// charset expands a-z, \n and [:upper:] for tr.
func charset(s string) []rune {
	for name, set := range map[string]string{"[:upper:]": "A-Z", "[:lower:]": "a-z", "[:digit:]": "0-9", "[:space:]": " \t\n\r", "[:alnum:]": "a-zA-Z0-9"} {
		s = strings.ReplaceAll(s, name, set)
	}
	in := []rune(strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\0`, "\x00", `\\`, `\`).Replace(s))
	var out []rune
	for i := 0; i < len(in); i++ {
		if i+2 < len(in) && in[i+1] == '-' && in[i] <= in[i+2] {
			for r := in[i]; r <= in[i+2]; r++ {
				out = append(out, r)
			}
			i += 2
			continue
		}
		out = append(out, in[i])
	}
	return out
}

func runTr(_ context.Context, p *machine.Proc) int {
	opts, sets := getopt.Parse(p.Args[1:])
	if len(sets) == 0 {
		return p.Fail("missing operand")
	}
	data, err := io.ReadAll(p.Stdin)
	if err != nil {
		return 1
	}
	from := charset(sets[0])
	in := func(r rune) bool { return slices.Contains(from, r) != getopt.Has(opts, "c", "C") }
	if getopt.Has(opts, "d") {
		_, _ = io.WriteString(p.Stdout, strings.Map(func(r rune) rune {
			if in(r) {
				return -1
			}
			return r
		}, string(data)))
		return 0
	}
	var to []rune
	if len(sets) > 1 {
		to = charset(sets[1])
	}
	var prev rune = -1
	_, _ = io.WriteString(p.Stdout, strings.Map(func(r rune) rune {
		out, hit := r, in(r)
		if hit && len(to) > 0 {
			out = to[min(max(slices.Index(from, r), 0), len(to)-1)]
		}
		if hit && getopt.Has(opts, "s") && out == prev {
			return -1
		}
		prev = out
		return out
	}, string(data)))
	return 0
}
