package programs

import (
	"context"
	"fmt"
	"io/fs"
	"path"
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
		if p.Name() == "readlink" && !getopt.Has(opts, "f", "e", "m") {
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

func runBasename(_ context.Context, p *machine.Proc) int {
	_, names := getopt.Parse(p.Args[1:])
	if len(names) == 0 {
		return p.Fail("missing operand")
	}
	if p.Name() == "dirname" {
		for _, n := range names {
			p.Printf("%s\n", path.Dir(n))
		}
		return 0
	}
	base := path.Base(names[0])
	if len(names) > 1 && base != names[1] {
		base = strings.TrimSuffix(base, names[1])
	}
	p.Printf("%s\n", base)
	return 0
}

// runFind knows -name, -type, -maxdepth, -mindepth and -delete.
func runFind(_ context.Context, p *machine.Proc) int {
	args := p.Args[1:]
	var roots []string
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") && args[0] != "!" {
		roots, args = append(roots, args[0]), args[1:]
	}
	if len(roots) == 0 {
		roots = []string{"."}
	}
	want := map[string]string{}
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-name", "-type", "-maxdepth", "-mindepth":
			if i+1 < len(args) {
				want[args[i]] = args[i+1]
			}
			i++
		case "-delete", "-print":
			want[args[i]] = "yes"
		case "!":
			if strings.Join(args[i:min(i+3, len(args))], " ") != "! -type d" {
				return p.Fail("only '! -type d' is simulated")
			}
			want["no folders"] = "yes"
			i += 2
		default:
			return p.Fail("unknown predicate '%s' (not simulated)", args[i])
		}
	}
	code := 0
	for _, root := range roots {
		if _, err := p.FS.Lstat(p.Abs(root)); err != nil {
			code = p.Fail("'%s': %s", root, disk.Strerror(err))
			continue
		}
		found(p, root, 0, want)
	}
	return code
}

func found(p *machine.Proc, name string, depth int, want map[string]string) {
	e, err := p.FS.Lstat(p.Abs(name))
	if err != nil {
		return
	}
	limit, err := strconv.Atoi(want["-maxdepth"])
	if e.IsDir() && (err != nil || depth < limit) {
		kids, _ := p.FS.ReadDir(p.Abs(name))
		for _, kid := range kids {
			found(p, strings.TrimSuffix(name, "/")+"/"+kid.Name(), depth+1, want)
		}
	}
	least, _ := strconv.Atoi(want["-mindepth"])
	fits, _ := path.Match(want["-name"], path.Base(name))
	if want["-name"] != "" && !fits || depth < least {
		return
	}
	if t := want["-type"]; t == "f" && !e.Mode().IsRegular() || t == "d" && !e.IsDir() || t == "l" && e.Mode()&fs.ModeSymlink == 0 {
		return
	}
	if want["no folders"] != "" && e.IsDir() {
		return
	}
	if want["-delete"] != "" {
		_ = p.FS.Remove(p.Abs(name))
		return
	}
	p.Printf("%s\n", name)
}

func runWhich(_ context.Context, p *machine.Proc) int {
	code := 0
	for _, name := range p.Args[1:] {
		file, err := p.Find(name)
		if err != nil {
			code = 1
			continue
		}
		p.Printf("%s\n", file)
	}
	return code
}
