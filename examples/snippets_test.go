package examples_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// packages are what snippets may use, by the name that they call it.
var packages = map[string]string{
	"fmt": "fmt", "proxmox": module + "/proxmox", "pvesim": module + "/sim/pvesim", "cloudinit": module + "/cloudinit",
	"remote": module + "/remote", "ssh": module + "/remote/ssh", "k3s": module + "/k3s", "nvidia": module + "/nvidia",
	"kube": module + "/kube", "converge": module + "/converge", "secret": module + "/secret", "cluster": module + "/cluster",
	"clusterfile": module + "/cluster/clusterfile",
}

var snippet = regexp.MustCompile("(?s)```go\n(.*?)```")

// TestSnippetsFitThePackages type-checks the snippets of docs/embedding.md. What they
// take from around them may be anything; what they use of ours must be as they use it.
func TestSnippetsFitThePackages(t *testing.T) {
	page, err := os.ReadFile("../docs/embedding.md")
	require.NoError(t, err)
	found := snippet.FindAllSubmatch(page, -1)
	require.Greater(t, len(found), 8)
	imports := exportData(t)
	for _, m := range found {
		for _, problem := range check(t, imports, string(m[1])) {
			t.Errorf("docs/embedding.md: %s in\n%s", problem, m[1])
		}
	}
}

func TestSnippetsAreChecked(t *testing.T) {
	imports := exportData(t)
	assert.NotEmpty(t, check(t, imports, "k3s.NoSuchThing()\n"))
	assert.NotEmpty(t, check(t, imports, "x := proxmox.HostPCI{NoSuchField: 1}\n"))
	assert.NotEmpty(t, check(t, imports, "a, b, c := secret.FromEnv(name)\n"))
	assert.Empty(t, check(t, imports, "a, err := secret.FromEnv(name)\n"))
}

// exportData makes an importer of what the compiler knows of our packages.
func exportData(t *testing.T) types.Importer {
	t.Helper()
	args := append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, slices.Sorted(maps.Values(packages))...)
	files := map[string]string{}
	for line := range strings.Lines(goTool(t, outside(t), args...)) {
		if path, file, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			files[path] = file
		}
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
}

// check returns what is wrong with a snippet, but for names that it does not define
// and results that it does not use.
func check(t *testing.T, imports types.Importer, code string) (problems []string) {
	t.Helper()
	header := "package snippet\n"
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		header += fmt.Sprintf("import %s %q\n", name, packages[name])
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "snippet.go", header+"func _() {\n"+code+"}\n", 0)
	require.NoError(t, err)
	config := types.Config{Importer: imports, Error: func(err error) {
		var problem types.Error
		require.ErrorAs(t, err, &problem)
		message := problem.Msg
		for _, fine := range []string{"declared and not used", "imported and not used", "imported as", "no new variables"} {
			if strings.Contains(message, fine) {
				return
			}
		}
		if name, undefined := strings.CutPrefix(message, "undefined: "); undefined && !strings.Contains(name, ".") {
			return
		}
		problems = append(problems, message)
	}}
	_, _ = config.Check("snippet", files, []*ast.File{file}, nil)
	return problems
}
