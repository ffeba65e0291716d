//go:build mage

package main

import (
	"embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/magefile/mage/mg"
)

// source is what the targets are written in: their parameters are the flags that there are.
//
//go:embed *.go
var source embed.FS

// words refuses what Mage would only complain about after the target before it has run: a
// flag of a target that has none, a word that is no target.
func words() error {
	targets, err := flags(source)
	if err != nil {
		return err
	}
	return refuse(os.Args[1:], targets)
}

// refuse looks at a command line. Mage's own flags come before the first target.
func refuse(args []string, targets map[string][]string) error {
	target := ""
	for _, word := range args {
		name, _, _ := strings.Cut(word, "=")
		_, known := targets[strings.ToLower(name)]
		switch dash := strings.HasPrefix(word, "-"); {
		case known:
			target = strings.ToLower(name)
		case !dash:
			return mg.Fatalf(3, "%q is no target: go tool mage -l lists them; nothing was done", word)
		case target == "": // Mage has judged it
		case len(targets[target]) == 0:
			return mg.Fatalf(3, "%s has no flag %s, nor any other; nothing was done", target, name)
		case !slices.Contains(targets[target], strings.TrimLeft(name, "-")):
			return mg.Fatalf(3, "%s has no flag %s; it has -%s; nothing was done", target, name, strings.Join(targets[target], ", -"))
		}
	}
	return nil
}

// flags returns the targets, by their names in lower case, with the names of their flags.
func flags(files fs.FS) (map[string][]string, error) {
	names, err := fs.Glob(files, "*.go")
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("the targets: %w", err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.IsExported() {
				maps.Copy(out, target(f))
			}
		}
	}
	return out, nil
}

// target is one of them: a function, or a method of a namespace. Flags are pointers.
func target(f *ast.FuncDecl) map[string][]string {
	name := f.Name.Name
	if f.Recv != nil {
		space, ok := f.Recv.List[0].Type.(*ast.Ident)
		if !ok || !space.IsExported() {
			return nil
		}
		name = space.Name + ":" + name
	}
	out := []string{}
	for _, p := range f.Type.Params.List {
		if _, pointer := p.Type.(*ast.StarExpr); pointer {
			for _, n := range p.Names {
				out = append(out, n.Name)
			}
		}
	}
	slices.Sort(out)
	return map[string][]string{strings.ToLower(name): out}
}
