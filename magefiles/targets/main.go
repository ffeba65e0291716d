package targets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/cps-gpu/homelab/internal/suggest"
)

// Main runs a command line of Mage's that has only targets of this package, and ends the program; Mage runs all
// others. Before anything runs, it refuses words that are no target and flags that a target does not have. Mage
// would find them when their turn comes. Call it in the initialisation of a variable, which runs before Mage:
//
//	var _ = targets.Main(os.Args[1:])
//
// If the magefile has Aliases, they are the second argument. Main returns an error, always nil, so that a variable
// can be initialised with it.
func Main(args []string, aliases ...map[string]any) error {
	if len(args) == 0 || os.Getenv(listing) != "" {
		return nil
	}
	l, err := read(args, aliases, askOwnProgram)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	case l.help != "":
		fmt.Print(l.help)
		os.Exit(0)
	case l.mage:
		return nil
	}
	os.Exit(printError(l.run(context.Background())))
	return nil
}

// line is a command line: the verbs with the values of their flags.
type line struct {
	calls []verbCall
	help  string // what was asked for
	mage  bool   // not only verbs of ours
}

type verbCall struct {
	verb   Verb
	values map[string]any
}

// run runs verbs one after the other, until one fails.
func (l line) run(ctx context.Context) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	for _, c := range l.calls {
		if err := c.verb.run(ctx, c.values); err != nil {
			return err
		}
	}
	return nil
}

// targetFinder finds a target of another package, and the names of all targets of the program.
type targetFinder func(word string) (v *Verb, names []string)

// read reads a command line.
func read(args []string, aliases []map[string]any, others targetFinder) (l line, err error) {
	verbs := Verbs()
	if strings.HasPrefix(args[0], "-") { // Mage's own flags
		l.mage = true
		if v := find(verbs, args[len(args)-1]); len(args) == 2 && isHelp(args[0]) && v != nil {
			l.help = v.help()
		}
		return l, nil
	}
	for len(args) > 0 {
		word := args[0]
		v := find(verbs, word)
		if v == nil {
			var names []string
			if v, names = others(word); v == nil {
				l.mage = true
				return l, unknown(word, names, l, aliases)
			}
			l.mage = true
		}
		rest, values, err := v.parse(args[1:])
		if errors.Is(err, pflag.ErrHelp) {
			l.help = v.help()
			return l, nil
		}
		if err != nil {
			return l, err
		}
		args, l.calls = rest, append(l.calls, verbCall{*v, values})
	}
	return l, nil
}

func isHelp(word string) bool {
	return slices.Contains([]string{"-h", "--h", "-help", "--help"}, word)
}

// find finds a verb, whose name Mage reads in any case.
func find(verbs []Verb, word string) *Verb {
	i := slices.IndexFunc(verbs, func(v Verb) bool { return strings.EqualFold(v.Name, word) })
	if i < 0 {
		return nil
	}
	return &verbs[i]
}

// parse reads a verb's flags up to the next word, as Mage writes them: with one dash or two, in any case.
func (v *Verb) parse(args []string) (rest []string, values map[string]any, err error) {
	f := v.flagSet()
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ToLower(name))
	})
	args = args[min(v.words, len(args)):]
	end := slices.IndexFunc(args, func(word string) bool { return !strings.HasPrefix(word, "-") })
	if end < 0 {
		end = len(args)
	}
	words := slices.Clone(args[:end])
	for i, word := range words {
		words[i] = "--" + strings.TrimLeft(word, "-")
		if isHelp(word) {
			return nil, nil, pflag.ErrHelp
		}
		name, _, given := strings.Cut(words[i][2:], "=")
		if flag := f.Lookup(name); flag != nil && !given && flag.NoOptDefVal == "" {
			if i == end-1 && end < len(args) {
				return nil, nil, fmt.Errorf("-%s %s: write -%s=%s, in one word; nothing was done", name, args[end], name, args[end])
			}
			return nil, nil, fmt.Errorf("-%s needs a value: write -%s=…; nothing was done", name, name)
		}
	}
	if err := f.Parse(words); err != nil {
		return nil, nil, v.explain(err)
	}
	return args[end:], setFlags(f), nil
}

// explain is an error about a flag, with what to write instead.
func (v *Verb) explain(err error) error {
	none := new(pflag.NotExistError)
	if !errors.As(err, &none) {
		return fmt.Errorf("%s: %w; nothing was done", v.Name, err)
	}
	name := none.GetSpecifiedName()
	if len(v.Flags) == 0 {
		return fmt.Errorf("%s has no flag -%s, nor any other; nothing was done", v.Name, name)
	}
	var known []string
	for _, f := range v.Flags {
		known = append(known, f.Name)
	}
	slices.Sort(known)
	meant := ""
	if like := suggest.Nearest(name, known); like != "" {
		meant = " (is -" + like + " meant?)"
	}
	return fmt.Errorf("%s has no flag -%s%s; it has -%s; nothing was done", v.Name, name, meant, strings.Join(known, ", -"))
}

// unknown is the error for a word that is not a target; nil if it is an alias, of which Mage knows the rest.
func unknown(word string, names []string, l line, aliases []map[string]any) error {
	for _, a := range aliases {
		for name := range a {
			if strings.EqualFold(name, word) {
				return nil
			}
			names = append(names, name)
		}
	}
	if name, _, _ := strings.Cut(word, "="); len(l.calls) > 0 {
		on := l.calls[len(l.calls)-1].verb
		if slices.ContainsFunc(on.Flags, func(f Flag) bool { return f.Name == name }) {
			return fmt.Errorf("%q is not a target: did you mean the flag -%s? Nothing was done", word, word)
		}
	}
	for _, v := range Verbs() {
		names = append(names, v.Name)
	}
	slices.Sort(names)
	like := parts(strings.ToLower(word), slices.Compact(names))
	if near := suggest.Nearest(word, names); len(like) == 0 && near != "" {
		like = []string{near}
	}
	const list = "go tool mage -l lists them"
	switch last := len(like) - 1; {
	case strings.EqualFold(word, "help"):
		return fmt.Errorf("%q is not a target: %s, go tool mage -h cluster:up shows the flags of one; nothing was done", word, list)
	case last > 0:
		return fmt.Errorf("%q is not a target: did you mean %s or %s? %s; nothing was done", word, strings.Join(like[:last], ", "), like[last], list)
	case last == 0:
		return fmt.Errorf("%q is not a target: did you mean %s? %s; nothing was done", word, like[0], list)
	}
	return fmt.Errorf("%q is not a target: %s; nothing was done", word, list)
}

// parts returns the targets of which a word is one half: the namespace, as in "cluster", or the rest, as in "up".
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
