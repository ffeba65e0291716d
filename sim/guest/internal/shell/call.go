package shell

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// call replaces builtins that the interpreter lacks or answers from the host.
func (s *session) call(ctx context.Context, args []string) ([]string, error) {
	switch args[0] {
	case "cd":
		return s.cd(s.procAt(ctx), args[1:]), nil
	case "test", "[":
		return append([]string{hiddenTest}, args...), nil
	case "type":
		return append([]string{hiddenType, "-V"}, args[1:]...), nil
	case "command":
		if len(args) > 1 && (args[1] == "-v" || args[1] == "-V") {
			return append([]string{hiddenType}, args[1:]...), nil
		}
	case "umask":
		return append([]string{hiddenUmask}, args[1:]...), nil
	case "hash", "ulimit":
		return []string{"true"}, nil
	case "trap":
		if p := s.procAt(ctx); p.Caught != nil && len(args) > 2 && slices.ContainsFunc(args[2:], isPipe) {
			p.Caught.Store(true)
		}
		return trapArgs(args), nil
	case ".", "source":
		p := s.procAt(ctx)
		if len(args) < 2 {
			return []string{hiddenFail, args[0] + ": filename argument required"}, nil
		}
		data, err := p.FS.ReadFile(p.Abs(args[1]))
		if err != nil {
			return []string{hiddenFail, args[1] + ": " + disk.Strerror(err)}, nil
		}
		return []string{"eval", string(data)}, nil
	case "set":
		if s.p.Shell == "sh" && slices.Contains(args, "pipefail") {
			return []string{"eval", `echo "sh: 1: set: Illegal option -o pipefail" >&2; exit 2`}, nil
		}
	}
	return args, nil
}

func (s *session) cd(p *machine.Proc, args []string) []string {
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--" || a == "-P" || a == "-L" })
	to := p.Get("HOME")
	if len(args) > 0 {
		to = args[0]
	}
	if to == "-" {
		to = p.Get("OLDPWD")
	}
	dir := path.Clean(p.Abs(to))
	e, err := p.FS.Stat(dir)
	if err == nil && !e.IsDir() {
		err = errors.New("Not a directory")
	} else if err == nil && !p.FS.May(e, 1) {
		err = fs.ErrPermission
	}
	if err != nil {
		return []string{hiddenFail, "cd: " + to + ": " + disk.Strerror(err)}
	}
	quoted, err := syntax.Quote(dir, s.lang)
	if err != nil {
		return []string{hiddenFail, "cd: " + to + ": " + err.Error()}
	}
	return []string{"eval", "OLDPWD=$PWD PWD=" + quoted}
}

// isPipe reports whether a condition of a trap is SIGPIPE.
func isPipe(cond string) bool { return strings.TrimPrefix(cond, "SIG") == "PIPE" }

// trapArgs leaves of a trap those conditions that the interpreter knows; no other signal
// than PIPE ([pipeTo]) comes to a shell here that is not its end.
func trapArgs(args []string) []string {
	if len(args) < 3 {
		return args
	}
	out := slices.Clone(args[:2])
	for _, cond := range args[2:] {
		switch strings.TrimPrefix(cond, "SIG") {
		case "0", "EXIT":
			out = append(out, "EXIT")
		case "ERR":
			out = append(out, "ERR")
		}
	}
	if len(out) == 2 {
		return []string{"true"}
	}
	return out
}
