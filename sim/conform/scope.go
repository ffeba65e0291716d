package conform

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
)

// scope is what names mean within a function.
type scope struct {
	pkg     string
	imports map[string]bool // packages that the file names
	local   map[string]bool // variables of the function
}

func scopeOf(f *ast.File, fn *ast.FuncDecl) scope {
	in := scope{pkg: f.Name.Name, imports: map[string]bool{}, local: localNames(fn)}
	for _, spec := range f.Imports {
		if name, err := strconv.Unquote(spec.Path.Value); err == nil && strings.Contains(name, "/pvesim/internal/") {
			in.imports[filepath.Base(name)] = true
		}
	}
	return in
}

// named is the function that an expression names, as [keyOf] has it; one that there is
// not where it is anything else.
func (in scope) named(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		if !in.local[e.Name] {
			return in.pkg + "." + e.Name
		}
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && in.imports[x.Name] && !in.local[x.Name] {
			return x.Name + "." + e.Sel.Name
		}
		return "." + e.Sel.Name
	case *ast.IndexExpr: // of a generic function
		return in.named(e.X)
	}
	return ""
}

// given is the function that a call is given: a handler that another is made of.
func (in scope) given(e ast.Expr) string {
	if sel, ok := e.(*ast.SelectorExpr); ok {
		_, method := sel.X.(*ast.ParenExpr) // (*world.Task).Running
		if name := in.named(e); method || !strings.HasPrefix(name, ".") {
			return name
		}
		return ""
	}
	return in.named(e)
}

// localNames are the variables of a function.
func localNames(fn ast.Node) map[string]bool {
	out := map[string]bool{}
	note := func(e ast.Expr) {
		if id, ok := e.(*ast.Ident); ok {
			out[id.Name] = true
		}
	}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, id := range n.Names {
				out[id.Name] = true
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, e := range n.Lhs {
					note(e)
				}
			}
		case *ast.RangeStmt:
			note(n.Key)
			note(n.Value)
		case *ast.ValueSpec:
			for _, id := range n.Names {
				out[id.Name] = true
			}
		}
		return true
	})
	return out
}
