package conform

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// function is what matters here of a function of pvesim.
type function struct {
	calls  map[string]bool // other functions that it names
	reads  map[string]bool // parameters that it reads
	all    bool            // it takes all parameters as they are
	except map[string]bool // but these
	privs  map[string]bool // privileges that it names
}

// source is pvesim as it is written, all its packages: functions by package and name,
// methods by name. Which method a call means is taken by its name alone, which errs on
// the side of too much.
type source map[string]*function

// readSource reads the source of a package and of those inside of it, without their tests.
func readSource(dir string) (source, error) {
	rooms, err := filepath.Glob(filepath.Join(dir, "internal", "*"))
	if err != nil {
		return nil, err
	}
	out := source{}
	for _, room := range append(rooms, dir) {
		files, err := parseDir(room)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
					out.function(keyOf(f, fn)).read(fn, scopeOf(f, fn))
				}
			}
		}
		for _, name := range keysOf(files, "noOptions") {
			out.function("config.Options").except[name] = true
		}
	}
	return out, nil
}

// keyOf is what a function is found by: package.name, and .name for a method.
func keyOf(f *ast.File, fn *ast.FuncDecl) string {
	if fn.Recv != nil {
		return "." + fn.Name.Name
	}
	return f.Name.Name + "." + fn.Name.Name
}

// keysOf are the keys of a map that is a variable of a package.
func keysOf(files []*ast.File, variable string) (out []string) {
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || spec.Names[0].Name != variable || len(spec.Values) != 1 {
				return true
			}
			m, ok := spec.Values[0].(*ast.CompositeLit)
			if !ok {
				return false
			}
			for _, e := range m.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					out = append(out, literals([]ast.Expr{kv.Key})...)
				}
			}
			return false
		})
	}
	return out
}

func parseDir(dir string) ([]*ast.File, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no Go source in %s: run this in the repository's root: %w", dir, fs.ErrNotExist)
	}
	fset := token.NewFileSet()
	var out []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

func (s source) function(name string) *function {
	if s[name] == nil {
		s[name] = &function{calls: map[string]bool{}, reads: map[string]bool{}, except: map[string]bool{}, privs: map[string]bool{}}
	}
	return s[name]
}

// read notes what a function does with parameters.
func (f *function) read(fn ast.Node, in scope) {
	lists := []string{} // literals of []string{…}, which may be names of parameters
	asksByName := false
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			for _, p := range privilegesIn(n.Value) {
				f.privs[p] = true
			}
		case *ast.CompositeLit:
			lists = append(lists, literals(n.Elts)...)
		case *ast.KeyValueExpr:
			f.calls[in.given(n.Value)] = true
		case *ast.IndexExpr:
			if sel, ok := n.X.(*ast.SelectorExpr); ok && sel.Sel.Name == "Params" {
				for _, name := range literals([]ast.Expr{n.Index}) {
					f.reads[name] = true
				}
			}
		case *ast.CallExpr:
			f.calls[in.named(n.Fun)] = true
			for _, arg := range n.Args {
				f.calls[in.given(arg)] = true
			}
			asksByName = f.call(n) || asksByName
		}
		return true
	})
	if asksByName {
		for _, name := range lists {
			f.reads[name] = true
		}
	}
}

// call notes a call that reads parameters, and reports whether it does so by a
// name that is not written there.
func (f *function) call(n *ast.CallExpr) (byName bool) {
	names := literals(n.Args)
	switch called(n.Fun) {
	case "Param", "Has", "Get", "Bool", "Int", "RootOption":
		for _, name := range names {
			f.reads[name] = true
		}
		return len(names) == 0 && len(n.Args) > 0
	case "Options", "entryParams":
		f.all = true
	case "Section", "updateSection":
		f.all = true
		for _, name := range names {
			f.except[name] = true
		}
	}
	return false
}

// literals are the strings among expressions.
func literals(in []ast.Expr) (out []string) {
	for _, e := range in {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			e = kv.Value
		}
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				out = append(out, text)
			}
		}
	}
	return out
}

// listOfAll is how many privileges a function names that lists them all rather than
// asks for any.
const listOfAll = 15

// reached is a function with all that it calls.
func (s source) reached(name string) *function {
	sum := source{}.function(name)
	seen := map[string]bool{}
	var walk func(string)
	walk = func(name string) {
		f := s[name]
		if f == nil || seen[name] {
			return
		}
		seen[name] = true
		for r := range f.reads {
			sum.reads[r] = true
		}
		if len(f.privs) <= listOfAll {
			for p := range f.privs {
				sum.privs[p] = true
			}
		}
		for e := range f.except {
			sum.except[e] = true
		}
		sum.all = sum.all || f.all
		for _, c := range sorted(f.calls) {
			walk(c)
		}
	}
	walk(name)
	return sum
}

// uses reports whether a parameter has an effect.
func (f *function) uses(name string) bool {
	return f.reads[name] || f.all && !f.except[name]
}

func sorted(set map[string]bool) []string {
	var out []string
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
