package archtest_test

import (
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// source is a package as it is written, without its tests.
type source struct {
	name  string // its path in the module
	files *token.FileSet
	trees []*ast.File
	names map[string]bool // what it declares: Name, Type.Method, Type.Field

	fields map[string]bool // of these, the fields
}

// sources parses every package of the module.
func sources(t *testing.T) []*source {
	t.Helper()
	var out []*source
	for _, p := range list(t, "./...", "./sim/...") {
		s := &source{name: strings.TrimPrefix(p.ImportPath, module), files: token.NewFileSet(), names: map[string]bool{}, fields: map[string]bool{}}
		paths, err := filepath.Glob(filepath.Join("../..", s.name, "*.go"))
		require.NoError(t, err)
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			tree, err := parser.ParseFile(s.files, path, nil, parser.ParseComments)
			require.NoError(t, err)
			s.trees = append(s.trees, tree)
			for _, d := range tree.Decls {
				s.declare(d)
			}
		}
		out = append(out, s)
	}
	for _, s := range out {
		s.follow(out)
	}
	return out
}

// follow declares what a type has that is another name for one of a package which nobody
// outside can import.
func (s *source) follow(all []*source) {
	for _, tree := range s.trees {
		imports := imports(tree)
		for _, d := range tree.Decls {
			d, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range d.Specs {
				spec, ok := spec.(*ast.TypeSpec)
				if !ok || !spec.Assign.IsValid() {
					continue
				}
				is, ok := spec.Type.(*ast.SelectorExpr)
				if !ok {
					continue
				}
				path := strings.TrimPrefix(imports[is.X.(*ast.Ident).Name], module)
				i := slices.IndexFunc(all, func(o *source) bool { return o.name == path && !public(path) })
				if i < 0 {
					continue
				}
				for name := range all[i].names {
					if member, ok := strings.CutPrefix(name, is.Sel.Name+"."); ok {
						s.names[spec.Name.Name+"."+member] = true
						if all[i].fields[name] {
							s.fields[spec.Name.Name+"."+member] = true
						}
					}
				}
			}
		}
	}
}

// imports are those of a file, by the names that it uses.
func imports(tree *ast.File) map[string]string {
	out := map[string]string{}
	for _, i := range tree.Imports {
		path := strings.Trim(i.Path.Value, `"`)
		name := path[strings.LastIndex(path, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		out[name] = path
	}
	return out
}

func (s *source) declare(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		s.names[receiver(d)+d.Name.Name] = true
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					s.names[name.Name] = true
				}
			case *ast.TypeSpec:
				s.names[spec.Name.Name] = true
				s.members(spec.Name.Name, spec.Type)
				if is, ok := spec.Type.(*ast.StructType); ok {
					of := &source{names: s.fields}
					of.members(spec.Name.Name, is)
				}
			}
		}
	}
}

// members declares the fields of a struct and the methods of an interface.
func (s *source) members(of string, is ast.Expr) {
	var all *ast.FieldList
	switch is := is.(type) {
	case *ast.StructType:
		all = is.Fields
	case *ast.InterfaceType:
		all = is.Methods
	default:
		return
	}
	for _, f := range all.List {
		for _, name := range f.Names {
			s.names[of+"."+name.Name] = true
		}
	}
}

// receiver is the type of a method, with a dot; nothing for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	is := d.Recv.List[0].Type
	if star, ok := is.(*ast.StarExpr); ok {
		is = star.X
	}
	if index, ok := is.(*ast.IndexExpr); ok {
		is = index.X
	}
	return is.(*ast.Ident).Name + "."
}

// public says whether others may import a package of that name.
func public(name string) bool {
	for _, out := range []string{"cmd", "docs", "examples"} {
		if inside(name, out) {
			return false
		}
	}
	return name != "magefiles" && !slices.Contains(strings.Split(name, "/"), "internal") && !strings.HasPrefix(name, "sim/cmd")
}

// TestSurface: what a library user can name, but for fields, is in a file, so that the reviewer of a
// change sees what it adds to or removes from the promise.
func TestSurface(t *testing.T) {
	exported := func(name string) bool {
		for part := range strings.SplitSeq(name, ".") {
			if !ast.IsExported(part) {
				return false
			}
		}
		return true
	}
	var b strings.Builder
	for _, s := range sources(t) {
		if !public(s.name) {
			continue
		}
		var names []string
		for name := range s.names {
			if exported(name) && !s.fields[name] {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		fmt.Fprintf(&b, "%s (%d)\n", s.name, len(names))
		for _, name := range names {
			fmt.Fprintf(&b, "\t%s\n", name)
		}
	}
	same(t, "testdata/surface.txt", func(string) string { return b.String() })
}

// link is a doc link, as package go/doc/comment knows it, or what was meant to be one.
var link = regexp.MustCompile(`\[\*?((?:[a-z]\w*\.)?[A-Z]\w*(?:\.\w+)?)\]`)

// TestDocLinksPointSomewhere: [Name] in a comment is something of the package, and [pkg.Name]
// something of a package that it imports.
func TestDocLinksPointSomewhere(t *testing.T) {
	all := map[string]*source{}
	for _, s := range sources(t) {
		all[module+s.name] = s
	}
	for _, s := range all {
		known := map[string]string{}
		for _, tree := range s.trees {
			maps.Copy(known, imports(tree))
		}
		for _, tree := range s.trees {
			for _, group := range tree.Comments {
				for _, m := range link.FindAllStringSubmatch(group.Text(), -1) {
					assert.True(t, s.points(m[1], known, all), "%s: %s points nowhere", s.files.Position(group.Pos()), m[0])
				}
			}
		}
	}
}

// goName is a name of a package in a page: `pkg.Name`.
var goName = regexp.MustCompile("`\\*?([a-z][a-z0-9]*)\\.([A-Z]\\w*[a-z]\\w*)")

// TestPagesNameWhatIsThere: `pkg.Name` in a page is something of that package, if it is one of ours.
func TestPagesNameWhatIsThere(t *testing.T) {
	all := map[string][]*source{}
	for _, s := range sources(t) {
		all[filepath.Base(s.name)] = append(all[filepath.Base(s.name)], s)
	}
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	for _, page := range append(pages, "../../README.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range goName.FindAllStringSubmatch(string(text), -1) {
			ours := all[m[1]]
			assert.True(t, len(ours) == 0 || slices.ContainsFunc(ours, func(s *source) bool { return s.names[m[2]] }), "%s: %s is nowhere", page, m[0])
		}
	}
}

// points says whether a doc link of the package has something at its end.
func (s *source) points(to string, imports map[string]string, all map[string]*source) bool {
	pkg, name, ok := strings.Cut(to, ".")
	if !ok || ast.IsExported(pkg) {
		return s.names[to] && (!ok || ast.IsExported(name)) // nothing links to what is not exported
	}
	path, ok := imports[pkg]
	if !ok {
		_, ok = comment.DefaultLookupPackage(pkg)
		return ok
	}
	ours, ok := all[path]
	return !ok || ours.names[name] // what others have is theirs
}

// TestExamples: the page of every package has a program that runs. No program
// imports targets and conform, and one that shows qemu boots real machines: it is
// compiled only.
func TestExamples(t *testing.T) {
	for _, p := range list(t, "./...", "./sim/...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		if !public(name) || slices.Contains([]string{"magefiles/targets", "sim/conform", "sim/facts", "sim/qemu"}, name) {
			continue
		}
		tests, err := filepath.Glob(filepath.Join("../..", name, "*_test.go"))
		require.NoError(t, err)
		shown := slices.ContainsFunc(tests, func(path string) bool {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			return regexp.MustCompile(`(?ms)^func Example.*?^\t// (Unordered o|O)utput:`).Match(text)
		})
		assert.True(t, shown, "%s has no Example with an output", name)
	}
}
