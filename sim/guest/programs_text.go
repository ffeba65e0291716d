package guest

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

func runGrep(_ context.Context, p *proc) int {
	opts, rest := flags(p.args[1:], "e", "m", "regexp", "max-count", "A", "B")
	patterns := append(opts["e"], opts["regexp"]...)
	if len(patterns) == 0 {
		if len(rest) == 0 {
			fmt.Fprintln(p.stderr, "Usage: grep [OPTION]... PATTERNS [FILE]...")
			return 2
		}
		patterns, rest = rest[:1], rest[1:]
	}
	var tests []*regexp.Regexp
	for _, pattern := range patterns {
		re, err := grepPattern(opts, pattern, p.name() == "egrep")
		if err != nil {
			_ = p.fail("%v", err)
			return 2
		}
		tests = append(tests, re)
	}
	return p.grep(opts, tests, rest)
}

func grepPattern(opts map[string][]string, pattern string, extended bool) (*regexp.Regexp, error) {
	if has(opts, "F", "fixed-strings") {
		pattern = regexp.QuoteMeta(pattern)
	} else {
		pattern = posix(pattern, extended || has(opts, "E", "P", "extended-regexp"))
	}
	if has(opts, "x", "line-regexp") {
		pattern = "^(?:" + pattern + ")$"
	}
	if has(opts, "w") {
		pattern = `\b(?:` + pattern + `)\b`
	}
	if has(opts, "i", "ignore-case") {
		pattern = "(?i)" + pattern
	}
	return regexp.Compile(pattern)
}

func (p *proc) grep(opts map[string][]string, tests []*regexp.Regexp, names []string) int {
	found, limit := 0, -1
	if m, err := strconv.Atoi(last(opts, "m", "max-count")); err == nil {
		limit = m
	}
	quiet := has(opts, "q", "quiet", "c", "l")
	if has(opts, "s") {
		p.stderr = io.Discard
	}
	code := p.each(names, func(name string, data []byte) {
		count := 0
		for i, line := range disk.Lines(data) {
			match := slices.ContainsFunc(tests, func(re *regexp.Regexp) bool { return re.MatchString(line) })
			if match == has(opts, "v", "invert-match") || limit >= 0 && count >= limit {
				continue
			}
			count++
			if quiet {
				continue
			}
			if len(names) > 1 && !has(opts, "h") || has(opts, "H") {
				p.printf("%s:", name)
			}
			if has(opts, "n") {
				p.printf("%d:", i+1)
			}
			if has(opts, "o") {
				line = strings.Join(tests[0].FindAllString(line, -1), "\n")
			}
			p.printf("%s\n", line)
		}
		if found += count; has(opts, "c") {
			p.printf("%d\n", count)
		} else if has(opts, "l") && count > 0 {
			p.printf("%s\n", name)
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

func runHead(_ context.Context, p *proc) int {
	args := slices.Clone(p.args[1:])
	for i, a := range args { // head -5
		if len(a) > 1 && a[0] == '-' && a[1] >= '0' && a[1] <= '9' {
			args[i] = "-n" + a[1:]
		}
	}
	opts, names := flags(args, "n", "c", "lines", "bytes")
	count := 10
	spec := last(opts, "n", "lines")
	if c := last(opts, "c", "bytes"); c != "" {
		spec = c
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(spec, "+")); err == nil {
		count = n
	}
	return p.each(names, func(_ string, data []byte) {
		if has(opts, "c", "bytes") {
			_, _ = p.stdout.Write(part(data, count, p.name() == "tail", false))
			return
		}
		all := slices.Collect(bytes.Lines(data))
		_, _ = p.stdout.Write(bytes.Join(part(all, count, p.name() == "tail", strings.HasPrefix(spec, "+")), nil))
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

func runWc(_ context.Context, p *proc) int {
	opts, names := flags(p.args[1:])
	return p.each(names, func(name string, data []byte) {
		var out []string
		all := !has(opts, "l", "w", "c", "m")
		for _, c := range []struct {
			flag string
			n    int
		}{{"l", bytes.Count(data, []byte("\n"))}, {"w", len(bytes.Fields(data))}, {"c", len(data)}} {
			if all || has(opts, c.flag) {
				out = append(out, strconv.Itoa(c.n))
			}
		}
		if name != "-" {
			out = append(out, name)
		}
		p.printf("%s\n", strings.Join(out, " "))
	})
}

func runSort(_ context.Context, p *proc) int {
	opts, names := flags(p.args[1:], "k", "t", "o")
	var all []string
	code := p.each(names, func(_ string, data []byte) { all = append(all, disk.Lines(data)...) })
	slices.SortStableFunc(all, func(a, b string) int {
		if has(opts, "n", "V") {
			x, _ := strconv.ParseFloat(strings.TrimSpace(a), 64)
			y, _ := strconv.ParseFloat(strings.TrimSpace(b), 64)
			if x != y {
				return map[bool]int{true: -1, false: 1}[x < y]
			}
		}
		return strings.Compare(a, b)
	})
	if has(opts, "r") {
		slices.Reverse(all)
	}
	if has(opts, "u") {
		all = slices.Compact(all)
	}
	for _, l := range all {
		p.printf("%s\n", l)
	}
	return code
}

func runUniq(_ context.Context, p *proc) int {
	opts, names := flags(p.args[1:])
	return p.each(names, func(_ string, data []byte) {
		all := disk.Lines(data)
		for i := 0; i < len(all); {
			j := i
			for j < len(all) && all[j] == all[i] {
				j++
			}
			if has(opts, "c") {
				p.printf("%7d ", j-i)
			}
			if !has(opts, "d") || j-i > 1 {
				p.printf("%s\n", all[i])
			}
			i = j
		}
	})
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

func runCut(_ context.Context, p *proc) int {
	opts, names := flags(p.args[1:], "d", "f", "c", "b", "delimiter", "fields")
	delim := last(opts, "d", "delimiter")
	if delim == "" {
		delim = "\t"
	}
	return p.each(names, func(_ string, data []byte) {
		for _, line := range disk.Lines(data) {
			fields, sep, want := strings.Split(line, delim), delim, last(opts, "f", "fields")
			if c := last(opts, "c", "b"); c != "" {
				fields, sep, want = strings.Split(line, ""), "", c
			} else if len(fields) == 1 {
				p.printf("%s\n", line)
				continue
			}
			var out []string
			for i, f := range fields {
				if ranges(want)(i + 1) {
					out = append(out, f)
				}
			}
			p.printf("%s\n", strings.Join(out, sep))
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

func runTr(_ context.Context, p *proc) int {
	opts, sets := flags(p.args[1:])
	if len(sets) == 0 {
		return p.fail("missing operand")
	}
	data, err := io.ReadAll(p.stdin)
	if err != nil {
		return 1
	}
	from := charset(sets[0])
	in := func(r rune) bool { return slices.Contains(from, r) != has(opts, "c", "C") }
	if has(opts, "d") {
		_, _ = io.WriteString(p.stdout, strings.Map(func(r rune) rune {
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
	_, _ = io.WriteString(p.stdout, strings.Map(func(r rune) rune {
		out, hit := r, in(r)
		if hit && len(to) > 0 {
			out = to[min(max(slices.Index(from, r), 0), len(to)-1)]
		}
		if hit && has(opts, "s") && out == prev {
			return -1
		}
		prev = out
		return out
	}, string(data)))
	return 0
}
