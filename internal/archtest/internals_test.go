package archtest_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestPublicDocsShowNoInternalTypes: who reads the documentation of a package that he may import finds
// every type of it there, or in another that he may import.
func TestPublicDocsShowNoInternalTypes(t *testing.T) {
	for _, s := range sources(t) {
		if !public(s.name) || inside(s.name, "sim") || s.name == "magefiles/targets" { // whose arguments are the flags of commands
			continue
		}
		for _, tree := range s.trees {
			hidden := map[string]bool{}
			for name, path := range imports(tree) {
				hidden[name] = strings.HasPrefix(path, module) && slices.Contains(strings.Split(path, "/"), "internal")
			}
			for _, shown := range documented(tree) {
				ast.Inspect(shown, func(n ast.Node) bool {
					if field, ok := n.(*ast.Field); ok && len(field.Names) > 0 && !slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) && !parameter(shown, field) {
						return false
					}
					if is, ok := n.(*ast.SelectorExpr); ok {
						if of, ok := is.X.(*ast.Ident); ok && hidden[of.Name] {
							assert.Fail(t, "internal", "%s: %s shows %s.%s, of an internal package", s.files.Position(is.Pos()), s.name, of.Name, is.Sel.Name)
						}
					}
					return true
				})
			}
		}
	}
}

// documented is what go doc shows of a file: exported types, values, and the signatures of functions.
func documented(tree *ast.File) (out []ast.Node) {
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
				out = append(out, d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.IsExported() {
						out = append(out, spec)
					}
				case *ast.ValueSpec:
					if !slices.ContainsFunc(spec.Names, (*ast.Ident).IsExported) {
						continue
					}
					if spec.Type != nil {
						out = append(out, spec.Type)
					}
					for _, value := range spec.Values {
						if d.Tok == token.CONST {
							out = append(out, value)
						}
					}
				}
			}
		}
	}
	return out
}

// parameter reports whether a field is one of a function, which its signature shows whatever its name.
func parameter(shown ast.Node, field *ast.Field) bool {
	found := false
	ast.Inspect(shown, func(n ast.Node) bool {
		if is, ok := n.(*ast.FuncType); ok && field.Pos() >= is.Pos() && field.End() <= is.End() {
			found = true
		}
		return !found
	})
	return found
}
