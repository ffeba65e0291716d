package iso9660

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/facts"
	"github.com/cps-gpu/homelab/sim/iso"
)

func seed() map[string][]byte {
	files := map[string][]byte{
		"user-data":                  bytes.Repeat([]byte("#cloud-config\n"), 1000),
		"meta-data":                  []byte("instance-id: x\n"),
		"network-config":             []byte("version: 2\n"),
		strings.Repeat("n", maxName): {},
	}
	for i := range 60 { // more records than fit into a sector
		files[fmt.Sprintf("empty-%02d", i)] = []byte{}
	}
	return files
}

func TestBuild(t *testing.T) {
	image, err := Build("cidata", seed())
	require.NoError(t, err)
	assert.Zero(t, len(image)%sector)
	_, err = Build(strings.Repeat("l", maxLabel), seed())
	require.NoError(t, err)

	files, label, err := iso.Read(image)
	require.NoError(t, err)
	assert.Equal(t, "cidata", label)
	assert.Equal(t, seed(), files)
}

// Not parallel: it changes the process's time zone.
func TestBuildIsDeterministic(t *testing.T) {
	local := time.Local
	t.Cleanup(func() { time.Local = local })
	first, err := Build("cidata", seed())
	require.NoError(t, err)

	time.Sleep(1100 * time.Millisecond) // dates in an image count hundredths and whole seconds
	time.Local = time.FixedZone("far away", 11*3600)
	t.Setenv("TMPDIR", t.TempDir())
	second, err := Build("cidata", seed())
	require.NoError(t, err)
	assert.True(t, bytes.Equal(first, second), "the same files gave other bytes")
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	assert.Empty(t, left, "the staging folder stays behind")
}

func TestBuildRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		label string
		files map[string][]byte
		want  string
	}{
		"no label":   {"", seed(), `ISO label "": want 1 to 16 characters`},
		"long label": {"abcdefghijklmnopq", seed(), "want 1 to 16"},
		"no files":   {"cidata", nil, "no files"},
		"long name":  {"cidata", map[string][]byte{strings.Repeat("n", maxName+1): nil}, "is not a file name of at most"},
		"folder":     {"cidata", map[string][]byte{"a/b": nil}, `"a/b" is not a file name`},
		"outside":    {"cidata", map[string][]byte{"..": nil}, `".." is not a file name`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			_, err := Build(tc.label, tc.files)
			require.ErrorContains(t, err, tc.want)
			left, err := os.ReadDir(os.Getenv("TMPDIR"))
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}

// What other people's programs see is what counts.
func TestOtherReaders(t *testing.T) {
	image, err := Build("cidata", seed())
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "seed.iso")
	require.NoError(t, os.WriteFile(path, image, 0o600))

	for name, tc := range map[string]struct {
		args []string
		want []string
		pkg  string
	}{
		"isoinfo": {[]string{"isoinfo", "-J", "-f", "-i", path}, []string{"/user-data", "/meta-data", "/network-config"}, "genisoimage"},
		"blkid":   {[]string{"blkid", "-p", "-o", "export", path}, []string{"LABEL=cidata", "TYPE=iso9660"}, "util-linux"},
		"xorriso": {[]string{"xorriso", "-read_fs", "any", "-indev", path, "-find", "/"}, []string{"user-data"}, "xorriso"},
		"bsdtar":  {[]string{"bsdtar", "-tf", path}, []string{"user-data", "meta-data", "network-config"}, "libarchive-tools"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := exec.Command(facts.Program(t, tc.args[0], tc.pkg), tc.args[1:]...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			for _, want := range tc.want {
				assert.Contains(t, string(out), want)
			}
		})
	}
}
