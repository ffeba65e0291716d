package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func checkout(t *testing.T) version {
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	return version{version: "v0.0.0", checkout: dir}
}

// A folder that was made has every target at once, and a word that is none is told.
func TestANewFolderWorks(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "a folder with blanks")
	from := checkout(t)
	// In the same place each time: Go compiles again what it finds elsewhere.
	linked := filepath.Join(from.checkout, ".lab", "test", "a checkout with blanks")
	require.NoError(t, os.MkdirAll(filepath.Dir(linked), 0o700))
	_ = os.Remove(linked) // of a run that was killed
	require.NoError(t, os.Symlink(from.checkout, linked))
	t.Cleanup(func() { assert.NoError(t, os.Remove(linked)) })
	dir := filepath.Join(parent, "My Cluster!")
	require.NoError(t, newFolder(t.Context(), dir+"/", version{version: from.version, checkout: linked}))
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	assert.Contains(t, string(mod), "module my-cluster\n")
	assert.Contains(t, string(mod), "tool github.com/cps-gpu/homelab/cmd/mage\n")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "own.go"), []byte(`//go:build mage

package main

import (
	"fmt"

	//mage:import infra
	_ "my-cluster/infra"
)

// Mine is a target of one's own.
func Mine(
	loud *bool, // with a louder voice
) {
	fmt.Println("mine was here")
}
`), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "infra"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "infra", "infra.go"), []byte(`package infra

import "fmt"

// Deploy deploys.
func Deploy(where string, dry, slow *bool) { fmt.Println("deployed to", where) }
`), 0o600))
	program := filepath.Join(t.TempDir(), "program")
	compile := exec.CommandContext(t.Context(), "go", "tool", "mage", "-compile", program)
	compile.Dir = dir
	out, err := compile.CombinedOutput()
	require.NoError(t, err, string(out))
	for _, x := range []struct{ args, want string }{
		{"-l", "cluster:up"},
		{"cluster:validate", "eight-a100 is valid"},
		{"cluster:vlidate", "did you mean cluster:validate?"},
		{"mine", "mine was here"},
		{"mine -laud", "is -loud meant?"},
		{"mine -h", "-loud  with a louder voice"},
		{"infra:deploy here -dry mine", "deployed to here\nmine was here"},
		{"infra:deploy here -dyr", "is -dry meant?"},
		{"infra:deplyo here", "did you mean infra:deploy?"},
	} {
		cmd := exec.CommandContext(t.Context(), program, strings.Fields(x.args)...)
		cmd.Dir = dir
		out, _ := cmd.CombinedOutput()
		assert.Contains(t, string(out), x.want, x.args)
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing half made beside it")
}

// What is there is left alone, and what fails leaves nothing.
func TestAFolderIsWholeOrNotThere(t *testing.T) {
	parent := t.TempDir()
	for _, name := range []string{"full", "file", "dangling"} {
		path := filepath.Join(parent, name)
		switch name {
		case "full":
			require.NoError(t, os.Mkdir(path, 0o700))
		case "file":
			require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
		case "dangling":
			require.NoError(t, os.Symlink("nowhere", path))
		}
		require.ErrorContains(t, newFolder(t.Context(), path, checkout(t)), "exists already")
	}
	require.ErrorContains(t, newFolder(t.Context(), filepath.Join(parent, "new"), version{version: "v0.0.0", checkout: "/nowhere"}), "go list")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, newFolder(ctx, filepath.Join(parent, "new"), checkout(t)), "interrupted; nothing was made")
	entries, err := os.ReadDir(parent)
	require.NoError(t, err)
	assert.Len(t, entries, 3)
}

func TestCommandLine(t *testing.T) {
	for _, args := range []string{"new", "nwe x", "new -x", "new a b"} {
		assert.Equal(t, 3, command(t.Context(), strings.Fields(args)), args)
	}
	assert.Equal(t, 0, command(t.Context(), []string{"-h"}))
}

func FuzzModuleName(f *testing.F) {
	for _, name := range []string{"my-cluster", "Mein Café", "..", "_", "a.b"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		assert.Regexp(t, `^[a-z0-9_][a-z0-9._-]*$`, moduleName(name))
		assert.NotRegexp(t, `[.-]$`, moduleName(name))
	})
}
