//go:build unix

package keep_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/keep"
)

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "key")
	require.NoError(t, keep.WriteFile(path, []byte("one"), 0o600))
	require.NoError(t, keep.WriteFile(path, []byte("two"), 0o600))
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "two", string(have))
	assert.Equal(t, []string{"key"}, names(t, filepath.Dir(path)))
	for _, p := range []string{path, filepath.Dir(path)} {
		info, err := os.Stat(p)
		require.NoError(t, err)
		assert.Zero(t, info.Mode().Perm()&0o077, "%s is for its owner alone", p)
	}
}

// TestModesAreThoseThatWereAsked: a file that others could read is not one afterwards.
func TestModesAreThoseThatWereAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	require.NoError(t, keep.WriteFile(path, nil, 0o600))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
}

func TestNoLinkIsFollowed(t *testing.T) {
	dir := t.TempDir()
	for name, to := range map[string]string{"nowhere": filepath.Join(dir, "elsewhere"), "somewhere": filepath.Join(dir, "theirs")} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "theirs"), []byte("theirs"), 0o600))
		require.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
		err := keep.WriteFile(filepath.Join(dir, name), []byte("ours"), 0o600)
		require.ErrorContains(t, err, "is a symbolic link to "+to+": remove the link, or name the file itself")
	}
	assert.ElementsMatch(t, []string{"nowhere", "somewhere", "theirs"}, names(t, dir))
	have, err := os.ReadFile(filepath.Join(dir, "theirs"))
	require.NoError(t, err)
	assert.Equal(t, "theirs", string(have))
}

// TestWhatIsNoFile: a folder, or a pipe that somebody waits at.
func TestWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	for _, name := range []string{"folder", "pipe"} {
		require.ErrorContains(t, keep.WriteFile(filepath.Join(dir, name), nil, 0o600), "is not a file")
	}
}

func TestFoldersOfOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		mode, perm fs.FileMode
		wrong      string
	}{
		"a secret where all may write":        {0o777, 0o600, "run chmod go-w "},
		"a secret where the group may write":  {0o770, 0o600, "run chmod go-w "},
		"a file where all may write":          {0o777, 0o644, "run chmod o-w "},
		"a file where the group may write":    {0o775, 0o644, ""},
		"a secret in a folder as /tmp":        {0o777 | fs.ModeSticky, 0o600, ""},
		"a secret in a folder that all read":  {0o755, 0o600, ""},
		"a secret in a folder of one's alone": {0o700, 0o600, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Chmod(dir, tc.mode))
			err := keep.WriteFile(filepath.Join(dir, "f"), []byte("x"), tc.perm)
			if tc.wrong == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.wrong+dir)
			assert.Empty(t, names(t, dir))
		})
	}
}

// TestALinkInThePlaceOfAFolder: a repository that somebody cloned may bring one.
func TestALinkInThePlaceOfAFolder(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "theirs"), 0o700))
	if os.Geteuid() == 0 { // whose links are the system's
		require.NoError(t, os.Chown(filepath.Join(dir, "theirs"), 1000, 1000))
	}
	require.NoError(t, os.Symlink("theirs", filepath.Join(dir, "link")))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Lchown(filepath.Join(dir, "link"), 1000, 1000))
	}
	err := keep.WriteFile(filepath.Join(dir, "link", "key"), nil, 0o600)
	require.ErrorContains(t, err, "its folder is a symbolic link to theirs")
	assert.Empty(t, names(t, filepath.Join(dir, "theirs")))
}

func TestWhatIsDiscardedLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	f, err := keep.Reserve(path, 0o600)
	require.NoError(t, err)
	f.Discard()
	f.Discard()
	(*keep.Reservation)(nil).Discard()
	assert.Empty(t, names(t, filepath.Dir(path)))
	f, err = keep.Reserve(path, 0o600)
	require.NoError(t, err)
	temp := filepath.Join(filepath.Dir(path), names(t, filepath.Dir(path))[0])
	require.NoError(t, f.Commit([]byte("ours")))
	require.NoError(t, os.WriteFile(temp, []byte("another owner's"), 0o600))
	f.Discard()
	assert.FileExists(t, temp, "the name is another owner's after Commit")
}

// inFull says where a process of this test is to write, on a disk that is full for it.
const inFull = "KEEP_TEST_FULL"

// TestAFullDisk has a process of its own, which may write files of one block alone.
func TestAFullDisk(t *testing.T) {
	if path := os.Getenv(inFull); path != "" {
		signal.Ignore(syscall.SIGXFSZ)
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1024, Max: 1024}))
		err := keep.WriteFile(path, bytes.Repeat([]byte("new\n"), 1024), 0o600)
		require.ErrorIs(t, err, syscall.EFBIG)
		require.ErrorContains(t, err, "is not written, the old contents stay")
		return
	}
	for name, before := range map[string]string{"nothing was there": "", "an older one was there": "old"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key")
			if before != "" {
				require.NoError(t, keep.WriteFile(path, []byte(before), 0o600))
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAFullDisk$")
			cmd.Env = append(os.Environ(), inFull+"="+path)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			if before == "" {
				assert.Empty(t, names(t, filepath.Dir(path)))
				return
			}
			have, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, before, string(have))
			assert.Equal(t, []string{"key"}, names(t, filepath.Dir(path)))
		})
	}
}

// A reserved file that cannot come to its place leaves what is there, and no temporary file; so does one whose folder is none.
func TestWhatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	f, err := keep.Reserve(path, 0o600)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(path, 0o700))
	require.ErrorContains(t, f.Commit([]byte("x")), path+" is not written, the old contents stay: ")
	f.Discard()
	assert.Equal(t, []string{"f"}, names(t, dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plain"), nil, 0o600))
	require.ErrorContains(t, keep.WriteFile(filepath.Join(dir, "plain", "f"), nil, 0o600), "the folder of "+filepath.Join(dir, "plain", "f"))
	require.NoError(t, keep.Check(filepath.Join(dir, "none", "f"), 0o600), "a folder that is missing will be ours")
	for _, long := range []string{strings.Repeat("x", 300), filepath.Join(strings.Repeat("x", 300), "f")} {
		require.ErrorIs(t, keep.Check(filepath.Join(dir, long), 0o600), syscall.ENAMETOOLONG)
	}
	require.NoError(t, os.Symlink("none", filepath.Join(dir, "dangling")))
	require.ErrorIs(t, keep.Check(filepath.Join(dir, "dangling", "f"), 0o644), fs.ErrNotExist)
	if os.Geteuid() != 0 {
		return
	}
	theirs := filepath.Join(dir, "theirs")
	require.NoError(t, os.Mkdir(theirs, 0o755))
	require.NoError(t, os.Chown(theirs, 1000, 1000))
	require.ErrorContains(t, keep.Check(filepath.Join(theirs, "f"), 0o600), "its folder "+theirs+" belongs to another user, who could replace it: use a folder of your own")
	require.NoError(t, keep.Check(filepath.Join(theirs, "f"), 0o644), "it is not secret")
	require.NoError(t, os.Chmod(theirs, 0o755|fs.ModeSticky))
	require.NoError(t, keep.Check(filepath.Join(theirs, "f"), 0o600))
}

// TestANewFile: a file that is there is never replaced, and a loser leaves nothing.
func TestANewFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new")
	first, err := keep.Reserve(path, 0o644)
	require.NoError(t, err)
	second, err := keep.Reserve(path, 0o644)
	require.NoError(t, err)
	require.NoError(t, first.CommitNew([]byte("first")))
	require.ErrorIs(t, second.CommitNew([]byte("second")), fs.ErrExist)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "first", string(b))
	assert.Equal(t, []string{"new"}, names(t, filepath.Dir(path)))
}
