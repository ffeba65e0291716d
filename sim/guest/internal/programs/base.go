package programs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/expand"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

func runEnv(ctx context.Context, p *machine.Proc) int {
	args := p.Args[1:]
	vars := p.Environ()
	for ; len(args) > 0; args = args[1:] {
		switch a := args[0]; {
		case a == "--":
		case strings.Contains(a, "="):
			vars = append(vars, a)
		default:
			child := *p
			child.Env = expand.ListEnviron(vars...)
			return child.Start(ctx, args...)
		}
	}
	for _, v := range vars {
		p.Printf("%s\n", v)
	}
	return 0
}

// runSudo runs a command as root (or -u somebody), for those whom sudoers lets.
func runSudo(ctx context.Context, p *machine.Proc) int {
	args := p.Args[1:]
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
			return p.Fail("option %s is not simulated", a)
		case strings.Contains(a, "=") && !strings.HasPrefix(a, "/"):
			vars = append(vars, a)
		default:
			break loop
		}
	}
	may, free := disk.MaySudo(p.FS, p.User)
	switch {
	case may && free:
	case !ask:
		return p.Fail("a password is required")
	default:
		return p.Fail("a terminal is required to read the password; either use the -S option to read from standard input or configure an askpass helper")
	}
	u := disk.FindUser(p.FS, target)
	if u == nil {
		return p.Fail("unknown user %s", target)
	}
	if len(args) == 0 {
		return 0
	}
	child := *p
	files := *p.FS
	files.User, files.Umask = u, 0o022
	child.FS, child.User = &files, u
	env := []string{"PATH=" + machine.SearchPath, "HOME=" + u.Home, "USER=" + u.Name, "LOGNAME=" + u.Name, "SHELL=" + u.Shell,
		"LANG=" + p.Get("LANG"), "SUDO_USER=" + p.User.Name, "SUDO_UID=" + strconv.Itoa(p.User.UID)}
	if keep {
		env = append(p.Environ(), env...)
	}
	child.Env = expand.ListEnviron(append(env, vars...)...)
	child.Args = args
	if _, err := child.Find(args[0]); err != nil {
		fmt.Fprintf(p.Stderr, "sudo: %s: command not found\n", args[0])
		return 1 // sudo's own answer, not the shell's 127
	}
	return child.Start(ctx, args...)
}

func runSleep(ctx context.Context, p *machine.Proc) int {
	if len(p.Args) < 2 {
		return p.Fail("missing operand")
	}
	var total time.Duration
	for _, a := range p.Args[1:] {
		d, err := machine.Seconds(a)
		if err != nil {
			return p.Fail("invalid time interval '%s'", a)
		}
		total += d
	}
	if err := p.Wait(ctx, total); err != nil && ctx.Err() == nil {
		return p.Fail("%v", err)
	}
	return 0
}

func runTimeout(ctx context.Context, p *machine.Proc) int {
	opts, rest := getopt.Parse(p.Args[1:min(2, len(p.Args))], "k", "s")
	rest = append(rest, p.Args[min(2, len(p.Args)):]...)
	if len(opts) > 0 || len(rest) < 2 {
		_ = p.Fail("only 'timeout DURATION COMMAND' is simulated")
		return 125
	}
	d, err := machine.Seconds(rest[0])
	if err != nil {
		_ = p.Fail("invalid time interval '%s'", rest[0])
		return 125
	}
	inner, cancel := context.WithTimeout(ctx, p.Sys.Scale(d))
	defer cancel()
	code := p.Start(inner, rest[1:]...)
	if inner.Err() != nil && ctx.Err() == nil {
		return 124
	}
	return code
}

func runDate(_ context.Context, p *machine.Proc) int {
	opts, rest := getopt.Parse(p.Args[1:], "d", "date")
	now := time.Now().UTC()
	if p.Sys.Faulty(func(f machine.Faults) bool { return f.ClockAhead }) {
		now = now.Add(10 * time.Minute)
	}
	format := "%a %b %e %H:%M:%S UTC %Y"
	if len(rest) > 0 && strings.HasPrefix(rest[0], "+") {
		format = rest[0][1:]
	} else if getopt.Has(opts, "I") || getopt.Has(opts, "Iseconds", "iso-8601") {
		format = "%Y-%m-%dT%H:%M:%S+00:00"
	}
	p.Printf("%s\n", strings.NewReplacer("%s", strconv.FormatInt(now.Unix(), 10), "%N", fmt.Sprintf("%09d", now.Nanosecond()),
		"%Y", now.Format("2006"), "%m", now.Format("01"), "%d", now.Format("02"), "%H", now.Format("15"), "%M", now.Format("04"),
		"%S", now.Format("05"), "%F", now.Format("2006-01-02"), "%T", now.Format("15:04:05"), "%a", now.Format("Mon"),
		"%b", now.Format("Jan"), "%e", now.Format("_2"), "%Z", "UTC", "%z", "+0000", "%%", "%").Replace(format))
	return 0
}

func runGetent(_ context.Context, p *machine.Proc) int {
	_, args := getopt.Parse(p.Args[1:])
	if len(args) == 0 || !slices.Contains([]string{"passwd", "group", "shadow"}, args[0]) {
		_ = p.Fail("Unknown database")
		return 1
	}
	found := 2
	for _, f := range disk.Records(p.FS, "/etc/"+args[0]) {
		if len(args) == 1 || f[0] == args[1] || len(f) > 2 && f[2] == args[1] {
			p.Printf("%s\n", strings.Join(f, ":"))
			found = 0
		}
	}
	return found
}
