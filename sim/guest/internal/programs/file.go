package programs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// each reads every named file, or standard input for none and for "-".
func each(p *machine.Proc, names []string, f func(name string, data []byte)) int {
	if len(names) == 0 {
		names = []string{"-"}
	}
	code := 0
	for _, name := range names {
		data, err := input(p, name)
		if err != nil {
			code = p.Fail("%s: %s", name, disk.Strerror(err))
			continue
		}
		f(name, data)
	}
	return code
}

func input(p *machine.Proc, name string) ([]byte, error) {
	if name == "-" || name == "/dev/stdin" {
		return io.ReadAll(p.Stdin)
	}
	return p.FS.ReadFile(p.Abs(name))
}

func runCat(_ context.Context, p *machine.Proc) int {
	_, names := getopt.Parse(p.Args[1:])
	return each(p, names, func(_ string, data []byte) { _, _ = p.Stdout.Write(data) })
}

func runTee(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:])
	data, err := io.ReadAll(p.Stdin)
	if err != nil {
		return p.Fail("%v", err)
	}
	code := 0
	for _, name := range names {
		at, err := p.FS.Open(p.Abs(name), 0o666, !getopt.Has(opts, "a", "append"))
		if err == nil {
			err = p.FS.Append(at, data)
		}
		if err != nil {
			code = p.Fail("%s: %s", name, disk.Strerror(err))
		}
	}
	_, _ = p.Stdout.Write(data)
	return code
}

// into returns where a file goes: to itself, or below it when it is a directory.
func into(p *machine.Proc, to, from string) string {
	if e, err := p.FS.Stat(p.Abs(to)); err == nil && e.IsDir() {
		return path.Join(p.Abs(to), path.Base(from))
	}
	return p.Abs(to)
}

func runCp(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:], "t", "target-directory")
	if dir := getopt.Last(opts, "t", "target-directory"); dir != "" {
		names = append(names, dir)
	}
	if len(names) < 2 {
		return p.Fail("missing destination file operand")
	}
	code := 0
	to := names[len(names)-1]
	for _, from := range names[:len(names)-1] {
		dest := into(p, to, from)
		if getopt.Has(opts, "T") {
			dest = p.Abs(to)
		}
		recursive, keep := getopt.Has(opts, "r", "R", "a", "recursive", "archive"), getopt.Has(opts, "p", "a", "archive", "preserve")
		if getopt.Has(opts, "n", "no-clobber") {
			if _, err := p.FS.Lstat(dest); err == nil {
				continue
			}
		}
		if err := copyTree(p, p.Abs(from), dest, recursive, keep); err != nil {
			code = p.Fail("cannot copy '%s': %s", from, disk.Strerror(err))
		}
	}
	return code
}

func copyTree(p *machine.Proc, from, to string, recursive, keep bool) error {
	look := p.FS.Stat
	if recursive {
		look = p.FS.Lstat
	}
	e, err := look(from)
	if err != nil {
		return err
	}
	switch {
	case e.Mode()&fs.ModeSymlink != 0:
		_ = p.FS.Remove(to)
		return p.FS.Symlink(e.Target(), to)
	case e.IsDir() && !recursive:
		return errors.New("-r not specified; omitting directory")
	case e.IsDir():
		if err := p.FS.MkdirAll(to, e.Mode()); err != nil {
			return err
		}
		entries, err := p.FS.ReadDir(from)
		for _, kid := range entries {
			err = errors.Join(err, copyTree(p, path.Join(from, kid.Name()), path.Join(to, kid.Name()), true, keep))
		}
		return err
	}
	data, err := p.FS.ReadFile(from)
	if err != nil {
		return err
	}
	if err := p.FS.WriteFile(to, data, e.Mode()); err != nil {
		return err
	}
	if !keep {
		return nil
	}
	return errors.Join(p.FS.Chmod(to, e.Mode().Perm()), p.FS.Chown(to, e.UID(), e.GID()))
}

func runMv(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:], "t")
	if dir := getopt.Last(opts, "t"); dir != "" {
		names = append(names, dir)
	}
	if len(names) < 2 {
		return p.Fail("missing destination file operand")
	}
	code := 0
	for _, from := range names[:len(names)-1] {
		dest := into(p, names[len(names)-1], from)
		if getopt.Has(opts, "T") {
			dest = p.Abs(names[len(names)-1])
		}
		if err := p.FS.Rename(p.Abs(from), dest); err != nil {
			code = p.Fail("cannot move '%s' to '%s': %s", from, names[len(names)-1], disk.Strerror(err))
		}
	}
	return code
}

func runRm(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:])
	recursive, force := getopt.Has(opts, "r", "R", "recursive"), getopt.Has(opts, "f", "force")
	code := 0
	for _, name := range names {
		e, err := p.FS.Lstat(p.Abs(name))
		switch {
		case errors.Is(err, fs.ErrNotExist) && force:
			continue
		case err == nil && e.IsDir() && !recursive && !getopt.Has(opts, "d"):
			err = errors.New("Is a directory")
		case err == nil && recursive:
			err = p.FS.RemoveTree(p.Abs(name))
		case err == nil:
			err = p.FS.Remove(p.Abs(name))
		}
		if err != nil {
			code = p.Fail("cannot remove '%s': %s", name, disk.Strerror(err))
		}
	}
	return code
}

func runMkdir(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:], "m", "mode")
	code := 0
	for _, name := range names {
		make := p.FS.Mkdir
		if getopt.Has(opts, "p", "parents") {
			make = p.FS.MkdirAll
		}
		_, before := p.FS.Stat(p.Abs(name))
		err := make(p.Abs(name), 0o777)
		if mode := getopt.Last(opts, "m", "mode"); mode != "" && err == nil && before != nil {
			err = setMode(p, mode, p.Abs(name))
		}
		if err != nil {
			code = p.Fail("cannot create directory '%s': %s", name, disk.Strerror(err))
		}
	}
	return code
}

func runRmdir(_ context.Context, p *machine.Proc) int {
	_, names := getopt.Parse(p.Args[1:])
	code := 0
	for _, name := range names {
		e, err := p.FS.Lstat(p.Abs(name))
		if err == nil && !e.IsDir() {
			err = errors.New("Not a directory")
		}
		if err == nil {
			err = p.FS.Remove(p.Abs(name))
		}
		if err != nil {
			code = p.Fail("failed to remove '%s': %s", name, disk.Strerror(err))
		}
	}
	return code
}

func runLn(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:])
	if len(names) == 0 {
		return p.Fail("missing file operand")
	}
	target, name := names[0], path.Base(names[0])
	if len(names) > 1 {
		name = names[1]
		if !getopt.Has(opts, "n", "T", "no-dereference") {
			name = into(p, name, target)
		}
	}
	if getopt.Has(opts, "f", "force") {
		if e, err := p.FS.Lstat(p.Abs(name)); err == nil && e.Mode()&fs.ModeSymlink != 0 && e.Target() == target {
			return 0
		}
		_ = p.FS.Remove(p.Abs(name))
	}
	var err error
	if getopt.Has(opts, "s", "symbolic") {
		err = p.FS.Symlink(target, p.Abs(name))
	} else {
		err = copyTree(p, p.Abs(target), p.Abs(name), false, true) // hard links are copies here
	}
	if err != nil {
		return p.Fail("failed to create link '%s': %s", name, disk.Strerror(err))
	}
	return 0
}

// setMode sets a mode in octal, or as u+x and the like.
func setMode(p *machine.Proc, mode, name string) error {
	if n, err := strconv.ParseUint(mode, 8, 12); err == nil {
		return p.FS.Chmod(name, disk.UnixMode(n))
	}
	e, err := p.FS.Stat(name)
	if err != nil {
		return err
	}
	perm := e.Mode() & (fs.ModePerm | fs.ModeSticky | fs.ModeSetuid | fs.ModeSetgid)
	for clause := range strings.SplitSeq(mode, ",") {
		i := strings.IndexAny(clause, "+-=")
		if i < 0 {
			return errors.New("invalid mode: '" + mode + "'")
		}
		var bits, mask fs.FileMode
		for _, c := range clause[i+1:] {
			bits |= map[rune]fs.FileMode{'r': 0o444, 'w': 0o222, 'x': 0o111, 'X': 0o111}[c]
		}
		for _, c := range clause[:i] {
			mask |= map[rune]fs.FileMode{'u': 0o700, 'g': 0o070, 'o': 0o007, 'a': 0o777}[c]
		}
		if i == 0 {
			mask = 0o777
		}
		switch clause[i] {
		case '+':
			perm |= bits & mask
		case '-':
			perm &^= bits & mask
		default:
			perm = perm&^mask | bits&mask
		}
	}
	return p.FS.Chmod(name, perm)
}

// walk calls f for a file and, when recursive, for all below it.
func walk(p *machine.Proc, name string, recursive bool, f func(name string) error) error {
	if err := f(name); err != nil {
		return err
	}
	e, err := p.FS.Lstat(name)
	if err != nil || !recursive || !e.IsDir() {
		return err
	}
	kids, err := p.FS.ReadDir(name)
	for _, kid := range kids {
		err = errors.Join(err, walk(p, path.Join(name, kid.Name()), true, f))
	}
	return err
}

func runChmod(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:], "reference")
	if len(names) < 2 {
		return p.Fail("missing operand")
	}
	code := 0
	for _, name := range names[1:] {
		set := func(n string) error { return setMode(p, names[0], n) }
		if err := walk(p, p.Abs(name), getopt.Has(opts, "R"), set); err != nil {
			code = p.Fail("cannot access '%s': %s", name, disk.Strerror(err))
		}
	}
	return code
}

func runChown(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:])
	if len(names) < 2 {
		return p.Fail("missing operand")
	}
	spec := names[0]
	if p.Name() == "chgrp" {
		spec = ":" + spec
	}
	uid, gid, err := disk.OwnerOf(p.FS, spec)
	if err != nil {
		return p.Fail("%v", err)
	}
	code := 0
	for _, name := range names[1:] {
		set := func(n string) error { return p.FS.Chown(n, uid, gid) }
		if err := walk(p, p.Abs(name), getopt.Has(opts, "R"), set); err != nil {
			code = p.Fail("changing ownership of '%s': %s", name, disk.Strerror(err))
		}
	}
	return code
}
