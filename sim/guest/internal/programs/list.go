package programs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

func runLs(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:])
	if len(names) == 0 {
		names = []string{"."}
	}
	code := 0
	for _, name := range names {
		e, err := p.FS.Stat(p.Abs(name))
		if err != nil || getopt.Has(opts, "l") && !getopt.Has(opts, "L") {
			if l, errL := p.FS.Lstat(p.Abs(name)); errL == nil && (err != nil || !e.IsDir()) {
				e, err = l, nil
			}
		}
		if err != nil {
			_ = p.Fail("cannot access '%s': %s", name, disk.Strerror(err))
			code = 2
			continue
		}
		entries := []disk.Entry{e.As(name)}
		if e.IsDir() && !getopt.Has(opts, "d") {
			if entries, err = p.FS.ReadDir(p.Abs(name)); err != nil {
				_ = p.Fail("cannot open directory '%s': %s", name, disk.Strerror(err))
				code = 2
				continue
			}
			if len(names) > 1 {
				p.Printf("%s:\n", name)
			}
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") && !getopt.Has(opts, "a", "A") && e.Name() != name {
				continue
			}
			list(p, e, getopt.Has(opts, "l"))
		}
	}
	return code
}

func list(p *machine.Proc, e disk.Entry, long bool) {
	if !long {
		p.Printf("%s\n", e.Name())
		return
	}
	suffix := ""
	if e.Mode()&fs.ModeSymlink != 0 {
		suffix = " -> " + e.Target()
	}
	p.Printf("%s 1 %s %s %d %s %s%s\n", modeString(e.Mode()), disk.NameOf(p.FS, "/etc/passwd", e.UID()),
		disk.NameOf(p.FS, "/etc/group", e.GID()), e.Size(), e.ModTime().UTC().Format("Jan _2 15:04"), e.Name(), suffix)
}

// modeString prints a mode as ls does.
func modeString(m fs.FileMode) string {
	kind := "-"
	switch {
	case m.IsDir():
		kind = "d"
	case m&fs.ModeSymlink != 0:
		kind = "l"
	case m&fs.ModeCharDevice != 0:
		kind = "c"
	case m&fs.ModeDevice != 0:
		kind = "b"
	}
	return kind + m.Perm().String()[1:]
}

func octal(m fs.FileMode) string {
	n := uint32(m.Perm())
	for flag, bit := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&flag != 0 {
			n |= bit
		}
	}
	return strconv.FormatUint(uint64(n), 8)
}

func kindOf(e disk.Entry) string {
	switch m := e.Mode(); {
	case m.IsDir():
		return "directory"
	case m&fs.ModeSymlink != 0:
		return "symbolic link"
	case m&fs.ModeCharDevice != 0:
		return "character special file"
	case m&fs.ModeDevice != 0:
		return "block special file"
	case e.Size() == 0:
		return "regular empty file"
	}
	return "regular file"
}

func runStat(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:], "c", "format", "printf")
	format := getopt.Last(opts, "c", "format")
	if format != "" {
		format += "\n"
	} else if format = strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(getopt.Last(opts, "printf")); format == "" {
		format = "  File: %n\n  Size: %s\t%F\nAccess: (0%a/%A)  Uid: (%u/%U)   Gid: (%g/%G)\n"
	}
	code := 0
	for _, name := range names {
		look := p.FS.Lstat
		if getopt.Has(opts, "L", "dereference") {
			look = p.FS.Stat
		}
		e, err := look(p.Abs(name))
		if err != nil {
			code = p.Fail("cannot statx '%s': %s", name, disk.Strerror(err))
			continue
		}
		p.Printf("%s", strings.NewReplacer(
			"%%", "%", "%n", name, "%s", strconv.FormatInt(e.Size(), 10), "%a", octal(e.Mode()), "%A", modeString(e.Mode()),
			"%u", strconv.Itoa(e.UID()), "%U", disk.NameOf(p.FS, "/etc/passwd", e.UID()), "%F", kindOf(e),
			"%g", strconv.Itoa(e.GID()), "%G", disk.NameOf(p.FS, "/etc/group", e.GID()),
			"%.6Y", fmt.Sprintf("%d.%06d", e.ModTime().Unix(), e.ModTime().Nanosecond()/1000), "%Y", strconv.FormatInt(e.ModTime().Unix(), 10)).Replace(format))
	}
	return code
}

func runReadlink(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:])
	code := 0
	for _, name := range names {
		if !getopt.Has(opts, "f", "e", "m") {
			e, err := p.FS.Lstat(p.Abs(name))
			if err != nil || e.Mode()&fs.ModeSymlink == 0 {
				code = 1
				continue
			}
			p.Printf("%s\n", e.Target())
			continue
		}
		full, err := p.FS.Resolve(p.Abs(name), true)
		if err == nil && getopt.Has(opts, "e") {
			_, err = p.FS.Stat(full)
		}
		if err != nil {
			code = p.Fail("%s: %s", name, disk.Strerror(err))
			continue
		}
		p.Printf("%s\n", full)
	}
	return code
}

// runFind is find FOLDER ! -type d.
func runFind(_ context.Context, p *machine.Proc) int {
	if len(p.Args) < 2 || strings.Join(p.Args[2:], " ") != "! -type d" {
		return p.Fail("only 'find FOLDER ! -type d' is simulated")
	}
	var found func(name string) error
	found = func(name string) error {
		e, err := p.FS.Lstat(p.Abs(name))
		if err != nil || !e.IsDir() {
			if err == nil {
				p.Printf("%s\n", name)
			}
			return err
		}
		kids, err := p.FS.ReadDir(p.Abs(name))
		for _, kid := range kids {
			err = errors.Join(err, found(strings.TrimSuffix(name, "/")+"/"+kid.Name()))
		}
		return err
	}
	if err := found(p.Args[1]); err != nil {
		return p.Fail("'%s': %s", p.Args[1], disk.Strerror(err))
	}
	return 0
}
