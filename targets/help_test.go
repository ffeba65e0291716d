package targets

import (
	"bytes"
	"cmp"
	"flag"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "copy the comments of the flags' fields to the parameters")

// The help of a flag is the comment of the field of internal/session that the flag fills. Mage
// reads comments of parameters, so they are copies.
func TestHelpIsThatOfTheFields(t *testing.T) {
	fields := flagFields(t)
	files, err := fs.Glob(source, "*.go")
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		was, err := os.ReadFile(name)
		require.NoError(t, err)
		is := documented(t, name, was, fields)
		if *update {
			require.NoError(t, os.WriteFile(name, is, 0o600))
			continue
		}
		assert.Equal(t, string(is), string(was), "go test ./targets -run Help -update")
	}
}

// flagFields are the structs of flags: by type and by the name of the flag, the comment.
func flagFields(t *testing.T) map[string]map[string]string {
	rooms, err := filepath.Glob("../internal/session/*/flags.go")
	require.NoError(t, err)
	out := map[string]map[string]string{}
	for _, name := range append(rooms, "../internal/session/flags.go") {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		require.NoError(t, err)
		readFields(file, out)
	}
	return out
}

func readFields(file *ast.File, out map[string]map[string]string) {
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, s := range g.Specs {
			s := s.(*ast.TypeSpec)
			out[s.Name.Name] = map[string]string{}
			for _, f := range s.Type.(*ast.StructType).Fields.List {
				for _, n := range f.Names {
					out[s.Name.Name][strings.ToLower(n.Name)] = strings.TrimSpace(f.Comment.Text())
				}
			}
		}
	}
}

// documented is a file whose targets' parameters have the comments of their fields.
func documented(t *testing.T, name string, text []byte, fields map[string]map[string]string) []byte {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.ParseComments)
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if _, ok := targetOf(f, nil); !ok || !f.Name.IsExported() {
			continue
		}
		own, used := structsOf(f), map[string]bool{}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				used[id.Name] = true
			}
			return true
		})
		for _, p := range f.Type.Params.List {
			if _, ok := p.Type.(*ast.StarExpr); !ok {
				continue
			}
			flag := p.Names[0].Name
			help := ""
			for _, s := range own {
				help = cmp.Or(help, fields[s][flag])
			}
			assert.NotEmpty(t, help, "%s: no field of %s for -%s", f.Name.Name, own, flag)
			assert.True(t, used[flag], "%s does not use -%s", f.Name.Name, flag)
			at := files.Position(p.End()).Line - 1
			code, _, _ := strings.Cut(lines[at], "//")
			require.Len(t, p.Names, 1, "one parameter a line")
			lines[at] = strings.TrimRight(code, " ") + " // " + help
		}
	}
	var out bytes.Buffer
	out.WriteString(strings.Join(lines, "\n"))
	formatted, err := format.Source(out.Bytes())
	require.NoError(t, err)
	return formatted
}

// structsOf are the types of flags that a target fills, its own before those that it shares.
func structsOf(f *ast.FuncDecl) []string {
	shared := map[string]string{"options": "Options", "changes": "ChangeFlags", "hosts": "HostFlags"}
	var own, common []string
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if s, ok := n.Type.(*ast.SelectorExpr); ok {
				own = append(own, s.Sel.Name)
			}
		case *ast.SelectorExpr:
			if n.Sel.Name == "Charts" {
				common = append(common, "ChartFlags")
			}
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && shared[id.Name] != "" {
				common = append(common, shared[id.Name])
			}
		}
		return true
	})
	return append(own, common...)
}
