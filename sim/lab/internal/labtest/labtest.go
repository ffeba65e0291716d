// Package labtest builds the lab's program, and that of the Mage targets, for tests: once for all of them.
package labtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
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

// Binary returns the path of the program for what is real.
func Binary(t *testing.T, guests labctl.Guests) string {
	t.Helper()
	if dir := os.Getenv(BinaryEnv); dir != "" {
		return filepath.Join(dir, labctl.Program(guests))
	}
	exe, err := programs[labctl.Program(guests)]()
	require.NoError(t, err)
	return exe
}

// Homelab returns the path of the Mage targets as a program, which `go tool mage` runs for a
// user.
func Homelab(t *testing.T) string {
	t.Helper()
	exe, err := programs["homelab"]()
	require.NoError(t, err)
	return exe
}

// programs builds each once for all tests of a process: that it is up to date costs Go seconds.
var programs = map[string]func() (string, error){
	labctl.Program(Real()):          sync.OnceValues(func() (string, error) { return buildLab(Real()) }),
	labctl.Program(labctl.Guests{}): sync.OnceValues(func() (string, error) { return buildLab(labctl.Guests{}) }),
	"homelab":                       sync.OnceValues(buildHomelab),
}

func buildLab(guests labctl.Guests) (string, error) {
	dir, unlock, err := locked()
	if err != nil {
		return "", err
	}
	defer unlock()
	return labctl.Build(context.Background(), labctl.Options{Dir: dir, Source: root(), Guests: guests}) //nolint:forbidigo // all tests use it, not the one that asks first
}

func buildHomelab() (string, error) {
	dir, unlock, err := locked()
	if err != nil {
		return "", err
	}
	defer unlock()
	exe := filepath.Join(dir, "homelab")
	compile := exec.CommandContext(context.Background(), "go", "tool", "mage", "-compile", exe) //nolint:forbidigo // the same
	compile.Dir = root()
	if out, err := compile.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return exe, nil
}

// Provide puts a program of the lab where a command would build it in dir, a lab's folder:
// there Go finds that it is up to date, which saves the linker's half minute.
func Provide(t *testing.T, dir string, guests labctl.Guests) {
	t.Helper()
	exe, bin := Binary(t, guests), filepath.Join(dir, "bin")
	require.NoError(t, os.MkdirAll(bin, 0o700))
	_ = os.Link(exe, filepath.Join(bin, filepath.Base(exe))) // elsewhere than on one file system it is built
}

// locked returns the folder in which programs are built, locked against other processes: tests of several packages run at
// the same time.
func locked() (dir string, unlock func(), err error) {
	dir = filepath.Join(root(), ".lab", "test")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	lock, err := os.Create(filepath.Join(dir, "build.lock"))
	if err != nil {
		return "", nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", nil, errors.Join(err, lock.Close())
	}
	return dir, func() { _ = lock.Close() }, nil
}

// root is the repository.
func root() string {
	_, file, _, _ := runtime.Caller(0)
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
