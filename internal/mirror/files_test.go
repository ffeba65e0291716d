package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// releaseServer serves a release of two files, of which each answer may end after some bytes.
type releaseServer struct {
	*httptest.Server
	files  map[string]string
	cut    int // bytes of an answer; 0: all
	ranges bool
	sent   []string // Range of each request for program
}

func newReleaseServer(t *testing.T) *releaseServer {
	t.Helper()
	s := &releaseServer{files: map[string]string{"program": strings.Repeat("program ", 4), "images": "images"}, ranges: true}
	for _, name := range []string{"program", "images"} {
		sum := sha256.Sum256([]byte(s.files[name]))
		s.files["sums.txt"] += hex.EncodeToString(sum[:]) + "  " + name + "\n"
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/v1/")
		text, ok := s.files[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if name == "program" {
			s.sent = append(s.sent, r.Header.Get("Range"))
		}
		if !s.ranges {
			r.Header.Del("Range")
		}
		if s.cut > 0 && name == "program" {
			w = &cutAnswer{w, s.cut}
		}
		http.ServeContent(w, r, name, time.Time{}, strings.NewReader(text))
	}))
	t.Cleanup(s.Close)
	return s
}

// cutAnswer ends a connection after some bytes of the body.
type cutAnswer struct {
	http.ResponseWriter
	left int
}

func (c *cutAnswer) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b[:min(len(b), c.left)])
	if c.left -= n; c.left == 0 {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// download runs it once, and returns which files were copied.
func (s *releaseServer) download(t *testing.T, folder string) ([]string, error) {
	t.Helper()
	r := Release{URL: func(name string) string { return s.URL + "/v1/" + name }, Sums: "sums.txt", Files: []string{"program", "images"}}
	var copied []string
	err := r.Download(t.Context(), s.Client(), folder, func(o Outcome) {
		if o.Bytes > 0 {
			copied = append(copied, o.Name)
		}
	})
	return copied, err
}

func (s *releaseServer) complete(t *testing.T, folder string) {
	t.Helper()
	for name, want := range s.files {
		have, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		assert.Equal(t, want, string(have))
	}
	left, err := filepath.Glob(folder + "/*" + partial)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// However often a download breaks off, there is no half file under its name, and it goes on where it was.
func TestReleaseGoesOn(t *testing.T) {
	for _, ranges := range []bool{true, false} {
		s, folder := newReleaseServer(t), filepath.Join(t.TempDir(), "k3s")
		s.ranges, s.cut = ranges, 10
		for range 2 {
			_, err := s.download(t, folder)
			require.ErrorContains(t, err, "run it again, which goes on where it was")
			assert.NoFileExists(t, filepath.Join(folder, "program"))
			assert.NoFileExists(t, filepath.Join(folder, "sums.txt"), "it says that the files are there")
		}
		s.cut = 0
		copied, err := s.download(t, folder)
		require.NoError(t, err)
		assert.Equal(t, []string{"program"}, copied)
		s.complete(t, folder)
		if ranges {
			assert.Equal(t, []string{"", "bytes=10-", "bytes=20-"}, s.sent)
		}
		copied, err = s.download(t, folder)
		require.NoError(t, err)
		assert.Empty(t, copied)
	}
}

// What does not have its checksum is deleted, and a file of another release is replaced.
func TestReleaseChecksItsFiles(t *testing.T) {
	s, folder := newReleaseServer(t), t.TempDir()
	good := s.files["program"]
	s.files["program"] = "changed"
	_, err := s.download(t, folder)
	require.ErrorContains(t, err, "/v1/program is not the file of its checksum")
	left, err := filepath.Glob(folder + "/program*")
	require.NoError(t, err)
	assert.Empty(t, left)
	s.files["program"] = good
	require.NoError(t, os.WriteFile(filepath.Join(folder, "program"), []byte("another release"), 0o600))
	copied, err := s.download(t, folder)
	require.NoError(t, err)
	assert.Equal(t, []string{"program"}, copied)
	s.complete(t, folder)

	s.files["sums.txt"] = "<html>log in</html>"
	_, err = s.download(t, folder)
	require.ErrorContains(t, err, "sums.txt has no line for program: a proxy may have answered instead")
	delete(s.files, "sums.txt")
	_, err = s.download(t, folder)
	require.ErrorContains(t, err, "404 Not Found: is there such a release?")
	s.Close()
	_, err = s.download(t, folder)
	require.ErrorContains(t, err, "run it again, which goes on where it was")
}

// Where the checksums are known, nobody is asked for a list, and none is written.
func TestReleaseOfKnownFiles(t *testing.T) {
	s, folder := newReleaseServer(t), t.TempDir()
	sum := sha256.Sum256([]byte(s.files["program"]))
	delete(s.files, "sums.txt")
	delete(s.files, "images")
	r := Release{URL: func(name string) string { return s.URL + "/v1/" + name }, Files: []string{"program"}, Digests: map[string]string{"program": hex.EncodeToString(sum[:])}}
	s.cut = 10
	require.ErrorContains(t, r.Download(t.Context(), s.Client(), folder, func(Outcome) {}), "run it again, which goes on where it was")
	s.cut = 0
	var copied []Outcome
	for range 2 {
		require.NoError(t, r.Download(t.Context(), s.Client(), folder, func(o Outcome) { copied = append(copied, o) }))
	}
	assert.Equal(t, []Outcome{{"program", 32}, {"program", 0}}, copied)
	assert.Equal(t, []string{"", "bytes=10-"}, s.sent)
	s.complete(t, folder)

	s.files["program"] = "changed"
	require.NoError(t, os.Remove(filepath.Join(folder, "program")))
	require.ErrorContains(t, r.Download(t.Context(), s.Client(), folder, func(Outcome) {}), "/v1/program is not the file of its checksum")
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Empty(t, left)
}
