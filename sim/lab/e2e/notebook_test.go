package e2e

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// notebook is a person at the address that hub:open prints: they log in, start a server with a
// GPU, and see that card and no other, though the node may have more.
func notebook(t *testing.T, address, password, profile string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar}
	ask := func(method, path string, form url.Values) string {
		r, err := http.NewRequestWithContext(t.Context(), method, address+path, strings.NewReader(form.Encode()))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		res, err := browser.Do(r)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode, "%s %s: %s", method, path, text)
		return string(text)
	}
	assert.Contains(t, ask("GET", "/", nil), "<h1>Log in</h1>")
	assert.Contains(t, ask("POST", "/hub/login", url.Values{"username": {"student"}, "password": {password}}), "Choose a server")
	ask("POST", "/hub/spawn", url.Values{"profile": {profile}})
	require.Contains(t, ask("GET", "/hub/api/users/student/server/progress", nil), `"ready":true`)
	run := func(code string) string { return ask("POST", "/user/student/lab/run", url.Values{"code": {code}}) }
	assert.Equal(t, 1, strings.Count(run("!nvidia-smi -L"), "GPU "), "the pod's card")
	assert.Contains(t, run("!hostname"), `"jupyter-student\n"`)
	ask("POST", "/hub/stop", nil)
}
