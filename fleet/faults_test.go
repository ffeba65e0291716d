package fleet_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/internal/faults"
)

// TestEveryReadAndWriteOfAPushFails: wherever the connection to the Git server breaks, the
// branch is where it was or has all of ours, the error says what came from below, and doing
// it again ends well, with one commit.
func TestEveryReadAndWriteOfAPushFails(t *testing.T) {
	for name, serve := range map[string]func(*testing.T, string) server{"SSH": serveSSH, "HTTP": serveBufferedHTTP} {
		t.Run(name, func(t *testing.T) { everyReadAndWriteOfAPushFails(t, serve(t, bareRepo(t))) })
	}
}

// serveBufferedHTTP is serveHTTP behind a proxy that has a request whole before it passes it
// on, as nginx does: Git's own program never ends where half of one comes.
func serveBufferedHTTP(t *testing.T, bare string) server {
	t.Helper()
	s := serveHTTP(t, bare)
	git := backend(filepath.Dir(bare), s.tap)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // who sent it has gone
		}
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		git.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { front.CloseClientConnections(); front.Close() })
	s.remote.URL = front.URL + "/infra.git"
	return s
}

func everyReadAndWriteOfAPushFails(t *testing.T, s server) {
	t.Helper()
	want := tree(t)
	s.somebodyElse(t, map[string]string{"README.md": "theirs\n"})
	before := git(t, s.bare, "rev-parse", "main")
	whole := func() string {
		have := s.files(t, "main")
		for _, name := range want.Names() {
			if !slices.Contains(have, "fleet/lab/"+name) {
				return name + " is not there"
			}
		}
		if git(t, s.bare, "rev-parse", "main^") != before {
			return "there is more than one commit"
		}
		return ""
	}
	faults.Each(t, []faults.Kind{faults.Lost}, func(t *testing.T, f *faults.Faults, use func(*testing.T, faults.Case)) {
		git(t, s.bare, "update-ref", "refs/heads/main", before)
		r := s.remote
		r.Dial = f.Dial((&net.Dialer{}).DialContext)
		use(t, faults.Case{
			Do:   func() error { _, err := r.Push(t.Context(), want, fleet.PushOptions{}); return err },
			Done: whole,
			Failed: func(error) string {
				if git(t, s.bare, "rev-parse", "main") == before {
					return ""
				}
				return whole()
			},
			Patient: true,
		})
	})
}

// TestEveryFileFails: whatever file cannot be written, the error says which; the list,
// which says what is ours, is not written, and the next time all is written.
func TestEveryFileFails(t *testing.T) {
	want := tree(t)
	for _, name := range want.Names() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			at := filepath.Join(dir, filepath.FromSlash(name))
			require.NoError(t, os.MkdirAll(filepath.Join(at, "in-the-way"), 0o755))
			_, err := fleet.Write(dir, want, false)
			var where *fs.PathError
			require.ErrorAs(t, err, &where)
			assert.Contains(t, where.Path, filepath.Base(name))
			info, err := os.Stat(filepath.Join(dir, fleet.ListFile))
			assert.True(t, errors.Is(err, fs.ErrNotExist) || info.IsDir(), "what is ours is said last")

			require.NoError(t, os.RemoveAll(at))
			_, err = fleet.Write(dir, want, false)
			require.NoError(t, err)
			changes, err := fleet.Write(dir, want, false)
			require.NoError(t, err)
			assert.Empty(t, changes)

			// The same, while it is to go.
			less := tree(t)
			delete(less, name)
			if name == fleet.ListFile {
				return
			}
			relist(less)
			require.NoError(t, os.Remove(at))
			require.NoError(t, os.MkdirAll(filepath.Join(at, "in-the-way"), 0o755))
			_, err = fleet.Write(dir, less, false)
			if err == nil { // it was gone already
				assert.DirExists(t, filepath.Join(at, "in-the-way"), "what is not ours stays")
			}
		})
	}
}
