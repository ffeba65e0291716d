package programs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// sudoCall is a command line of sudo.
type sudoCall struct {
	target           string
	ask, stdin, keep bool
	prompt           string
	vars, args       []string
}

// runSudo runs a command as root (or -u somebody), for those whom sudoers lets.
func runSudo(ctx context.Context, p *machine.Proc) int {
	c := sudoCall{target: "root", ask: true, prompt: "[sudo] password for " + p.User.Name + ": "}
	if bad := c.parse(p.Args[1:]); bad != "" {
		return p.Fail("option %s is not simulated", bad)
	}
	u := disk.FindUser(p.FS, c.target)
	if u == nil {
		return p.Fail("unknown user %s", c.target)
	}
	child := *p
	env := []string{"PATH=" + machine.SearchPath, "HOME=" + u.Home, "USER=" + u.Name, "LOGNAME=" + u.Name, "SHELL=" + u.Shell,
		"LANG=" + p.Get("LANG"), "SUDO_USER=" + p.User.Name, "SUDO_UID=" + strconv.Itoa(p.User.UID)}
	if c.keep {
		env = append(p.Environ(), env...)
	}
	child.Env = expand.ListEnviron(append(env, c.vars...)...)
	var program string
	var missing error
	if len(c.args) > 0 {
		program, missing = child.Find(c.args[0])
	}
	rules := disk.SudoFor(p.FS, p.User, program)
	switch {
	case rules.TTY:
		return p.Fail("sorry, you must have a tty to run sudo")
	case !rules.Free && !c.authenticate(p):
		return 1
	case !rules.May:
		fmt.Fprintf(p.Stderr, "%s is not in the sudoers file.\n", p.User.Name)
		return 1
	case len(c.args) == 0:
		return 0
	case missing != nil:
		return p.Fail("%s: command not found", c.args[0]) // sudo's own answer, not the shell's 127
	}
	files := *p.FS
	files.User, files.Umask = u, 0o022
	child.FS, child.User, child.Args = &files, u, c.args
	return child.Start(ctx, c.args...)
}

func (c *sudoCall) parse(args []string) (bad string) {
	for ; len(args) > 0; args = args[1:] {
		switch a := args[0]; {
		case a == "-n":
			c.ask = false
		case a == "-u" && len(args) > 1:
			c.target, args = args[1], args[1:]
		case a == "-p" && len(args) > 1:
			c.prompt, args = args[1], args[1:]
		case a == "-E":
			c.keep = true
		case a == "-S":
			c.stdin = true
		case a == "-H" || a == "-i" || a == "-k": // no password is remembered here
		case a == "--":
			c.args = args[1:]
			return ""
		case strings.HasPrefix(a, "-"):
			return a
		case strings.Contains(a, "=") && !strings.HasPrefix(a, "/"):
			c.vars = append(c.vars, a)
		default:
			c.args = args
			return ""
		}
	}
	return ""
}

// authenticate asks for the user's password, as sudo 1.9 does: byte by byte, and three times.
func (c *sudoCall) authenticate(p *machine.Proc) bool {
	switch {
	case !c.ask:
		p.Fail("a password is required")
		return false
	case !c.stdin:
		p.Fail("a terminal is required to read the password; either use the -S option to read from standard input or configure an askpass helper")
		return false
	}
	for wrong := 0; ; {
		fmt.Fprint(p.Stderr, c.prompt)
		line, err := readLine(p.Stdin)
		switch {
		case err == nil && disk.HasPassword(p.FS, p.User.Name, line):
			return true
		case err == nil:
			wrong++
		default:
			fmt.Fprint(p.Stderr, "\n")
			p.Fail("no password was provided")
		}
		switch {
		case err == nil && wrong < 3:
			fmt.Fprintln(p.Stderr, "Sorry, try again.")
			continue
		case wrong == 0:
			p.Fail("a password is required")
		case wrong == 1:
			p.Fail("1 incorrect password attempt")
		default:
			p.Fail("%d incorrect password attempts", wrong)
		}
		return false
	}
}

func readLine(r io.Reader) ([]byte, error) {
	if r == nil {
		return nil, io.EOF
	}
	var line bytes.Buffer
	for b := []byte{0}; ; line.Write(b) {
		if _, err := io.ReadFull(r, b); err != nil || b[0] == '\n' {
			return line.Bytes(), err
		}
	}
}
