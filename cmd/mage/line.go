package main

import (
	"os"
	"strconv"
	"strings"
)

// line is a command line as Mage reads it: flags of Mage's own, and after them the targets.
type line struct {
	dir, work, gocmd, timeout string
	verbose, list, help       bool
	force                     bool
	compile                   bool // -compile for this machine
	clean                     bool
	own                       bool // the compiled magefile can do it without Mage
	targets                   []string
}

// parse reads a command line. What it does not know, and every mistake, is for Mage.
func parse(args []string) line {
	l := line{gocmd: firstNonEmpty(os.Getenv("MAGEFILE_GOCMD"), "go"),
		own: os.Getenv("MAGEFILE_DEBUG") == "" && os.Getenv("MAGEFILE_MULTILINE") == ""}
	texts := map[string]*string{"d": &l.dir, "w": &l.work, "gocmd": &l.gocmd, "t": &l.timeout}
	bools := map[string]*bool{"v": &l.verbose, "l": &l.list, "h": &l.help, "f": &l.force}
	cross := false
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		name, value, given := strings.Cut(strings.TrimPrefix(args[0][1:], "-"), "=")
		args = args[1:]
		if name == "" { // two dashes alone
			break
		}
		if b := bools[name]; b != nil {
			*b = true
			if given {
				yes, err := strconv.ParseBool(value)
				*b, l.own = yes, l.own && err == nil
			}
			continue
		}
		text := texts[name]
		if text == nil && !flagHasValue(name) {
			l.own, l.clean = false, l.clean || name == "clean"
			continue
		}
		if !given {
			if len(args) == 0 {
				l.own = false
				break
			}
			value, args = args[0], args[1:]
		}
		if text == nil {
			l.own, l.compile, cross = false, l.compile || name == "compile", cross || name == "goos" || name == "goarch"
			continue
		}
		*text = value
	}
	l.targets = args
	l.compile = l.compile && !cross
	l.own = l.own && (!l.help || len(args) == 1)
	l.dir = firstNonEmpty(l.dir, ".")
	l.work = firstNonEmpty(l.work, l.dir)
	return l
}

// flagHasValue reports whether a flag of Mage's that we leave to it has a value.
func flagHasValue(name string) bool {
	switch name {
	case "goos", "goarch", "ldflags", "compile", "install":
		return true
	}
	return false
}

func firstNonEmpty(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// run runs the compiled magefile as Mage does, in the working folder and with Mage's flags in the environment.
func (f folder) run(l line) (int, error) {
	// Set, not appended: of two equal names a program reads the first, which may be that of a Mage around this one.
	set := map[string]string{"MAGEFILE_GOCMD": f.gocmd}
	if l.verbose {
		set["MAGEFILE_VERBOSE"] = "1"
	}
	if l.timeout != "" {
		set["MAGEFILE_TIMEOUT"] = l.timeout
	}
	for name, value := range set {
		if err := os.Setenv(name, value); err != nil {
			return 1, err
		}
	}
	args := l.targets
	if l.help {
		args = append([]string{"-h"}, args...)
	}
	if l.list {
		args = append([]string{"-l"}, args...)
	}
	if err := os.Chdir(l.work); err != nil {
		return 1, err
	}
	return execProgram(f.program(), args)
}
