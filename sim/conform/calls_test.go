package conform

import (
	_ "embed"
	"errors"
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

// recordedCalls are the methods that whole lives of clusters asked for, with their
// parameters; cluster.TestCallsOfWholeLives writes them down.
//
//go:embed calls.txt
var recordedCalls string

// wild is a piece of a path that is not known before the program runs.
const wild = "*"

// callSites finds the calls of Proxmox's API in a package and those below it, as METHOD and
// path with * for what is not known before.
func callSites(root string) ([]string, error) {
	var files []*ast.File
	err := filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if some, err := parseDir(dir); err == nil {
			files = append(files, some...)
		} else if !errors.Is(err, fs.ErrNotExist) { // a folder without Go files
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	pkg := &callPackage{returns: map[string]*ast.FuncDecl{}}
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				pkg.returns[fn.Name.Name] = fn
			}
		}
	}
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				pkg.sites(fn, found)
			}
		}
	}
	return sortedKeys(found), nil
}

type callPackage struct {
	returns map[string]*ast.FuncDecl
}

// pathArgument says where the functions that make calls have method and path.
func pathArgument(name string) (method, path int) {
	switch name {
	case "Get":
		return -1, 1
	case "Look":
		return -1, 2
	case "Call", "Do", "DoExit", "DoShown", "launch", "asRoot", "NewRequestWithContext":
		return 1, 2
	}
	return 0, 0
}

func (p *callPackage) sites(fn *ast.FuncDecl, found map[string]bool) {
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, at := pathArgument(calleeName(call.Fun))
		if at == 0 || len(call.Args) <= at {
			return true
		}
		verb := "GET"
		if method > 0 {
			verb = verbOf(call.Args[method])
		}
		if path := p.eval(call.Args[at], fn, 0); verb != "" && strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "/"+wild) {
			found[verb+" "+path] = true
		}
		return true
	})
}

// calleeName is the name of a called function, generic or not.
func calleeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.IndexExpr:
		return calleeName(e.X)
	}
	return ""
}

func verbOf(e ast.Expr) string {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	verb, isVerb := strings.CutPrefix(sel.Sel.Name, "Method")
	if !isVerb {
		return ""
	}
	return strings.ToUpper(verb)
}

// eval works out a path as far as it can be.
func (p *callPackage) eval(e ast.Expr, fn *ast.FuncDecl, depth int) string {
	if depth > 8 {
		return wild
	}
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		left, right := p.eval(e.X, fn, depth+1), p.eval(e.Y, fn, depth+1)
		if left == wild && strings.HasPrefix(right, "/") { // c.base + path
			return right
		}
		return left + right
	case *ast.Ident:
		if value := assignedValue(fn.Body, e.Name); value != nil {
			return p.eval(value, fn, depth+1)
		}
	case *ast.CallExpr:
		return p.evalCall(e, fn, depth)
	}
	return wild
}

func (p *callPackage) evalCall(e *ast.CallExpr, fn *ast.FuncDecl, depth int) string {
	parts := func(from int) string {
		var b strings.Builder
		for _, a := range e.Args[from:] {
			b.WriteString("/" + p.eval(a, fn, depth+1))
		}
		return b.String()
	}
	name := calleeName(e.Fun)
	switch name {
	case "NodePath":
		return "/nodes/" + wild + parts(1)
	case "VMPath":
		return "/nodes/" + wild + "/qemu/" + wild + parts(2)
	}
	// A function that does nothing but return a path made of its parameters.
	decl := p.returns[name]
	if decl == nil || len(decl.Body.List) != 1 {
		return wild
	}
	ret, ok := decl.Body.List[0].(*ast.ReturnStmt)
	if !ok || len(ret.Results) != 1 {
		return wild
	}
	out := p.eval(ret.Results[0], decl, depth+1)
	if len(e.Args) > 0 && strings.HasSuffix(out, "/"+wild) {
		out = strings.TrimSuffix(out, wild) + p.eval(e.Args[len(e.Args)-1], fn, depth+1)
	}
	return out
}

// assignedValue finds what a variable was given in a body.
func assignedValue(body ast.Node, name string) (value ast.Expr) {
	ast.Inspect(body, func(n ast.Node) bool {
		as, ok := n.(*ast.AssignStmt)
		if !ok || as.Tok != token.DEFINE || len(as.Lhs) != len(as.Rhs) {
			return true
		}
		for i, l := range as.Lhs {
			if id, ok := l.(*ast.Ident); ok && id.Name == name && value == nil {
				value = as.Rhs[i]
			}
		}
		return true
	})
	return value
}

// methodsFor are the methods of a list that a call site may mean. One whose last
// piece is open means any of them.
func methodsFor(site string, names []string) (out []string) {
	verb, want, _ := strings.Cut(site, " ")
	for _, name := range names {
		v, have, _ := strings.Cut(name, " ")
		if v == verb && fits(strings.Split(want, "/"), strings.Split(have, "/")) {
			out = append(out, name)
		}
	}
	// A variable of the schema is closer than a word that happens to fit.
	exact := slices.DeleteFunc(slices.Clone(out), func(name string) bool {
		return strings.Count(name, "{") != strings.Count(site, wild)
	})
	if len(exact) > 0 {
		return exact
	}
	return out
}

func fits(want, have []string) bool {
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if want[i] != have[i] && want[i] != wild && !strings.HasPrefix(have[i], "{") {
			return false
		}
	}
	return true
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

func sortedKeys(set map[string]bool) []string {
	var out []string
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
