package archtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheRepositoryHoldsNoPrograms: a program that a test built was committed once, 155 MB, and every
// clone carries it since. The largest file that somebody wrote or recorded has 350 KiB.
func TestTheRepositoryHoldsNoPrograms(t *testing.T) {
	const most = 400 << 10
	out, err := exec.CommandContext(t.Context(), "git", "-C", "../..", "ls-files", "-z").Output()
	require.NoError(t, err)
	names := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	require.Greater(t, len(names), 100)
	for _, name := range names {
		info, err := os.Lstat(filepath.Join("../..", name))
		if err == nil { // not one that is being deleted
			assert.LessOrEqual(t, info.Size(), int64(most), "%s", name)
		}
	}
}
