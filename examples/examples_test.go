package examples_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var requireBlock = regexp.MustCompile(`(?ms)^require \(.*?^\)\n`)

const module = "github.com/cps-gpu/homelab"

// heavy are dependencies that reach nobody who does not use the package that owns them.
var heavy = []string{
	"github.com/luthermonson/go-proxmox", "golang.org/x/crypto/ssh", "k8s.io/client-go", "k8s.io/api/", "k8s.io/apimachinery",
	"github.com/goccy/go-yaml", "github.com/diskfs/go-diskfs", "github.com/magefile/mage", "mvdan.cc/sh",
	"helm.sh/helm/", "github.com/go-git/go-git/v5/plumbing/transport",
}

// programs are the numbered folders, each with the heavy dependencies that it may have.
var programs = map[string][]string{
	"01-attach-gpu":      {"github.com/luthermonson/go-proxmox", "github.com/diskfs/go-diskfs"}, // the second comes with the first
	"02-three-vms":       {"github.com/luthermonson/go-proxmox", "github.com/goccy/go-yaml", "github.com/diskfs/go-diskfs"},
	"03-two-machines":    {"golang.org/x/crypto/ssh"},
	"04-gpu-driver":      {"golang.org/x/crypto/ssh"},
	"05-hub-values":      {"k8s.io/client-go", "k8s.io/api/", "k8s.io/apimachinery", "github.com/goccy/go-yaml", "golang.org/x/crypto/ssh"}, // age's, of secrets by SOPS in a file
	"06-lint-repository": {"k8s.io/client-go", "k8s.io/api/", "k8s.io/apimachinery", "helm.sh/helm/", "github.com/goccy/go-yaml"},
	"07-whole-cluster": {"github.com/luthermonson/go-proxmox", "golang.org/x/crypto/ssh", "k8s.io/client-go", "k8s.io/api/", "k8s.io/apimachinery",
		"github.com/goccy/go-yaml", "github.com/diskfs/go-diskfs", "helm.sh/helm/"},
}

// TestNoProgramIsForgotten: what is numbered is tested, and short enough to be read.
func TestNoProgramIsForgotten(t *testing.T) {
	files, err := filepath.Glob("[0-9][0-9]-*/main.go")
	require.NoError(t, err)
	require.Len(t, files, len(programs))
	for _, file := range files {
		assert.Contains(t, programs, filepath.Dir(file))
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.LessOrEqual(t, bytes.Count(text, []byte("\n")), 60, file)
	}
}

// TestBuildsOutside builds every program in a module of its own, as somebody does who
// has copied it, and looks at what came along.
func TestBuildsOutside(t *testing.T) {
	dir := outside(t)
	for name, may := range programs {
		deps := strings.Fields(goTool(t, dir, "list", "-deps", "./"+name))
		for _, dep := range heavy {
			has := slices.ContainsFunc(deps, func(d string) bool { return strings.HasPrefix(d, dep) })
			assert.Equal(t, slices.Contains(may, dep), has, "%s depends on %s", name, dep)
		}
		assert.Equal(t, name == "07-whole-cluster", slices.Contains(deps, module+"/cluster"), "%s uses one package and not the whole", name)
	}
}

var shared struct {
	once sync.Once
	dir  string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

// outside returns the folder of a module that requires ours, with every program built in bin.
func outside(t *testing.T) string {
	t.Helper()
	shared.once.Do(func() {
		dir, err := os.MkdirTemp("", "outside")
		require.NoError(t, err)
		shared.dir = dir
		makeModule(t, dir)
	})
	require.DirExists(t, filepath.Join(shared.dir, "bin"), "it was not built: see the first test that needed it")
	return shared.dir
}

// makeModule makes a module that requires ours and the simulators, with every program in a folder, and
// builds them. Nothing is fetched: all that is needed is there since our own tests were
// built. Go would otherwise ask for the go.mod of more modules than those, so ours are
// listed, as "go mod tidy" would.
func makeModule(t *testing.T, dir string) {
	t.Helper()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	mod, sums := "module outside.example/programs\n\ngo 1.26.0\n", ""
	for _, m := range []struct{ path, dir string }{{module, root}, {module + "/sim", filepath.Join(root, "sim")}} {
		ours, err := os.ReadFile(filepath.Join(m.dir, "go.mod"))
		require.NoError(t, err)
		mod += "\nrequire " + m.path + " v0.0.0\n\nreplace " + m.path + " => " + m.dir + "\n\n" + string(bytes.Join(requireBlock.FindAll(ours, -1), []byte("\n")))
		sum, err := os.ReadFile(filepath.Join(m.dir, "go.sum"))
		require.NoError(t, err)
		sums += string(sum)
	}
	write(t, filepath.Join(dir, "go.mod"), mod)
	write(t, filepath.Join(dir, "go.sum"), sums)
	for name := range programs {
		text, err := os.ReadFile(filepath.Join(name, "main.go"))
		require.NoError(t, err)
		write(t, filepath.Join(dir, name, "main.go"), string(text))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	goTool(t, dir, "build", "-o", "bin/", "./...")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

func goTool(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go %s: %s", strings.Join(args, " "), stderr.String())
	return string(out)
}

// result is how a program went.
type result struct {
	code           int
	stdout, stderr string
}

// run runs a program that outside has built, with env, in a folder of its own, and with nothing
// else of ours.
func run(t *testing.T, program string, env []string, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(outside(t), "bin", program), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"HOME=" + cmd.Dir, "PATH=" + os.Getenv("PATH")}, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		require.NoError(t, err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}
