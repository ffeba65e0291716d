package session

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// However many connections somebody opens and leaves, the page comes at once, and few of them
// stay open.
func TestServeOutlivesHalfOpenConnections(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") }))
	}()
	const many = 300
	var open []net.Conn
	for i := range many {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		if i%2 == 0 {
			_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: ") // and nothing more
			require.NoError(t, err)
		}
		open = append(open, c)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String(), nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	_ = answer.Body.Close()
	assert.Equal(t, "page", string(body))
	closed := 0
	for _, c := range open[:many-2*mostWaiting] {
		_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			closed++
		}
	}
	assert.Equal(t, many-2*mostWaiting, closed, "the oldest are closed")
	cancel()
	require.NoError(t, <-ended)
}

// A browser is asked for, not waited for; and what it gets as an argument, which every user can
// read, is not the address.
func TestBrowseKeepsTheAddress(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	said := filepath.Join(dir, "arguments")
	script := "#!/bin/sh\nprintf '%s\\n' \"$@\" >" + said + ".new && mv " + said + ".new " + said + "\nexec sleep 5\n"
	for _, name := range []string{"xdg-open", "open"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700)) //nolint:gosec // a program
	}
	ctx, cancel := context.WithCancel(t.Context())
	const address = "http://127.0.0.1:8080/very-secret/"
	Browse(ctx, address, true, func(err error) { t.Error(err) }) // returns, although the program does not end
	var argument string
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(said)
		argument = strings.TrimSpace(string(text))
		return err == nil
	}, 20*time.Second, 10*time.Millisecond)
	assert.NotContains(t, argument, "very-secret")
	info, err := os.Stat(argument)
	require.NoError(t, err)
	assert.Equal(t, "-rw-------", info.Mode().String())
	page, err := os.ReadFile(argument)
	require.NoError(t, err)
	assert.Contains(t, string(page), `content="0;url=`+address+`"`)
	cancel()
	require.Eventually(t, func() bool { _, err := os.Stat(argument); return os.IsNotExist(err) }, 20*time.Second, 10*time.Millisecond)

	t.Setenv("PATH", t.TempDir())
	var failed error
	Browse(t.Context(), "http://127.0.0.1:1/", false, func(err error) { failed = err })
	require.ErrorContains(t, failed, "-browser: ")
}
