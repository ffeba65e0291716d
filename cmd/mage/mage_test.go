package main

import (
	"debug/buildinfo"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/labctl"
)

const mod = `module own

go 1.26

require github.com/magefile/mage v1.17.2
`

const magefile = `//go:build mage

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"own/words"
)

// Say says it.
func Say(ctx context.Context, loud *bool) error {
	dir, _ := os.Getwd()
	fmt.Println(words.Hello, loud != nil && *loud, dir)
	return nil
}

// Fail fails.
func Fail() error { return errors.New("on purpose") }
`

// project is a module with a magefile, and the program to test.
type project struct {
	t                   *testing.T
	dir, program, cache string
}

func newProject(t *testing.T) project {
	t.Helper()
	p := project{t: t, dir: t.TempDir(), program: filepath.Join(t.TempDir(), programName), cache: t.TempDir()}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", p.program, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	sums, err := os.ReadFile("../../go.sum")
	require.NoError(t, err)
	p.write("go.mod", mod)
	p.write("go.sum", string(sums))
	p.write("magefile.go", magefile)
	p.write("words/words.go", "package words\n\nconst Hello = \"hello\"\n")
	return p
}

func (p project) write(name, text string) {
	path := filepath.Join(p.dir, name)
	require.NoError(p.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(p.t, os.WriteFile(path, []byte(text), 0o600))
}

// mage runs a command line in the folder.
func (p project) mage(args ...string) (out, said string, code int) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), p.program, args...)
	var stdout, stderr strings.Builder
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, &stdout, &stderr
	// As in a target of another Mage, which says MAGEFILE_VERBOSE=0 to what it runs.
	cmd.Env = append(os.Environ(), "MAGEFILE_VERBOSE=0", "MAGEFILE_CACHE="+p.cache, "GOFLAGS=-mod=mod", "GOWORK=off")
	err := cmd.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return stdout.String(), stderr.String(), exit.ExitCode()
	}
	require.NoError(p.t, err)
	return stdout.String(), stderr.String(), 0
}

// compiled is when the folder's program was compiled.
func (p project) compiled() time.Time {
	found, err := filepath.Glob(filepath.Join(p.cache, "*", programName))
	require.NoError(p.t, err)
	require.Len(p.t, found, 1)
	st, err := os.Stat(found[0])
	require.NoError(p.t, err)
	return st.ModTime()
}

// Every command line of Mage's works, before anything was compiled and after it.
func TestCommandLines(t *testing.T) {
	p := newProject(t)
	real, err := filepath.EvalSymlinks(p.dir)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(p.dir, "below"), 0o700))
	for range 2 {
		for _, x := range []struct {
			args, out, said string
			code            int
		}{
			{"-l", "say     says it.", "", 0},
			{"-h say", "-loud", "", 0},
			{"say", "hello false " + real, "", 0},
			{"-v say -loud", "hello true", "Running target: Say", 0},
			{"-t 1m say fail", "hello", "Error: on purpose", 1},
			{"-t=1m -d . -w below say", "hello false " + filepath.Join(real, "below"), "", 0},
			{"fail", "", "Error: on purpose", 1},
			{"nothing", "", `Unknown target specified: "nothing"`, 2},
			{"-h", "mage [options] [target]", "", 0},
			{"-nothing", "flag provided but not defined", "", 2},
			{"-version", "Mage Build Tool v1.17.2", "", 0},
			{"-autocomplete", "fail\nsay\n", "", 0},
		} {
			out, said, code := p.mage(strings.Fields(x.args)...)
			assert.Equal(t, x.code, code, x.args)
			assert.Contains(t, out+said, x.out, x.args)
			assert.Contains(t, said, x.said, x.args)
		}
	}
	_, said, code := p.mage("-compile", filepath.Join(p.dir, "below", "mine"))
	require.Zero(t, code, said)
	require.FileExists(t, filepath.Join(p.dir, "below", "mine"))
	require.NoFileExists(t, filepath.Join(p.dir, generated))
}

// What nothing has changed for is not compiled again; any change of what it was compiled from is seen.
func TestCompilesAfterAChange(t *testing.T) {
	p := newProject(t)
	_, said, _ := p.mage("say")
	assert.Contains(t, said, "the first command in this folder compiles")
	was := p.compiled()
	p.write("cluster.yaml", "name: x\n")
	_, said, _ = p.mage("say")
	assert.Empty(t, said)
	assert.Equal(t, was, p.compiled())

	p.write("words/words.go", "package words\n\nconst Hello = \"good morning\"\n")
	out, said, _ := p.mage("say")
	assert.Contains(t, out, "good morning")
	assert.Empty(t, said)
	p.write("words/words.go", "package words\n\nfunc init() { println(\"more\") }\n\nconst Hello = Other\n")
	p.write("words/other.go", "package words\n\nconst Other = \"from another file\"\n")
	out, _, _ = p.mage("say")
	assert.Contains(t, out, "from another file")
	p.write("words/third.go", "package words\n\nfunc init() { println(\"third\") }\n")
	_, said, _ = p.mage("say")
	assert.Contains(t, said, "third", "a file that is new in the folder of a package")
	p.write("second.go", "//go:build mage\n\npackage main\n\n// Second is another target.\nfunc Second() { println(\"second\") }\n")
	_, said, _ = p.mage("second")
	assert.Contains(t, said, "second")
	was = p.compiled()
	p.write("go.mod", mod+"\n// changed\n")
	p.mage("say")
	assert.NotEqual(t, was, p.compiled())
	was = p.compiled()
	p.mage("-f", "say")
	assert.NotEqual(t, was, p.compiled())

	p.write("second.go", "//go:build mage\n\npackage main\n\nfunc Second() { nothing() }\n")
	_, said, code := p.mage("say")
	assert.Equal(t, 1, code)
	assert.Contains(t, said, "undefined: nothing")
	p.write("second.go", "//go:build mage\n\npackage main\n\nfunc Second() {}\n")
	_, _, code = p.mage("second")
	assert.Zero(t, code)
}

// The program has nothing for debuggers, whatever else the user has in GOFLAGS, and the lab is compiled alike.
func TestCompilerFlags(t *testing.T) {
	p := newProject(t)
	p.write("magefile.go", strings.Replace(magefile, "words.Hello", `os.Getenv("GOFLAGS")`, 1)+"\nconst _ = words.Hello\n")
	out, said, code := p.mage("say")
	require.Zero(t, code, said)
	assert.Contains(t, out, "-mod=mod false", "targets run with the user's settings")
	found, err := filepath.Glob(filepath.Join(p.cache, "*", programName))
	require.NoError(t, err)
	require.Len(t, found, 1)
	info, err := buildinfo.ReadFile(found[0])
	require.NoError(t, err)
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	assert.Equal(t, "-s", settings["-ldflags"])
	assert.Equal(t, "kustomize_disable_go_plugin_support", settings["-tags"])
	assert.Equal(t, "std=", settings["-gcflags"], "the last one")
	assert.Equal(t, flags, strings.Join(labctl.CompilerFlags(), " ")+" -ldflags=-s")
}

// What is kept for a folder that is gone is removed by the next compilation, and everything by -clean.
func TestForgets(t *testing.T) {
	p := newProject(t)
	gone := filepath.Join(p.cache, "homelab-gone")
	require.NoError(t, os.Mkdir(gone, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(gone, "folder"), []byte(filepath.Join(p.dir, "gone")), 0o600))
	_, said, code := p.mage("say")
	require.Zero(t, code, said)
	assert.NoDirExists(t, gone)
	p.compiled()
	out, said, code := p.mage("-clean")
	assert.Zero(t, code, said)
	assert.Contains(t, out, "cleaned")
	left, err := os.ReadDir(p.cache)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// Several commands that begin at once in one folder all do what they are for. Mage alone writes one file
// in the folder, and all but one of them end with "open ./mage_output_file.go".
func TestSeveralAtOnce(t *testing.T) {
	p := newProject(t)
	var all sync.WaitGroup
	waited := make([]bool, 4)
	for i := range waited {
		all.Go(func() {
			args := []string{"say"}
			if i == len(waited)-1 {
				args = []string{"-compile", filepath.Join(t.TempDir(), "mine")}
			}
			_, said, code := p.mage(args...)
			assert.Zero(t, code, said)
			waited[i] = strings.Contains(said, waiting)
		})
	}
	all.Wait()
	assert.Contains(t, waited, true)
	assert.NoFileExists(t, filepath.Join(p.dir, generated))
}

// On its way to the first word it imports nothing that takes long to compile.
func TestImportsLittle(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	deps := strings.Fields(string(out))
	assert.Less(t, len(deps), 75)
	assert.NotContains(t, deps, "fmt")
	assert.NotContains(t, deps, "github.com/magefile/mage/mage")
}

// The first packages wait for one another: from their pace a minute seems to be eight.
func TestNoGuessBeforeAQuarter(t *testing.T) {
	for done, guesses := range map[int]bool{0: false, 1: false, 24: false, 25: true, 99: true} {
		b := bar{of: 100, done: done, begin: time.Now().Add(-time.Minute)}
		assert.Equal(t, guesses, strings.HasSuffix(b.rest(), " left"), "%d of 100", done)
	}
	assert.Empty(t, (&bar{}).rest())
}

func TestProgressNamesThePackage(t *testing.T) {
	const path = "github.com/cps-gpu/homelab/converge"
	for room, want := range map[int]string{79: path, len(path): path, 19: "...homelab/converge", 3: "..."} {
		if got := ending(path, room); got != want {
			t.Errorf("%d columns: %q, not %q", room, got, want)
		}
	}
}
