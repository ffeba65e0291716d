package iso

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func disc() map[string][]byte {
	return map[string][]byte{
		"user-data":      bytes.Repeat([]byte("#cloud-config\n"), 1000),
		"meta-data":      []byte("instance-id: x\n"),
		"network-config": []byte("version: 2\n"),
		"empty":          {},
	}
}

func TestReadsWhatWriteMade(t *testing.T) {
	image, err := Write("cidata", disc())
	require.NoError(t, err)
	files, label, err := Read(image)
	require.NoError(t, err)
	assert.Equal(t, "cidata", label)
	assert.Equal(t, disc(), files)
}

func TestTooManyFiles(t *testing.T) {
	files := map[string][]byte{}
	for i := range 60 {
		files[string(rune('a'+i%26))+string(rune('a'+i/26))] = nil
	}
	_, err := Write("cidata", files)
	assert.ErrorContains(t, err, "60 files do not fit")
}

// TestOtherReaders: what other people's programs see is what counts.
func TestOtherReaders(t *testing.T) {
	image, err := Write("cidata", disc())
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "disc.iso")
	require.NoError(t, os.WriteFile(path, image, 0o600))
	for name, tc := range map[string]struct{ args, want []string }{
		"isoinfo":       {[]string{"isoinfo", "-J", "-f", "-i", path}, []string{"/user-data", "/meta-data", "/network-config"}},
		"isoinfo plain": {[]string{"isoinfo", "-f", "-i", path}, []string{"/USER_DATA.;1"}},
		"blkid":         {[]string{"blkid", "-p", "-o", "export", path}, []string{"LABEL=cidata", "TYPE=iso9660"}},
		"bsdtar":        {[]string{"bsdtar", "-xOf", path, "meta-data"}, []string{"instance-id: x"}},
		"xorriso":       {[]string{"xorriso", "-read_fs", "any", "-indev", path, "-find", "/"}, []string{"user-data"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := exec.Command(program(t, tc.args[0]), tc.args[1:]...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			for _, want := range tc.want {
				assert.Contains(t, string(out), want)
			}
		})
	}
}

// TestOtherWriters: discs of users are made by other programs.
func TestOtherWriters(t *testing.T) {
	dir := t.TempDir()
	for name, content := range disc() {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	for name, args := range map[string][]string{
		"genisoimage": {"genisoimage", "-quiet", "-V", "cidata", "-J", "-r"},
		"xorriso":     {"xorriso", "-as", "mkisofs", "-quiet", "-V", "cidata", "-J"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "disc.iso")
			out, err := exec.Command(program(t, args[0]), append(args[1:], "-o", path, dir)...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			image, err := os.ReadFile(path)
			require.NoError(t, err)
			files, label, err := Read(image)
			require.NoError(t, err)
			assert.Equal(t, "cidata", label)
			assert.Equal(t, disc(), files)
		})
	}
}

// program finds one of Debian's programs. In CI it must be there.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil { // blkid is not on everybody's PATH
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("%s is not installed", name)
	}
	require.NoError(t, err)
	return path
}

func FuzzRead(f *testing.F) {
	image, err := Write("cidata", map[string][]byte{"user-data": []byte("x")})
	require.NoError(f, err)
	f.Add(image)
	f.Add(image[:19*sector])
	f.Add([]byte("not an image"))
	f.Fuzz(func(t *testing.T, image []byte) {
		files, _, err := Read(image)
		if err != nil {
			assert.Nil(t, files)
		}
	})
}
