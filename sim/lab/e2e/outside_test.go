package e2e

import (
	"archive/zip"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/share"
)

// The folder of a user who has Go and nothing of ours: our modules come from a proxy
// of modules, and the lab is built from there.
func TestAFolderOfOnesOwn(t *testing.T) {
	t.Parallel()
	if mine := share.OneOf(t, 2, "outsiders"); !mine.Next() {
		return // it compiles everything again: every second run has this
	}
	o := newOutsider(t)
	o.in(t, o.dir, "go", "run", "github.com/cps-gpu/homelab/cmd/homelab@"+o.version, "new", "my-cluster")
	mine := filepath.Join(o.dir, "my-cluster")
	o.in(t, mine, "go", "tool", "mage", "-compile", "../program")
	program := filepath.Join(o.dir, "program")
	t.Cleanup(func() { o.in(t, mine, program, "lab:stop") })
	said := o.in(t, mine, program, "cluster:init", "-endpoint=lab", "-name=mine", "-servers=1", "-yes")
	assert.Contains(t, said, "Wrote cluster.yaml")
	assert.Contains(t, o.in(t, mine, program, "cluster:up", "-yes"), "Done in ")
	assert.Contains(t, o.in(t, mine, program, "cluster:up", "-yes"), "Nothing to change")
	below := filepath.Join(mine, "notes", "2026")
	require.NoError(t, os.MkdirAll(below, 0o755))
	assert.Contains(t, o.in(t, below, "sh", "-c", `go tool mage -d "$(go list -m -f '{{.Dir}}')" cluster:plan`), "Nothing to change")
	assert.Contains(t, o.in(t, mine, program, "cluster:down", "-yes"), "Gone.")
	for _, name := range []string{"go.mod", "go.sum", "magefile.go", "cluster.yaml", "README.md"} {
		assert.FileExists(t, filepath.Join(mine, name))
	}
}

// Who tests a program of their own against the simulator gets the simulator and nothing that it judges; who uses the
// library gets no simulator. Never beside TestAFolderOfOnesOwn, which has the same version in Go's cache.
func TestModulesComeAlone(t *testing.T) {
	mine := share.OneOf(t, 2, "outsiders")
	mine.Next()
	if !mine.Next() {
		return
	}
	o := newOutsider(t)
	const simulator = `package main

import "github.com/cps-gpu/homelab/sim/pvesim"

func main() {
	sim := pvesim.New(pvesim.OneGPU(), pvesim.Options{})
	defer sim.Close()
	id, _ := sim.Token()
	println("token", id)
}
`
	const product = `package main

import "github.com/cps-gpu/homelab/proxmox"

func main() {
	_, err := proxmox.Dial(nil, proxmox.Config{})
	println("error", err.Error())
}
`
	const ours = "github.com/cps-gpu/homelab"
	for _, x := range []struct{ requires, program, says, without string }{
		{ours + "/sim", simulator, "token homelab@pve!", ours},
		{ours, product, "error proxmox endpoint", ours + "/sim"},
	} {
		dir := filepath.Join(o.dir, filepath.Base(x.requires))
		require.NoError(t, os.Mkdir(dir, 0o700))
		for name, text := range map[string]string{"main.go": x.program, "go.mod": "module outside.example/program\n\ngo 1.26.0\n\nrequire " + x.requires + " " + o.version + "\n"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		o.in(t, dir, "go", "build", "-mod=mod", "-o", "program", ".")
		assert.Contains(t, o.in(t, dir, "./program"), x.says)
		for _, file := range []string{"go.mod", "go.sum"} { // what is not in go.sum was not downloaded
			text, err := os.ReadFile(filepath.Join(dir, file))
			require.NoError(t, err)
			assert.Contains(t, string(text), x.requires+" ", file)
			assert.NotContains(t, string(text), x.without+" ", file)
		}
	}
}

// outsider has a folder, and modules of ours that Go finds nowhere else.
type outsider struct {
	dir, version string
	env          []string
}

func newOutsider(t *testing.T) *outsider {
	t.Helper()
	o := &outsider{dir: t.TempDir()}
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	require.NoError(t, err)
	modules := strings.TrimSpace(string(cache))
	_, file, _, ok := runtime.Caller(0)
	require.True(t, ok)
	root := filepath.Join(filepath.Dir(file), "..", "..", "..")
	o.version = versionOf(t, root)
	proxy := filepath.Join(o.dir, "proxy")
	for name, dir := range map[string]string{"github.com/cps-gpu/homelab": root, "github.com/cps-gpu/homelab/sim": filepath.Join(root, "sim"), "github.com/cps-gpu/homelab/sim/lab": filepath.Join(root, "sim", "lab")} {
		forget(t, modules, name, o.version) // of a run that was killed
		publish(t, filepath.Join(proxy, name, "@v"), name, o.version, dir)
		t.Cleanup(func() { forget(t, modules, name, o.version) })
	}
	o.env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOSUMDB=off", "GOPRIVATE=", "GOTOOLCHAIN=local",
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(modules, "cache", "download"))
	return o
}

// versionOf is a version for a clone and its sources. Go keeps an index of each version's
// files, so other sources need another version; the same ones are not compiled again.
func versionOf(t *testing.T, root string) string {
	t.Helper()
	sum := sha256.New()
	_, _ = io.WriteString(sum, root)
	require.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		_, _ = fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
		return err
	}))
	return fmt.Sprintf("v0.0.0-20260101000000-%x", sum.Sum(nil)[:6])
}

// in runs a command in a folder, and returns what it said.
func (o *outsider) in(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, o.env
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%v: %s", args, out)
	return string(out)
}

// publish puts a module where a proxy has it (go help goproxy): nested modules and hidden
// folders are no part of it.
func publish(t *testing.T, to, name, version, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(to, 0o700))
	out, err := os.Create(filepath.Join(to, version+".zip"))
	require.NoError(t, err)
	w := zip.NewWriter(out)
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if e.IsDir() {
			_, nested := os.Stat(filepath.Join(path, "go.mod"))
			if nested == nil || strings.HasPrefix(e.Name(), ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if !e.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		f, err := w.Create(name + "@" + version + "/" + filepath.ToSlash(rel))
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		return err
	}))
	require.NoError(t, w.Close())
	require.NoError(t, out.Close())
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(to, version+".mod"), mod, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(to, "list"), []byte(version+"\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(to, version+".info"), fmt.Appendf(nil, `{"Version":%q}`, version), 0o600))
}

// forget takes one version of ours out of Go's cache of modules.
func forget(t *testing.T, modules, name, version string) {
	t.Helper()
	dir := filepath.Join(modules, name+"@"+version)
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			return os.Chmod(path, 0o700) // Go keeps them read-only
		}
		return err
	})
	require.NoError(t, os.RemoveAll(dir))
	of := filepath.Join(modules, "cache", "download", name, "@v")
	files, err := filepath.Glob(filepath.Join(of, version+".*"))
	require.NoError(t, err)
	for _, f := range files {
		require.NoError(t, os.Remove(f))
	}
	if left, err := filepath.Glob(filepath.Join(of, "*.info")); err == nil && len(left) == 0 {
		require.NoError(t, os.RemoveAll(of))
	}
}
