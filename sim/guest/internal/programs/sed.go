package programs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// sedCommand is sed's s, for all lines: nothing here asks for another, or for some lines.
type sedCommand struct {
	re      *regexp.Regexp
	with    string
	all, pr bool
}

// sedScript reads commands separated by semicolons or newlines. What is not
// simulated is an error, and not silently left out.
func sedScript(script string, extended bool) ([]sedCommand, error) {
	var out []sedCommand
	for s := strings.TrimLeft(script, " ;\n"); s != ""; s = strings.TrimLeft(s, " ;\n") {
		if s[0] != 's' {
			return nil, fmt.Errorf("command '%s' is not simulated", s)
		}
		var c sedCommand
		rest, err := c.substitution(s[1:], extended)
		if err != nil {
			return nil, err
		}
		if s = rest; s != "" && !strings.ContainsRune(" ;\n", rune(s[0])) {
			return nil, errors.New("extra characters after command")
		}
		out = append(out, c)
	}
	return out, nil
}

// closing finds the next delimiter that no backslash stands before.
func closing(s string, delim byte) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case delim:
			return i
		}
	}
	return -1
}

func (c *sedCommand) substitution(s string, extended bool) (rest string, err error) {
	if s == "" {
		return "", errors.New("unterminated `s' command")
	}
	delim := s[0]
	a := closing(s[1:], delim)
	if a < 0 {
		return "", errors.New("unterminated `s' command")
	}
	b := closing(s[a+2:], delim)
	if b < 0 {
		return "", errors.New("unterminated `s' command")
	}
	pattern, with := s[1:a+1], s[a+2:a+2+b]
	rest = s[a+b+3:]
	plain := strings.NewReplacer(`\`+string(delim), string(delim))
	ignore := ""
	for len(rest) > 0 && strings.IndexByte("gpiI", rest[0]) >= 0 {
		switch rest[0] {
		case 'g':
			c.all = true
		case 'p':
			c.pr = true
		default:
			ignore = "(?i)"
		}
		rest = rest[1:]
	}
	if c.re, err = regexp.Compile(ignore + posix(plain.Replace(pattern), extended)); err != nil {
		return "", err
	}
	with = strings.ReplaceAll(plain.Replace(with), "$", "$$")
	with = regexp.MustCompile(`\\([1-9])`).ReplaceAllString(with, "$${$1}")
	c.with = strings.NewReplacer(`\&`, "&", "&", "${0}", `\n`, "\n", `\\`, `\`).Replace(with)
	return rest, nil
}

func (c *sedCommand) replace(line string) (string, bool) {
	if c.all {
		return c.re.ReplaceAllString(line, c.with), c.re.MatchString(line)
	}
	at := c.re.FindStringSubmatchIndex(line)
	if at == nil {
		return line, false
	}
	return line[:at[0]] + string(c.re.ExpandString(nil, c.with, line, at)) + line[at[1]:], true
}

func runSed(_ context.Context, p *machine.Proc) int {
	var args []string
	inPlace := false
	for _, a := range p.Args[1:] { // -i takes its suffix without a space only
		if a == "-i" || strings.HasPrefix(a, "-i.") || a == "--in-place" {
			inPlace = true
			continue
		}
		args = append(args, a)
	}
	opts, rest := getopt.Parse(args, "e", "expression", "f")
	scripts := append(opts["e"], opts["expression"]...)
	if len(scripts) == 0 && len(rest) > 0 {
		scripts, rest = rest[:1], rest[1:]
	}
	if len(scripts) == 0 {
		return p.Fail("no script specified")
	}
	commands, err := sedScript(strings.Join(scripts, "\n"), getopt.Has(opts, "E", "r"))
	if err != nil {
		return p.Fail("-e expression #1, char 0: %v", err)
	}
	code := 0
	edit := func(name string, data []byte) {
		var out bytes.Buffer
		sed(commands, data, getopt.Has(opts, "n", "quiet", "silent"), &out)
		switch {
		case !inPlace:
			_, _ = p.Stdout.Write(out.Bytes())
		case !bytes.Equal(out.Bytes(), data):
			if err := p.FS.WriteFile(p.Abs(name), out.Bytes(), 0o644); err != nil {
				code = p.Fail("couldn't open temporary file for %s: %s", name, disk.Strerror(err))
			}
		}
	}
	return max(each(p, rest, edit), code)
}

func sed(commands []sedCommand, data []byte, quiet bool, out io.Writer) {
	for _, line := range disk.Lines(data) {
		for _, c := range commands {
			var hit bool
			if line, hit = c.replace(line); hit && c.pr {
				fmt.Fprintln(out, line)
			}
		}
		if !quiet {
			fmt.Fprintln(out, line)
		}
	}
}

// awkProgram is the only one that is asked for: a field of the lines in which another is a text.
var awkProgram = regexp.MustCompile(`^\$(\d+) == "([^"]*)" \{print \$(\d+)\}$`)

func runAwk(_ context.Context, p *machine.Proc) int {
	m := awkProgram.FindStringSubmatch(strings.Join(p.Args[1:min(2, len(p.Args))], ""))
	if m == nil {
		_ = p.Fail("program %q is not simulated", p.Args[1:])
		return 2
	}
	return each(p, p.Args[2:], func(_ string, data []byte) {
		for _, line := range disk.Lines(data) {
			field := func(n string) string {
				if k, _ := strconv.Atoi(n); k > 0 && k <= len(strings.Fields(line)) {
					return strings.Fields(line)[k-1]
				}
				return ""
			}
			if field(m[1]) == m[2] {
				p.Printf("%s\n", field(m[3]))
			}
		}
	})
}

func runCmp(_ context.Context, p *machine.Proc) int {
	_, names := getopt.Parse(p.Args[1:])
	if len(names) < 2 {
		_ = p.Fail("missing operand")
		return 2
	}
	var data [2][]byte
	for i, name := range names[:2] {
		var err error
		if data[i], err = input(p, name); err != nil {
			_ = p.Fail("%s: %s", name, disk.Strerror(err))
			return 2
		}
	}
	if !bytes.Equal(data[0], data[1]) {
		return 1
	}
	return 0
}

// runXargs is xargs without a command: it puts words into one line.
func runXargs(_ context.Context, p *machine.Proc) int {
	if len(p.Args) > 1 {
		return p.Fail("commands are not simulated")
	}
	data, err := io.ReadAll(p.Stdin)
	if err != nil {
		return p.Fail("%v", err)
	}
	p.Printf("%s\n", strings.Join(strings.Fields(string(data)), " "))
	return 0
}
