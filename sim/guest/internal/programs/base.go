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
	// A real control plane takes its own time, however fast the simulation is.
	const least = 2 * time.Minute
	inner, cancel := context.WithTimeout(ctx, max(p.Sys.Scale(d), min(d, least)))
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
