// Package labtest builds the lab's program, and that of the Mage targets, for tests: once for all of them.
package labtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/sim/qemu"
)

// BinaryEnv names a folder with existing builds of the programs, for work on a test: building
// takes longer than most tests.
const BinaryEnv = "HOMELAB_LAB_BIN"

// Real is what the lab's program with everything that is real in it is asked for.
func Real() labctl.Guests { return labctl.Guests{Kubernetes: true} }

// Binary returns the path of the program for what is real. Tests of several packages run at the
// same time; a lock lets one of them build it.
func Binary(t *testing.T, guests labctl.Guests) string {
	t.Helper()
	if dir := os.Getenv(BinaryEnv); dir != "" {
		return filepath.Join(dir, labctl.Program(guests))
	}
	dir, unlock := locked(t)
	defer unlock()
	exe, err := labctl.Build(t.Context(), labctl.Options{Dir: dir, Source: root(t), Guests: guests})
	require.NoError(t, err)
	return exe
}

// Homelab returns the path of the Mage targets as a program, which `go tool mage` runs for a
// user. If nothing has changed it takes a second.
func Homelab(t *testing.T) string {
	t.Helper()
	dir, unlock := locked(t)
	defer unlock()
	exe := filepath.Join(dir, "homelab")
	compile := exec.CommandContext(t.Context(), "go", "tool", "mage", "-compile", exe)
	compile.Dir = root(t)
	out, err := compile.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return exe
}

// Provide puts a program of the lab where a command would build it in dir, a lab's folder:
// there Go finds that it is up to date, which saves the linker's half minute.
func Provide(t *testing.T, dir string, guests labctl.Guests) {
	t.Helper()
	exe, bin := Binary(t, guests), filepath.Join(dir, "bin")
	require.NoError(t, os.MkdirAll(bin, 0o700))
	_ = os.Link(exe, filepath.Join(bin, filepath.Base(exe))) // elsewhere than on one file system it is built
}

// locked returns the folder in which programs are built, locked against other builds.
func locked(t *testing.T) (dir string, unlock func()) {
	t.Helper()
	dir = filepath.Join(root(t), ".lab", "test")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	lock, err := os.Create(filepath.Join(dir, "build.lock"))
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	return dir, func() { _ = lock.Close() }
}

// root is the repository.
func root(t *testing.T) string {
	t.Helper()
	_, file, _, ok := runtime.Caller(0)
	require.True(t, ok)
	return filepath.Join(filepath.Dir(file), "..", "..", "..", "..")
}

// Image returns the image that real guests boot, and skips the test on a machine that cannot
// run them; in CI it fails instead.
func Image(t *testing.T) qemu.Image {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: real guests take minutes, and -short is set")
	}
	if lacks := qemu.Missing(); len(lacks) > 0 {
		if os.Getenv("CI") != "" && os.Getenv("HOMELAB_NO_GUESTS") == "" { // .ci/run sets it where they are not available
			require.Empty(t, lacks, "CI runs real guests, and this machine lacks Debian packages for them")
		}
		t.Skip("SKIPPED: this machine cannot run real guests, it lacks " + strings.Join(lacks, ", "))
	}
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	image, err := qemu.Debian(t.Context(), filepath.Join(cache, "homelab"))
	if err != nil && os.Geteuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("SKIPPED: no real guest: " + err.Error())
	}
	require.NoError(t, err)
	return image
}
