package archtest

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEverySystem: the packages and their tests compile on the systems that users of Go have. What cannot run on one
// has a build tag, or says so. The types are checked from source, with the bodies of our own functions only, which
// takes seconds where compilers would take minutes.
func TestEverySystem(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	for _, system := range []string{"windows", "darwin"} {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "-test", "-json=ImportPath,Dir,GoFiles,ImportMap,Module,Standard", "./...", "./sim/...")
		cmd.Dir, cmd.Env = root, append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0", "GOWORK="+filepath.Join(root, "go.work"))
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		c := checker{files: token.NewFileSet(), known: map[string]*types.Package{"unsafe": types.Unsafe}}
		packages := json.NewDecoder(out)
		for {
			var p source
			err := packages.Decode(&p)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			if !strings.HasSuffix(p.ImportPath, ".test") { // their files are Go's own
				for _, err := range c.check(p) {
					assert.NoError(t, err, system)
				}
			}
		}
		require.NoError(t, cmd.Wait())
		require.Greater(t, len(c.known), 500)
	}
}

// source is a package, of which go list prints the imports before it.
type source struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct{ Main bool }
	Standard        bool
}

type checker struct {
	files *token.FileSet
	known map[string]*types.Package
}

// check checks the types of a package; errors in others than ours are of function bodies that are left out.
func (c checker) check(p source) (errs []error) {
	ours := p.Module != nil && p.Module.Main
	var files []*ast.File
	for _, name := range p.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		f, err := parser.ParseFile(c.files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return []error{err}
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && !ours {
				fn.Body = nil
			}
		}
		files = append(files, f)
	}
	config := types.Config{
		FakeImportC: true, IgnoreFuncBodies: !ours, DisableUnusedImportCheck: !ours,
		Importer: importer(func(path string) (*types.Package, error) {
			if mapped, ok := p.ImportMap[path]; ok {
				path = mapped
			}
			if found := c.known[path]; found != nil {
				return found, nil
			}
			return nil, errors.New("no package " + path)
		}),
		Error: func(err error) {
			if ours {
				errs = append(errs, err)
			}
		},
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")
	c.known[p.ImportPath], _ = config.Check(path, c.files, files, nil)
	return errs
}

type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
