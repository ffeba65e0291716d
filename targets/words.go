package targets

import (
	"embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/suggest"
)

// source is what the targets are written in: their parameters are the flags that there are.
//
//go:embed *.go
var source embed.FS

// Judge ends the program, before any target runs, where a command line is not one of ours:
// it names a target or a flag that does not exist, or asks for a target's help. Mage looks
// later, and says little ("Unknown target specified", "flag provided but not defined"). own
// is the source of a magefile that imports the targets, for those that it adds; nil where it
// adds none. What initialises a variable of the magefile comes before Mage:
//
//	//go:embed *.go
//	var source embed.FS
//	var _ = targets.Judge(os.Args[1:], source)
//
// The error, always nil, is there for that.
func Judge(args []string, own fs.FS) error {
	if len(args) == 0 {
		return nil
	}
	known, err := targets(source)
	if err == nil && own != nil {
		var more map[string]target
		more, err = targets(own)
		maps.Copy(known, more)
	}
	if err == nil {
		var help string
		if help, err = refuse(args, known); help != "" {
			fmt.Println(help)
			os.Exit(0)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	return nil
}

// target is something to run, as it was written.
type target struct {
	name  string
	doc   string
	flags map[string]bool // whether it wants a value
	words int             // that it wants after its name; ours want none
}

// refuse looks at a command line; help is what was asked for. Mage's own flags come before
// the first target, and one of them has a value that may stand by itself.
func refuse(args []string, targets map[string]target) (help string, err error) {
	var on *target
	value := "" // the flag before, whose value is not there
	more := 0   // words that the target before wants
	for i, word := range args {
		known, ok := targets[strings.ToLower(word)]
		switch dash := strings.HasPrefix(word, "-"); {
		case value != "" && !dash:
			return "", fmt.Errorf("-%s %s: write -%s=%s, in one word; nothing was done", value, word, value, word)
		case value != "":
			return "", noValue(value)
		case more > 0 && !dash:
			more--
		case ok:
			on, more = &known, known.words
		case !dash && on == nil && i > 0 && strings.TrimLeft(args[i-1], "-") == "t":
		case !dash:
			return "", noTarget(word, on, targets)
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

func noValue(flag string) error {
	return fmt.Errorf("-%s needs a value: write -%s=…; nothing was done", flag, flag)
}

// flag looks at one of a target's flags, and returns its name where its value is missing.
func (t target) flag(word string) (help, value string, err error) {
	name, _, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
	wants, ok := t.flags[name]
	switch {
	case ok && wants && !given:
		return "", name, nil
	case ok:
		return "", "", nil
	case name == "h" || name == "help":
		return t.name + ": " + t.doc, "", nil
	case len(t.flags) == 0:
		return "", "", fmt.Errorf("%s has no flag -%s, nor any other; nothing was done", t.name, name)
	}
	known := slices.Sorted(maps.Keys(t.flags))
	meant := ""
	if like := suggest.Nearest(name, known); like != "" {
		meant = " (is -" + like + " meant?)"
	}
	return "", "", fmt.Errorf("%s has no flag -%s%s; it has -%s; nothing was done", t.name, name, meant, strings.Join(known, ", -"))
}

// noTarget is the error of a word that is not a target.
func noTarget(word string, on *target, all map[string]target) error {
	name, _, _ := strings.Cut(word, "=")
	if on != nil {
		if _, ok := on.flags[name]; ok {
			return fmt.Errorf("%q is not a target: did you mean the flag -%s? Nothing was done", word, word)
		}
	}
	var names []string
	for _, t := range all {
		names = append(names, t.name)
	}
	slices.Sort(names)
	if like := suggest.Nearest(word, names); like != "" {
		return fmt.Errorf("%q is not a target: did you mean %s? go tool mage -l lists them; nothing was done", word, like)
	}
	return fmt.Errorf("%q is not a target: go tool mage -l lists them; nothing was done", word)
}

// targets returns all of them, by their names in lower case.
func targets(files fs.FS) (map[string]target, error) {
	names, err := fs.Glob(files, "*.go")
	if err != nil {
		return nil, err
	}
	out := map[string]target{}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("the targets: %w", err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.IsExported() {
				if t, ok := targetOf(f); ok {
					out[strings.ToLower(t.name)] = t
				}
			}
		}
	}
	return out, nil
}

// targetOf is a function, or a method of a namespace, whose flags are pointers.
func targetOf(f *ast.FuncDecl) (t target, ok bool) {
	t = target{name: lower(f.Name.Name), doc: strings.TrimSpace(strings.Join(strings.Fields(f.Doc.Text()), " ")), flags: map[string]bool{}}
	t.doc = strings.TrimPrefix(t.doc, f.Name.Name+" ")
	if f.Recv != nil {
		space, ok := f.Recv.List[0].Type.(*ast.Ident)
		if !ok || !space.IsExported() {
			return t, false
		}
		t.name = lower(space.Name) + ":" + t.name
	}
	for _, p := range f.Type.Params.List {
		pointer, ok := p.Type.(*ast.StarExpr)
		switch kind := types.ExprString(p.Type); {
		case ok:
		case kind == "context.Context":
			continue
		case slices.Contains([]string{"string", "int", "float64", "bool", "time.Duration"}, kind):
			t.words += max(1, len(p.Names))
			continue
		default:
			return t, false // Mage takes it for none, too (its parse.argTypes)
		}
		kind, _ := pointer.X.(*ast.Ident)
		for _, n := range p.Names {
			t.flags[n.Name] = kind == nil || kind.Name != "bool"
		}
	}
	return t, true
}

// lower is a name as Mage lists it: GPU is gpu, and HubOpen would be hubOpen.
func lower(name string) string {
	if name == strings.ToUpper(name) {
		return strings.ToLower(name)
	}
	return strings.ToLower(name[:1]) + name[1:]
}
