package fleet_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/fleet"
)

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestWriteLeavesOthersAlone(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	want := tree(t)
	changes, err := fleet.Write(dir, want, false)
	require.NoError(t, err)
	assert.Len(t, changes, len(want))
	changes, err = fleet.Write(dir, want, false)
	require.NoError(t, err)
	assert.Empty(t, changes)

	// A file of theirs stays, also in a folder of ours that goes.
	require.NoError(t, os.WriteFile(at("scratch/notes.txt"), []byte("theirs"), 0o644))
	less := tree(t)
	delete(less, "scratch/fleet.yaml")
	relist(less)
	_, err = fleet.Write(dir, less, false)
	require.NoError(t, err)
	assert.FileExists(t, at("scratch/notes.txt"))
	assert.NoFileExists(t, at("scratch/fleet.yaml"))

	// One of theirs where ours will be, one of ours that they changed, and one that
	// they removed: each is named, and nothing is written.
	require.NoError(t, os.WriteFile(at("scratch/fleet.yaml"), []byte("theirs"), 0o644))
	require.NoError(t, os.WriteFile(at("nfs/values.yaml"), []byte("theirs"), 0o644))
	require.NoError(t, os.Remove(at("cert-manager/values.yaml")))
	_, err = fleet.Write(dir, want, false)
	var foreign *fleet.ForeignError
	require.ErrorAs(t, err, &foreign)
	assert.Equal(t, []fleet.ForeignFile{
		{Path: "cert-manager/values.yaml", Reason: "removed by hand"},
		{Path: "nfs/values.yaml", Reason: "changed by hand"},
		{Path: "scratch/fleet.yaml", Reason: "it was not written by homelab"},
	}, foreign.Files)
	assert.ErrorContains(t, err, "-force")
	assert.NoFileExists(t, at("cert-manager/values.yaml"))

	_, err = fleet.Write(dir, want, true)
	require.NoError(t, err)
	changes, err = fleet.Write(dir, want, false)
	require.NoError(t, err)
	assert.Empty(t, changes)
}

// TestWriteGoesOn: a run that broke off before the list was written leaves files that
// the next run knows, since they are what it wants.
func TestWriteGoesOn(t *testing.T) {
	dir := t.TempDir()
	half := tree(t)
	delete(half, fleet.ListFile)
	delete(half, "nfs/fleet.yaml")
	_, err := fleet.Write(dir, half, false)
	require.NoError(t, err)
	_, err = fleet.Write(dir, tree(t), false)
	require.NoError(t, err)
	run(t, dir, "sha256sum", "--strict", "-c", fleet.ListFile)
}

func TestWriteFollowsNoLinks(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "nfs")))
	_, err := fleet.Write(dir, tree(t), false)
	require.ErrorContains(t, err, "nfs")
	_, err = fleet.Write(dir, tree(t), true)
	require.NoError(t, err, "the link goes, what it leads to does not")
	left, err := os.ReadDir(outside)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef  nfs/fleet.yaml\n"))
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, list []byte) {
		have := fleet.Tree{fleet.ListFile: list, "theirs": []byte("theirs")}
		changes, _, err := fleet.Merge(have, fleet.Tree{"ours": []byte("ours")})
		if err != nil {
			return
		}
		for _, c := range changes {
			assert.NotEqual(t, "theirs", c.Path)
		}
	})
}
