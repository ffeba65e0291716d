package guest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// each reads every named file, or standard input for none and for "-".
func (p *proc) each(names []string, f func(name string, data []byte)) int {
	if len(names) == 0 {
		names = []string{"-"}
	}
	code := 0
	for _, name := range names {
		data, err := p.input(name)
		if err != nil {
			code = p.fail("%s: %s", name, disk.Strerror(err))
			continue
		}
		f(name, data)
	}
	return code
}

func (p *proc) input(name string) ([]byte, error) {
	if name == "-" || name == "/dev/stdin" {
		return io.ReadAll(p.stdin)
	}
	return p.fs.ReadFile(p.abs(name))
}

func runCat(_ context.Context, p *proc) int {
	_, names := flags(p.args[1:])
	return p.each(names, func(_ string, data []byte) { _, _ = p.stdout.Write(data) })
}

func runTee(_ context.Context, p *proc) int {
	opts, names := flags(p.args[1:])
	data, err := io.ReadAll(p.stdin)
	if err != nil {
		return p.fail("%v", err)
	}
	code := 0
	for _, name := range names {
		at, err := p.fs.Open(p.abs(name), 0o666, !has(opts, "a", "append"))
		if err == nil {
			err = p.fs.Append(at, data)
		}
		if err != nil {
			code = p.fail("%s: %s", name, disk.Strerror(err))
		}
	}
	_, _ = p.stdout.Write(data)
	return code
}

func runDD(_ context.Context, p *proc) int {
	from, to := "-", ""
	for _, a := range p.args[1:] {
		switch key, value, _ := strings.Cut(a, "="); key {
		case "if":
			from = value
		case "of":
			to = value
		}
	}
	data, err := p.input(from)
	if err != nil {
		return p.fail("failed to open '%s': %s", from, disk.Strerror(err))
	}
	if to == "" {
		_, _ = p.stdout.Write(data)
		return 0
	}
	if err := p.fs.WriteFile(p.abs(to), data, 0o666); err != nil {
		return p.fail("failed to open '%s': %s", to, disk.Strerror(err))
	}
	return 0
}

// into returns where a file goes: to itself, or below it when it is a directory.
func (p *proc) into(to, from string) string {
	if e, err := p.fs.Stat(p.abs(to)); err == nil && e.IsDir() {
		return path.Join(p.abs(to), path.Base(from))
	}
	return p.abs(to)
}

func runCp(_ context.Context, p *proc) int {
	opts, names := flags(p.args[1:], "t", "target-directory")
	if dir := last(opts, "t", "target-directory"); dir != "" {
		names = append(names, dir)
	}
	if len(names) < 2 {
		return p.fail("missing destination file operand")
	}
	code := 0
	to := names[len(names)-1]
	for _, from := range names[:len(names)-1] {
		dest := p.into(to, from)
		if has(opts, "T") {
			dest = p.abs(to)
		}
		recursive, keep := has(opts, "r", "R", "a", "recursive", "archive"), has(opts, "p", "a", "archive", "preserve")
		if has(opts, "n", "no-clobber") {
			if _, err := p.fs.Lstat(dest); err == nil {
				continue
			}
		}
		if err := p.copy(p.abs(from), dest, recursive, keep); err != nil {
			code = p.fail("cannot copy '%s': %s", from, disk.Strerror(err))
		}
	}
	return code
}

func (p *proc) copy(from, to string, recursive, keep bool) error {
	look := p.fs.Stat
	if recursive {
		look = p.fs.Lstat
	}
	e, err := look(from)
	if err != nil {
		return err
	}
	switch {
	case e.Mode()&fs.ModeSymlink != 0:
		_ = p.fs.Remove(to)
		return p.fs.Symlink(e.Target(), to)
	case e.IsDir() && !recursive:
		return errors.New("-r not specified; omitting directory")
	case e.IsDir():
		if err := p.fs.MkdirAll(to, e.Mode()); err != nil {
			return err
		}
		entries, err := p.fs.ReadDir(from)
		for _, kid := range entries {
			err = errors.Join(err, p.copy(path.Join(from, kid.Name()), path.Join(to, kid.Name()), true, keep))
		}
		return err
	}
	data, err := p.fs.ReadFile(from)
	if err != nil {
		return err
	}
	if err := p.fs.WriteFile(to, data, e.Mode()); err != nil {
		return err
	}
	if !keep {
		return nil
	}
	return errors.Join(p.fs.Chmod(to, e.Mode().Perm()), p.fs.Chown(to, e.UID(), e.GID()))
}

func runMv(_ context.Context, p *proc) int {
	opts, names := flags(p.args[1:], "t")
	if dir := last(opts, "t"); dir != "" {
		names = append(names, dir)
	}
	if len(names) < 2 {
		return p.fail("missing destination file operand")
	}
	code := 0
	for _, from := range names[:len(names)-1] {
		dest := p.into(names[len(names)-1], from)
		if has(opts, "T") {
			dest = p.abs(names[len(names)-1])
		}
		if err := p.fs.Rename(p.abs(from), dest); err != nil {
			code = p.fail("cannot move '%s' to '%s': %s", from, names[len(names)-1], disk.Strerror(err))
		}
	}
	return code
}

func runRm(_ context.Context, p *proc) int {
	opts, names := flags(p.args[1:])
	recursive, force := has(opts, "r", "R", "recursive"), has(opts, "f", "force")
	code := 0
	for _, name := range names {
		e, err := p.fs.Lstat(p.abs(name))
		switch {
		case errors.Is(err, fs.ErrNotExist) && force:
			continue
		case err == nil && e.IsDir() && !recursive && !has(opts, "d"):
			err = errors.New("Is a directory")
		case err == nil && recursive:
			err = p.fs.RemoveTree(p.abs(name))
		case err == nil:
			err = p.fs.Remove(p.abs(name))
		}
		if err != nil {
			code = p.fail("cannot remove '%s': %s", name, disk.Strerror(err))
		}
	}
	return code
}

func runMkdir(_ context.Context, p *proc) int {
	opts, names := flags(p.args[1:], "m", "mode")
	code := 0
	for _, name := range names {
		make := p.fs.Mkdir
		if has(opts, "p", "parents") {
			make = p.fs.MkdirAll
		}
		_, before := p.fs.Stat(p.abs(name))
		err := make(p.abs(name), 0o777)
		if mode := last(opts, "m", "mode"); mode != "" && err == nil && before != nil {
			err = p.setMode(mode, p.abs(name))
		}
		if err != nil {
			code = p.fail("cannot create directory '%s': %s", name, disk.Strerror(err))
		}
	}
	return code
}

func runRmdir(_ context.Context, p *proc) int {
	_, names := flags(p.args[1:])
	code := 0
	for _, name := range names {
		e, err := p.fs.Lstat(p.abs(name))
		if err == nil && !e.IsDir() {
			err = errors.New("Not a directory")
		}
		if err == nil {
			err = p.fs.Remove(p.abs(name))
		}
		if err != nil {
			code = p.fail("failed to remove '%s': %s", name, disk.Strerror(err))
		}
	}
	return code
}

func runLn(_ context.Context, p *proc) int {
	opts, names := flags(p.args[1:])
	if len(names) == 0 {
		return p.fail("missing file operand")
	}
	target, name := names[0], path.Base(names[0])
	if len(names) > 1 {
		name = names[1]
		if !has(opts, "n", "T", "no-dereference") {
			name = p.into(name, target)
		}
	}
	if has(opts, "f", "force") {
		if e, err := p.fs.Lstat(p.abs(name)); err == nil && e.Mode()&fs.ModeSymlink != 0 && e.Target() == target {
			return 0
		}
		_ = p.fs.Remove(p.abs(name))
	}
	var err error
	if has(opts, "s", "symbolic") {
		err = p.fs.Symlink(target, p.abs(name))
	} else {
		err = p.copy(p.abs(target), p.abs(name), false, true) // hard links are copies here
	}
	if err != nil {
		return p.fail("failed to create link '%s': %s", name, disk.Strerror(err))
	}
	return 0
}

// setMode sets a mode in octal, or as u+x and the like.
func (p *proc) setMode(mode, name string) error {
	if n, err := strconv.ParseUint(mode, 8, 12); err == nil {
		return p.fs.Chmod(name, disk.UnixMode(n))
	}
	e, err := p.fs.Stat(name)
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
	return p.fs.Chmod(name, perm)
}

// walk calls f for a file and, when recursive, for all below it.
func (p *proc) walk(name string, recursive bool, f func(name string) error) error {
	if err := f(name); err != nil {
		return err
	}
	e, err := p.fs.Lstat(name)
	if err != nil || !recursive || !e.IsDir() {
		return err
	}
	kids, err := p.fs.ReadDir(name)
	for _, kid := range kids {
		err = errors.Join(err, p.walk(path.Join(name, kid.Name()), true, f))
	}
	return err
}

func runChmod(_ context.Context, p *proc) int {
	opts, names := flags(p.args[1:], "reference")
	if len(names) < 2 {
		return p.fail("missing operand")
	}
	code := 0
	for _, name := range names[1:] {
		set := func(n string) error { return p.setMode(names[0], n) }
		if err := p.walk(p.abs(name), has(opts, "R"), set); err != nil {
			code = p.fail("cannot access '%s': %s", name, disk.Strerror(err))
		}
	}
	return code
}

func runChown(_ context.Context, p *proc) int {
	opts, names := flags(p.args[1:])
	if len(names) < 2 {
		return p.fail("missing operand")
	}
	spec := names[0]
	if p.name() == "chgrp" {
		spec = ":" + spec
	}
	uid, gid, err := disk.OwnerOf(p.fs, spec)
	if err != nil {
		return p.fail("%v", err)
	}
	code := 0
	for _, name := range names[1:] {
		set := func(n string) error { return p.fs.Chown(n, uid, gid) }
		if err := p.walk(p.abs(name), has(opts, "R"), set); err != nil {
			code = p.fail("changing ownership of '%s': %s", name, disk.Strerror(err))
		}
	}
	return code
}
