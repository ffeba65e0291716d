// Package labtest builds the lab's program for tests, once for all of them.
package labtest

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/sim/qemu"
)

// BinaryEnv names a program that was built before, for those who change a test again
// and again: building it takes longer than most tests.
const BinaryEnv = "HOMELAB_LABD"

// Binary returns the path of the program. Tests of several packages run at the
// same time; a lock lets one of them build it.
func Binary(t *testing.T) string {
	t.Helper()
	if exe := os.Getenv(BinaryEnv); exe != "" {
		return exe
	}
	dir := filepath.Join(root(t), ".lab", "test")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	lock, err := os.Create(filepath.Join(dir, "build.lock"))
	require.NoError(t, err)
	defer lock.Close()
	require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	exe, err := labctl.Build(t.Context(), labctl.Options{Dir: dir, Source: root(t)})
	require.NoError(t, err)
	return exe
}

// root is the repository.
func root(t *testing.T) string {
	t.Helper()
	_, file, _, ok := runtime.Caller(0)
	require.True(t, ok)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// Image returns the image that real guests boot, and leaves the test out where a machine
// cannot have any; CI can.
func Image(t *testing.T) qemu.Image {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: real guests take minutes, and -short was asked for")
	}
	if lacks := qemu.Missing(); len(lacks) > 0 {
		if os.Getenv("CI") != "" && os.Getenv("HOMELAB_NO_GUESTS") == "" { // .ci/run sets it where they cannot be had
			require.Empty(t, lacks, "CI runs real guests, and this machine lacks Debian packages for them")
		}
		t.Skip("SKIPPED: no real guest on this machine, which lacks " + strings.Join(lacks, ", "))
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
