package archtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readers are the places that name what packages export.
type readers struct {
	qualified map[string][]string // "path.Name": the folders of the files that have pkg.Name
	selected  map[string][]string // ".Name": the folders of those that have x.Name, or Name: in a literal
	prose     string              // the pages for users
}

// readersOf reads every Go file and page that git tracks.
func readersOf(t *testing.T) readers {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "*.go", "*.md")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	require.NoError(t, err)
	r := readers{qualified: map[string][]string{}, selected: map[string][]string{}}
	var prose strings.Builder
	for path := range strings.FieldsSeq(string(out)) {
		text, err := os.ReadFile(filepath.Join("../..", path))
		require.NoError(t, err)
		if strings.HasSuffix(path, ".md") {
			prose.Write(text)
			continue
		}
		if inside(path, "docs") || strings.Contains(path, "/testdata/") && !strings.Contains(path, "/weigh/") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		require.NoError(t, err)
		r.file(filepath.Dir(path), strings.HasSuffix(path, "_test.go"), tree)
	}
	r.prose = prose.String()
	return r
}

// file notes what one file names. A test of the package itself counts as a reader if it is an
// example, which pkg.go.dev shows.
func (r *readers) file(dir string, test bool, tree *ast.File) {
	known := imports(tree)
	note := func(dir string) func(ast.Node) bool {
		return func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				r.selected[n.Sel.Name] = append(r.selected[n.Sel.Name], dir)
				if x, ok := n.X.(*ast.Ident); ok && known[x.Name] != "" {
					name := known[x.Name] + "." + n.Sel.Name
					r.qualified[name] = append(r.qualified[name], dir)
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok {
					r.selected[key.Name] = append(r.selected[key.Name], dir)
				}
			}
			return true
		}
	}
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if test && ok && strings.HasPrefix(f.Name.Name, "Example") {
			ast.Inspect(d, note("example of "+dir))
			continue
		}
		ast.Inspect(d, note(dir))
	}
}

// has says whether somebody outside of a folder names it.
func has(folders []string, own string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return f != own })
}

// TestEveryNameHasAReader: what is exported is named by another package, an example or a page. The
// type of a result or a field is read with the name that has it, and a constant with the others of
// its kind.
func TestEveryNameHasAReader(t *testing.T) {
	r := readersOf(t)
	for _, s := range sources(t) {
		if !public(s.name) || inside(s.name, "sim") || s.name == "magefiles/targets" {
			continue // targets are read by Mage
		}
		shown := s.shown()
		for name := range s.names {
			of, member, isMember := strings.Cut(name, ".")
			if !ast.IsExported(of) || isMember && !ast.IsExported(member) {
				continue
			}
			if s.fields[name] {
				continue // a field is read with its struct
			}
			if isMember {
				assert.True(t, calledByRuntime[member] || has(r.selected[member], s.name) || strings.Contains(r.prose, member), "nobody reads %s.%s", s.name, name)
				continue
			}
			assert.True(t, r.reads(s, shown, of, map[string]bool{}), "nobody reads %s.%s", s.name, of)
		}
	}
}

// reads says whether somebody names a package's name, or one that it is read with.
func (r *readers) reads(s *source, shown map[string][]string, name string, asked map[string]bool) bool {
	if asked[name] {
		return false
	}
	asked[name] = true
	return strings.HasPrefix(name, ".") || has(r.qualified[module+s.name+"."+name], s.name) ||
		regexp.MustCompile(`\b`+filepath.Base(s.name)+`\.`+name+`\b`).MatchString(r.prose) ||
		slices.ContainsFunc(shown[name], func(n string) bool { return r.reads(s, shown, n, asked) })
}

// calledByRuntime are methods that the standard library calls.
var calledByRuntime = map[string]bool{"String": true, "Error": true, "Unwrap": true, "Is": true, "MarshalText": true, "UnmarshalText": true, "MarshalJSON": true, "UnmarshalJSON": true,
	"MarshalYAML": true, "UnmarshalYAML": true, "GoString": true, "Format": true, "LogValue": true, "Read": true, "Write": true, "Close": true}

// shown says for each name with which others it is read: a type with the functions, methods and
// fields that have it, a constant with its block and its type. "." marks a method or a field.
func (s *source) shown() map[string][]string {
	out := map[string][]string{}
	types := func(by string, in ast.Node) {
		ast.Inspect(in, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && ast.IsExported(id.Name) && id.Name != by {
				out[id.Name] = append(out[id.Name], by)
			}
			_, selector := n.(*ast.SelectorExpr)
			return !selector
		})
	}
	for _, tree := range s.trees {
		for _, d := range tree.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				by := d.Name.Name
				if d.Recv != nil {
					by = "." + by
				}
				if ast.IsExported(d.Name.Name) {
					types(by, d.Type)
				}
			case *ast.GenDecl:
				var block []string
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						if ast.IsExported(spec.Name.Name) {
							types(".", spec.Type)
						}
					case *ast.ValueSpec:
						for _, n := range spec.Names {
							block = append(block, n.Name)
						}
						if id, ok := spec.Type.(*ast.Ident); ok {
							block = append(block, id.Name)
						}
					}
				}
				for _, n := range block {
					out[n] = append(out[n], block...)
				}
			}
		}
	}
	return out
}
