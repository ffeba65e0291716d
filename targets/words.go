package targets

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/suggest"
)

// source is the source code of the targets, whose parameters are the flags.
//
//go:embed *.go
var source embed.FS

// Judge checks the command line before any target runs. It ends the program if the command
// line names a target or a flag that does not exist, or asks for a target's help. Mage checks
// later, and says little ("Unknown target specified", "flag provided but not defined"). own is
// the source of a magefile that imports the targets, for its own ones; nil if it has none.
// Call it in the initialisation of a variable, which runs before Mage:
//
//	//go:embed *.go
//	var source embed.FS
//	var _ = targets.Judge(os.Args[1:], source)
//
// For targets that the magefile imports from elsewhere, Judge asks the program itself. It
// returns an error, always nil, so that a variable can be initialised with it.
func Judge(args []string, own fs.FS) error {
	if len(args) == 0 || os.Getenv(listing) != "" {
		return nil
	}
	known, err := both(own)
	if err == nil {
		var help string
		if help, err = refuse(args, known, itself); help != "" {
			fmt.Print(help)
			os.Exit(0)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	return nil
}

// both returns our targets and those of a magefile.
func both(own fs.FS) (map[string]target, error) {
	known, err := targets(source)
	if err != nil || own == nil {
		return known, err
	}
	more, err := targets(own)
	maps.Copy(known, more)
	return known, err
}

// lookUp finds a target that is not in the source, and the names of all targets.
type lookUp func(word string) (t target, ok bool, names []string)

// refuse checks a command line; help is the requested help, if any. Mage's own flags come
// before the first target, and one of them may have its value in the next word. An unknown
// word may be a target of another package.
func refuse(args []string, targets map[string]target, others lookUp) (help string, err error) {
	if len(args) == 2 && isHelp(args[0]) {
		if t, ok := find(targets, args[1]); ok {
			return t.help(), nil
		}
	}
	var names []string
	var on *target
	value := "" // the flag before, whose value is not there
	more := 0   // arguments of the previous target
	for i, word := range args {
		known, ok := find(targets, word)
		dash := strings.HasPrefix(word, "-")
		if !ok && !dash && value == "" && more == 0 && !ofMage(args, i, on) {
			known, ok, names = others(word)
		}
		switch {
		case value != "" && !dash:
			return "", fmt.Errorf("-%s %s: write -%s=%s, in one word; nothing was done", value, word, value, word)
		case value != "":
			return "", noValue(value)
		case more > 0 && !dash:
			more--
		case ok && known.alias != "":
			return "", nil // of a package that is not read here: Mage knows the rest
		case ok:
			on, more = &known, known.words
		case ofMage(args, i, on):
		case !dash:
			return "", noTarget(word, on, targets, names)
		case on != nil:
			if help, value, err = on.flag(word); help != "" || err != nil {
				return help, err
			}
		}
	}
	if value != "" {
		return "", noValue(value)
	}
	return "", nil
}

// find finds a target by its name or an alias. If the result's alias is still set, the aliased
// target is not in the source.
func find(targets map[string]target, word string) (target, bool) {
	t, ok := targets[strings.ToLower(word)]
	for name := t.alias; ok && t.alias != ""; {
		if of, is := targets[name]; is && of.alias == "" {
			of.name = t.name
			return of, true
		}
		_, rest, more := strings.Cut(name, ":") // the package, which is not part of a target's name
		if !more {
			return t, true
		}
		name = rest
	}
	return t, ok
}

// ofMage reports whether a word is the value of Mage's flag -t.
func ofMage(args []string, i int, on *target) bool {
	return on == nil && i > 0 && strings.TrimLeft(args[i-1], "-") == "t" && !strings.HasPrefix(args[i], "-")
}

func isHelp(word string) bool {
	return slices.Contains([]string{"-h", "--h", "-help", "--help"}, word)
}

func noValue(flag string) error {
	return fmt.Errorf("-%s needs a value: write -%s=…; nothing was done", flag, flag)
}

// flag checks one of a target's flags, and returns its name if its value is missing.
func (t target) flag(word string) (help, value string, err error) {
	name, _, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
	i := slices.IndexFunc(t.flags, func(o option) bool { return o.name == strings.ToLower(name) })
	switch {
	case isHelp(word):
		return t.help(), "", nil
	case i >= 0 && t.flags[i].kind != "bool" && !given:
		return "", name, nil
	case i >= 0:
		return "", "", nil
	case len(t.flags) == 0:
		return "", "", fmt.Errorf("%s has no flag -%s, nor any other; nothing was done", t.name, name)
	}
	var known []string
	for _, o := range t.flags {
		known = append(known, o.name)
	}
	slices.Sort(known)
	meant := ""
	if like := suggest.Nearest(name, known); like != "" {
		meant = " (is -" + like + " meant?)"
	}
	return "", "", fmt.Errorf("%s has no flag -%s%s; it has -%s; nothing was done", t.name, name, meant, strings.Join(known, ", -"))
}

// noTarget returns the error for a word that is not a target.
func noTarget(word string, on *target, all map[string]target, names []string) error {
	name, _, _ := strings.Cut(word, "=")
	if on != nil && slices.ContainsFunc(on.flags, func(o option) bool { return o.name == name }) {
		return fmt.Errorf("%q is not a target: did you mean the flag -%s? Nothing was done", word, word)
	}
	for _, t := range all {
		names = append(names, t.name)
	}
	slices.Sort(names)
	like := parts(strings.ToLower(word), slices.Compact(names))
	if near := suggest.Nearest(word, names); len(like) == 0 && near != "" {
		like = []string{near}
	}
	switch last := len(like) - 1; {
	case strings.EqualFold(word, "help"):
		return fmt.Errorf("%q is not a target: go tool mage -l lists them, go tool mage -h cluster:up shows the flags of one; nothing was done", word)
	case last > 0:
		return fmt.Errorf("%q is not a target: did you mean %s or %s? go tool mage -l lists them; nothing was done", word, strings.Join(like[:last], ", "), like[last])
	case last == 0:
		return fmt.Errorf("%q is not a target: did you mean %s? go tool mage -l lists them; nothing was done", word, like[0])
	}
	return fmt.Errorf("%q is not a target: go tool mage -l lists them; nothing was done", word)
}

// parts returns the targets of which a word is one half: the namespace, as in "cluster", or the rest,
// as in "up".
func parts(word string, names []string) []string {
	var out []string
	for _, name := range names {
		namespace, rest, _ := strings.Cut(strings.ToLower(name), ":")
		if namespace == word || rest == word {
			out = append(out, name)
		}
	}
	return out
}
