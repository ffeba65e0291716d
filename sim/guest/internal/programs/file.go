package programs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strconv"

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

// targetPath returns where a file goes: to itself, or below it when it is a directory.
func targetPath(p *machine.Proc, to, from string) string {
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
	if getopt.Has(opts, "r", "R", "a", "recursive", "archive") {
		return p.Fail("folders are not simulated")
	}
	if len(names) < 2 {
		return p.Fail("missing destination file operand")
	}
	code := 0
	to := names[len(names)-1]
	for _, from := range names[:len(names)-1] {
		dest := targetPath(p, to, from)
		if getopt.Has(opts, "T") {
			dest = p.Abs(to)
		}
		if getopt.Has(opts, "n", "no-clobber") {
			if _, err := p.FS.Lstat(dest); err == nil {
				continue
			}
		}
		if err := copyFile(p, p.Abs(from), dest, getopt.Has(opts, "p", "preserve")); err != nil {
			code = p.Fail("cannot copy '%s': %s", from, disk.Strerror(err))
		}
	}
	return code
}

func copyFile(p *machine.Proc, from, to string, keep bool) error {
	e, err := p.FS.Stat(from)
	if err != nil {
		return err
	}
	if e.IsDir() {
		return errors.New("-r not specified; omitting directory")
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
		dest := targetPath(p, names[len(names)-1], from)
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

// setMode sets a mode in octal.
func setMode(p *machine.Proc, mode, name string) error {
	n, err := strconv.ParseUint(mode, 8, 12)
	if err != nil {
		return errors.New("mode '" + mode + "' is not simulated")
	}
	return p.FS.Chmod(name, disk.UnixMode(n))
}

// runChmod changes modes in octal, one file after another.
func runChmod(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:])
	if len(opts) > 0 || len(names) < 2 {
		return p.Fail("only 'chmod MODE FILE…' is simulated")
	}
	code := 0
	for _, name := range names[1:] {
		if err := setMode(p, names[0], p.Abs(name)); err != nil {
			code = p.Fail("cannot access '%s': %s", name, disk.Strerror(err))
		}
	}
	return code
}

func runChown(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:])
	if len(opts) > 0 || len(names) < 2 {
		return p.Fail("only 'chown OWNER FILE…' is simulated")
	}
	uid, gid, err := disk.OwnerOf(p.FS, names[0])
	if err != nil {
		return p.Fail("%v", err)
	}
	code := 0
	for _, name := range names[1:] {
		if err := p.FS.Chown(p.Abs(name), uid, gid); err != nil {
			code = p.Fail("changing ownership of '%s': %s", name, disk.Strerror(err))
		}
	}
	return code
}
