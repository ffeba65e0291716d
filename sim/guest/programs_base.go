package guest

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// runBuiltin is for programs that are shell builtins too, when they are started
// without a shell.
func runBuiltin(ctx context.Context, p *proc) int {
	text := make([]string, len(p.args))
	text[0] = p.name()
	for i, a := range p.args[1:] {
		quoted, err := syntax.Quote(a, syntax.LangBash)
		if err != nil {
			return p.fail("%v", err)
		}
		text[i+1] = quoted
	}
	child := *p
	child.shell = "bash"
	return child.interpret(ctx, p.name(), strings.Join(text, " "), nil)
}

// runType is type and command -v.
func runType(p *proc) int {
	verbose := p.args[1] == "-V"
	code := 0
	for _, name := range p.args[2:] {
		what, err := name, error(nil)
		if !interp.IsBuiltin(name) {
			what, err = p.find(name)
		}
		switch {
		case err != nil && verbose:
			fmt.Fprintf(p.stderr, "%s: line 1: type: %s: not found\n", p.shell, name)
			code = 1
		case err != nil:
			code = 1
		case !verbose:
			p.printf("%s\n", what)
		case what == name:
			p.printf("%s is a shell builtin\n", name)
		default:
			p.printf("%s is %s\n", name, what)
		}
	}
	return code
}

func runUmask(shell, p *proc) int {
	if len(p.args) < 2 {
		p.printf("%04o\n", uint32(shell.fs.Umask))
		return 0
	}
	n, err := strconv.ParseUint(p.args[1], 8, 12)
	if err != nil {
		fmt.Fprintf(p.stderr, "%s: umask: Illegal mode: %s\n", p.shell, p.args[1])
		return 2
	}
	shell.fs.Umask = disk.UnixMode(n)
	return 0
}

func runEnv(ctx context.Context, p *proc) int {
	args := p.args[1:]
	if p.name() == "printenv" {
		for _, name := range args {
			if v := p.env.Get(name); v.IsSet() && v.Exported {
				p.printf("%s\n", v.String())
			} else {
				return 1
			}
		}
		if len(args) > 0 {
			return 0
		}
	}
	vars := p.exported()
	for ; len(args) > 0; args = args[1:] {
		switch a := args[0]; {
		case a == "-i" || a == "-":
			vars = nil
		case a == "-u" && len(args) > 1:
			args = args[1:]
			vars = slices.DeleteFunc(vars, func(v string) bool { return strings.HasPrefix(v, args[0]+"=") })
		case a == "--":
		case strings.Contains(a, "="):
			vars = append(vars, a)
		default:
			child := *p
			child.env = expand.ListEnviron(vars...)
			return child.start(ctx, args...)
		}
	}
	for _, v := range vars {
		p.printf("%s\n", v)
	}
	return 0
}

// runSudo runs a command as root (or -u somebody), for those whom sudoers lets.
func runSudo(ctx context.Context, p *proc) int {
	args := p.args[1:]
	target, ask, keep := "root", true, false
	var vars []string
loop:
	for ; len(args) > 0; args = args[1:] {
		switch a := args[0]; {
		case a == "-n":
			ask = false
		case a == "-u" && len(args) > 1:
			target, args = args[1], args[1:]
		case a == "-E":
			keep = true
		case a == "-H" || a == "-i" || a == "-S":
		case a == "--":
			args = args[1:]
			break loop
		case strings.HasPrefix(a, "-"):
			return p.fail("option %s is not simulated", a)
		case strings.Contains(a, "=") && !strings.HasPrefix(a, "/"):
			vars = append(vars, a)
		default:
			break loop
		}
	}
	may, free := disk.MaySudo(p.fs, p.user)
	switch {
	case may && free:
	case !ask:
		return p.fail("a password is required")
	default:
		return p.fail("a terminal is required to read the password; either use the -S option to read from standard input or configure an askpass helper")
	}
	u := disk.FindUser(p.fs, target)
	if u == nil {
		return p.fail("unknown user %s", target)
	}
	if len(args) == 0 {
		return 0
	}
	child := *p
	files := *p.fs
	files.User, files.Umask = u, 0o022
	child.fs, child.user = &files, u
	env := []string{"PATH=" + searchPath, "HOME=" + u.Home, "USER=" + u.Name, "LOGNAME=" + u.Name, "SHELL=" + u.Shell,
		"LANG=" + p.get("LANG"), "SUDO_USER=" + p.user.Name, "SUDO_UID=" + strconv.Itoa(p.user.UID)}
	if keep {
		env = append(p.exported(), env...)
	}
	child.env = expand.ListEnviron(append(env, vars...)...)
	child.args = args
	if _, err := child.find(args[0]); err != nil {
		fmt.Fprintf(p.stderr, "sudo: %s: command not found\n", args[0])
		return 1 // sudo's own answer, not the shell's 127
	}
	return child.start(ctx, args...)
}

func runSleep(ctx context.Context, p *proc) int {
	if len(p.args) < 2 {
		return p.fail("missing operand")
	}
	var total time.Duration
	for _, a := range p.args[1:] {
		d, err := seconds(a)
		if err != nil {
			return p.fail("invalid time interval '%s'", a)
		}
		total += d
	}
	if err := p.wait(ctx, total); err != nil && ctx.Err() == nil {
		return p.fail("%v", err)
	}
	return 0
}

func runTimeout(ctx context.Context, p *proc) int {
	opts, rest := flags(p.args[1:min(2, len(p.args))], "k", "s")
	rest = append(rest, p.args[min(2, len(p.args)):]...)
	if len(opts) > 0 || len(rest) < 2 {
		_ = p.fail("only 'timeout DURATION COMMAND' is simulated")
		return 125
	}
	d, err := seconds(rest[0])
	if err != nil {
		_ = p.fail("invalid time interval '%s'", rest[0])
		return 125
	}
	inner, cancel := context.WithTimeout(ctx, p.sys.scale(d))
	defer cancel()
	code := p.start(inner, rest[1:]...)
	if inner.Err() != nil && ctx.Err() == nil {
		return 124
	}
	return code
}

func runDate(_ context.Context, p *proc) int {
	opts, rest := flags(p.args[1:], "d", "date")
	now := time.Now().UTC()
	format := "%a %b %e %H:%M:%S UTC %Y"
	if len(rest) > 0 && strings.HasPrefix(rest[0], "+") {
		format = rest[0][1:]
	} else if has(opts, "I") || has(opts, "Iseconds", "iso-8601") {
		format = "%Y-%m-%dT%H:%M:%S+00:00"
	}
	p.printf("%s\n", strings.NewReplacer("%s", strconv.FormatInt(now.Unix(), 10), "%N", fmt.Sprintf("%09d", now.Nanosecond()),
		"%Y", now.Format("2006"), "%m", now.Format("01"), "%d", now.Format("02"), "%H", now.Format("15"), "%M", now.Format("04"),
		"%S", now.Format("05"), "%F", now.Format("2006-01-02"), "%T", now.Format("15:04:05"), "%a", now.Format("Mon"),
		"%b", now.Format("Jan"), "%e", now.Format("_2"), "%Z", "UTC", "%z", "+0000", "%%", "%").Replace(format))
	return 0
}

func runID(_ context.Context, p *proc) int {
	opts, rest := flags(p.args[1:])
	u := p.user
	if len(rest) > 0 {
		if u = disk.FindUser(p.fs, rest[0]); u == nil {
			return p.fail("'%s': no such user", rest[0])
		}
	}
	group := func(id int) string { return disk.NameOf(p.fs, "/etc/group", id) }
	switch {
	case p.name() == "whoami", has(opts, "u") && has(opts, "n"):
		p.printf("%s\n", u.Name)
	case has(opts, "u"):
		p.printf("%d\n", u.UID)
	case has(opts, "g") && has(opts, "n"):
		p.printf("%s\n", group(u.GID))
	case has(opts, "g"):
		p.printf("%d\n", u.GID)
	default:
		names := []string{group(u.GID)}
		text := []string{fmt.Sprintf("%d(%s)", u.GID, group(u.GID))}
		for _, g := range u.GIDs {
			names = append(names, group(g))
			text = append(text, fmt.Sprintf("%d(%s)", g, group(g)))
		}
		if has(opts, "G") {
			p.printf("%s\n", strings.Join(names, " "))
			return 0
		}
		p.printf("uid=%d(%s) gid=%s groups=%s\n", u.UID, u.Name, text[0], strings.Join(text, ","))
	}
	return 0
}

func runGetent(_ context.Context, p *proc) int {
	_, args := flags(p.args[1:])
	if len(args) == 0 || !slices.Contains([]string{"passwd", "group", "hosts", "shadow"}, args[0]) {
		_ = p.fail("Unknown database")
		return 1
	}
	if args[0] == "hosts" {
		data, _ := p.fs.ReadFile("/etc/hosts")
		for _, line := range disk.Lines(data) {
			if f := strings.Fields(line); len(args) > 1 && len(f) > 1 && slices.Contains(f[1:], args[1]) {
				p.printf("%-15s %s\n", f[0], strings.Join(f[1:], " "))
				return 0
			}
		}
		return 2
	}
	found := 2
	for _, f := range disk.Records(p.fs, "/etc/"+args[0]) {
		if len(args) == 1 || f[0] == args[1] || len(f) > 2 && f[2] == args[1] {
			p.printf("%s\n", strings.Join(f, ":"))
			found = 0
		}
	}
	return found
}

func runUseradd(_ context.Context, p *proc) int {
	opts, args := flags(p.args[1:], "d", "s", "u", "g", "G", "c", "p", "home-dir", "shell", "uid", "groups", "password")
	if len(args) != 1 {
		_ = p.fail("one user name is needed")
		return 2
	}
	name := args[0]
	old := disk.FindUser(p.fs, name)
	if p.name() == "useradd" {
		if old != nil {
			_ = p.fail("user '%s' already exists", name)
			return 9
		}
		uid, _ := strconv.Atoi(last(opts, "u", "uid"))
		u := &disk.User{Name: name, UID: uid, Home: last(opts, "d", "home-dir"), Shell: last(opts, "s", "shell")}
		if err := disk.AddUser(p.fs, u, last(opts, "c")); err != nil {
			return p.fail("%s", disk.Strerror(err))
		}
	} else if old == nil {
		_ = p.fail("user '%s' does not exist", name)
		return 6
	}
	for group := range strings.SplitSeq(last(opts, "G", "groups"), ",") {
		if group == "" {
			continue
		}
		if err := disk.JoinGroup(p.fs, path.Base(group), name); err != nil {
			return p.fail("%s", disk.Strerror(err))
		}
	}
	if hash := last(opts, "p", "password"); hash != "" {
		if err := disk.SetPassword(p.fs, name, hash); err != nil {
			return p.fail("%s", disk.Strerror(err))
		}
	}
	return 0
}
