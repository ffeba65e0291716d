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

// sedCommand is one of sed's: p, d, q or s, for the lines that its address names.
type sedCommand struct {
	line    int // 0 for none; -1 for the last
	match   *regexp.Regexp
	verb    byte
	re      *regexp.Regexp
	with    string
	all, pr bool
}

// sedScript reads commands separated by semicolons or newlines. What is not
// simulated is an error, and not silently left out.
func sedScript(script string, extended bool) ([]sedCommand, error) {
	var out []sedCommand
	for s := strings.TrimLeft(script, " ;\n"); s != ""; s = strings.TrimLeft(s, " ;\n") {
		var c sedCommand
		switch digits := len(s) - len(strings.TrimLeft(s, "0123456789")); {
		case digits > 0:
			c.line, _ = strconv.Atoi(s[:digits])
			s = s[digits:]
		case s[0] == '$':
			c.line, s = -1, s[1:]
		case s[0] == '/':
			end := closing(s[1:], '/')
			if end < 0 {
				return nil, errors.New("unterminated address regex")
			}
			re, err := regexp.Compile(posix(s[1:end+1], extended))
			if err != nil {
				return nil, err
			}
			c.match, s = re, s[end+2:]
		}
		if s = strings.TrimLeft(s, " "); s == "" {
			return nil, errors.New("missing command")
		}
		c.verb, s = s[0], s[1:]
		switch c.verb {
		case 'p', 'd', 'q':
		case 's':
			rest, err := c.substitution(s, extended)
			if err != nil {
				return nil, err
			}
			s = rest
		default:
			return nil, fmt.Errorf("command '%c' is not simulated", c.verb)
		}
		if s != "" && !strings.ContainsRune(" ;\n", rune(s[0])) {
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
	all := disk.Lines(data)
	for i, line := range all {
		show, quit := !quiet, false
		for _, c := range commands {
			last := c.line == -1 && i == len(all)-1
			if c.line != 0 && c.line != i+1 && !last || c.match != nil && !c.match.MatchString(line) {
				continue
			}
			switch c.verb {
			case 'p':
				fmt.Fprintln(out, line)
			case 'd':
				show = false
			case 'q':
				quit = true
			case 's':
				var hit bool
				if line, hit = c.replace(line); hit && c.pr {
					fmt.Fprintln(out, line)
				}
			}
			if c.verb == 'd' || quit {
				break
			}
		}
		if show {
			fmt.Fprintln(out, line)
		}
		if quit {
			return
		}
	}
}

// awkProgram is the awk that administrators write: a condition of one kind, and
// a print of fields and texts.
var awkProgram = regexp.MustCompile(`^\s*(?:/((?:[^/\\]|\\.)*)/|NR\s*==\s*(\d+)|\$(\d+)\s*==\s*"([^"]*)")?\s*(?:\{\s*print\s*([^;}]*?)\s*(;\s*exit)?\s*;?\s*\})?\s*$`)

func runAwk(_ context.Context, p *machine.Proc) int {
	opts, rest := getopt.Parse(p.Args[1:], "F", "v")
	if len(rest) == 0 {
		_ = p.Fail("usage: awk [-F fs] 'prog' [file ...]")
		return 2
	}
	m := awkProgram.FindStringSubmatch(rest[0])
	if m == nil || strings.TrimSpace(rest[0]) == "" {
		_ = p.Fail("program %q is not simulated", rest[0])
		return 2
	}
	match, err := regexp.Compile(m[1])
	if err != nil {
		_ = p.Fail("%v", err)
		return 2
	}
	return each(p, rest[1:], func(_ string, data []byte) {
		for i, line := range disk.Lines(data) {
			fields := strings.Fields(line)
			if fs := getopt.Last(opts, "F"); fs != "" && fs != " " {
				fields = strings.Split(line, fs)
			}
			field := func(n string) string {
				switch k, _ := strconv.Atoi(n); {
				case n == "NF" && len(fields) > 0:
					return fields[len(fields)-1]
				case k == 0:
					return line
				case k <= len(fields):
					return fields[k-1]
				}
				return ""
			}
			if !match.MatchString(line) || m[2] != "" && m[2] != strconv.Itoa(i+1) || m[3] != "" && field(m[3]) != m[4] {
				continue
			}
			p.Printf("%s\n", awkPrint(m[5], field))
			if m[6] != "" {
				return
			}
		}
	})
}

var awkTerm = regexp.MustCompile(`\$(NF|\d+)|"([^"]*)"|,`)

func awkPrint(what string, field func(string) string) string {
	if what == "" {
		return field("0")
	}
	var b strings.Builder
	for _, t := range awkTerm.FindAllStringSubmatch(what, -1) {
		switch {
		case t[0] == ",":
			b.WriteByte(' ')
		case t[1] != "":
			b.WriteString(field(t[1]))
		default:
			b.WriteString(t[2])
		}
	}
	return b.String()
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

func runXargs(ctx context.Context, p *machine.Proc) int {
	args := p.Args[1:]
	per, skip := 0, false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch {
		case args[0] == "-r" || args[0] == "--no-run-if-empty":
			skip = true
		case args[0] == "-n" && len(args) > 1:
			per, _ = strconv.Atoi(args[1])
			args = args[1:]
		case args[0] != "-0":
			return p.Fail("%s is not simulated", args[0])
		}
		args = args[1:]
	}
	data, _ := io.ReadAll(p.Stdin)
	words := strings.FieldsFunc(string(data), func(r rune) bool { return r == 0 || r == ' ' || r == '\n' || r == '\t' })
	if len(words) == 0 && skip {
		return 0
	}
	if len(args) == 0 {
		args = []string{"echo"}
	}
	if per <= 0 {
		per = max(len(words), 1)
	}
	code := 0
	for {
		n := min(per, len(words))
		if p.Start(ctx, append(args[:len(args):len(args)], words[:n]...)...) != 0 {
			code = 123
		}
		if words = words[n:]; len(words) == 0 {
			return code
		}
	}
}
