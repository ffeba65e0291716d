package report

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/secret"
)

func TestWatcherAnswersItsOwnAddressOnly(t *testing.T) {
	w := &watcher{path: "/abc/", host: "127.0.0.1:8080", name: "localhost:8080", page: []byte("<p>page</p>"), at: time.Now()}
	for name, x := range map[string]struct {
		method, host, path string
		code               int
	}{
		"the address":      {"GET", "127.0.0.1:8080", "/abc/", 200},
		"its name":         {"GET", "localhost:8080", "/abc/", 200},
		"HEAD":             {"HEAD", "localhost:8080", "/abc/", 200},
		"a foreign name":   {"GET", "evil.example:8080", "/abc/", 421},
		"another port":     {"GET", "127.0.0.1:80", "/abc/", 421},
		"no host":          {"GET", "", "/abc/", 421},
		"without the path": {"GET", "127.0.0.1:8080", "/", 404},
		"another path":     {"GET", "127.0.0.1:8080", "/abc/../etc", 404},
		"a POST":           {"POST", "127.0.0.1:8080", "/abc/", 405},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), x.method, "http://x"+x.path, nil)
			r.Host = x.host
			out := httptest.NewRecorder()
			w.ServeHTTP(out, r)
			assert.Equal(t, x.code, out.Code)
			if x.code != http.StatusOK {
				assert.NotContains(t, out.Body.String(), "page</p>")
				return
			}
			assert.Equal(t, "<p>page</p>", out.Body.String())
			assert.Equal(t, "5", out.Header().Get("Refresh"))
			assert.Contains(t, out.Header().Get("Content-Security-Policy"), "default-src 'none'")
			assert.Equal(t, "no-store", out.Header().Get("Cache-Control"))
		})
	}
}

// The state is read once for all who ask, and not at all while nobody does.
func TestWatcherReadsOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		w := &watcher{path: "/", host: "h", read: func() ([]byte, error) {
			n := reads.Add(1)
			time.Sleep(2 * time.Second)
			return fmt.Appendf(nil, "page %d", n), nil
		}}
		w.refresh()
		ask := func() *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://h/", nil)
			out := httptest.NewRecorder()
			w.ServeHTTP(out, r)
			return out
		}
		for range 3 {
			ask()
		}
		synctest.Wait()
		assert.EqualValues(t, 1, reads.Load(), "it is fresh")
		time.Sleep(time.Hour)
		assert.EqualValues(t, 1, reads.Load())
		assert.Equal(t, "page 2", ask().Body.String(), "after an hour, what is shown first is of now")
		time.Sleep(every)
		for range 3 {
			assert.Equal(t, "page 2", ask().Body.String(), "what is a little old is shown until it is read")
		}
		time.Sleep(3 * time.Second)
		assert.EqualValues(t, 3, reads.Load())
		w.read = func() ([]byte, error) { return nil, errors.New("broken") }
		time.Sleep(time.Minute)
		ask()
		synctest.Wait()
		assert.Equal(t, http.StatusInternalServerError, ask().Code)
		synctest.Wait()
	})
}

// TestWatch serves a real page on a real port, and ends with its context.
func TestWatch(t *testing.T) {
	w := newSite(t)
	var talk strings.Builder
	data, shown := io.Pipe()
	s, err := w.open(t.Context(), session.Options{Console: &console.Console{Talk: &talk, Data: shown, Redact: &secret.Redactor{}}})
	require.NoError(t, err)
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Watch(s, ctx, session.WatchFlags{}) }()
	url, err := bufio.NewReader(data).ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/[\w-]{16,}/\n$`, url)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSpace(url), nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	_ = answer.Body.Close()
	assert.Contains(t, string(body), "Live, read every 5 s.")
	assert.Contains(t, string(body), "steps differ from the file")
	assert.Contains(t, string(body), "No GPU computed anything.")
	cancel()
	require.NoError(t, <-ended)

	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	port := taken.Listener.Addr().String()[len("127.0.0.1:"):]
	n := 0
	for _, d := range port {
		n = 10*n + int(d-'0')
	}
	err = Watch(s, t.Context(), session.WatchFlags{Port: n})
	assert.ErrorContains(t, err, "-port="+port+": ")
}
