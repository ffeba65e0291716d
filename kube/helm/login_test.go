package helm_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/helm"
)

// The login in a repository's URL goes to that server by that scheme, and not to where its
// index leads besides: least of all in clear text.
func TestLoginGoesNowhereElse(t *testing.T) {
	archive := pack(t, "web-1.0.0")
	for url, want := range map[string]bool{
		"web.tgz":                                         true,
		"https://charts.example.com/web.tgz":              true,
		"http://charts.example.com/web.tgz":               false,
		"https://charts.example.com:8443/web.tgz":         false,
		"https://cdn.example.com/web.tgz":                 false,
		"https://someone:else@charts.example.com/web.tgz": false,
	} {
		var got []string
		s := helm.Source{Cache: t.TempDir(), Wrap: func(http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				user, password, _ := r.BasicAuth()
				got = append(got, user+":"+password)
				w := httptest.NewRecorder()
				if strings.HasSuffix(r.URL.Path, "index.yaml") {
					_, _ = fmt.Fprintf(w, "entries:\n  web:\n  - {version: 1.0.0, digest: %s, urls: ['%s']}\n", digestOf(archive), url)
				} else {
					_, _ = w.Write(archive)
				}
				return w.Result(), nil
			})
		}}
		r := chart.Release{Name: "site", Namespace: "web", Chart: "web", Version: "1.0.0", Repo: "https://teacher:hunter2@charts.example.com"}
		require.NoError(t, s.Check(t.Context(), r, caps), url)
		require.Len(t, got, 2)
		assert.Equal(t, "teacher:hunter2", got[0])
		assert.Equal(t, want, got[1] == "teacher:hunter2", "%s got %s", url, got[1])
	}
}

// Nothing of a login is shown: a token is often written as the name alone, or before a
// password that says nothing.
func TestLoginsAreNotShown(t *testing.T) {
	for _, login := range []string{"ghp_s3cret", "ghp_s3cret:", "ghp_s3cret:x-oauth-basic", "x:ghp_s3cret"} {
		repo := newRepository(t)
		r := repo.release()
		r.Repo = strings.Replace(r.Repo, "http://", "http://"+login+"@", 1)
		var said []string
		ctx := converge.WithProgress(t.Context(), func(u converge.ProgressUpdate) { said = append(said, u.Message) })
		for _, breaks := range []func(){func() {}, func() { repo.status = http.StatusForbidden }, func() { r.Repo = strings.Replace(r.Repo, "http:", "ftp:", 1) }} {
			breaks()
			s := helm.Source{Cache: t.TempDir()}
			if err := s.Check(ctx, r, caps); err != nil {
				said = append(said, err.Error())
			}
		}
		require.Len(t, said, 6)
		assert.NotContains(t, strings.Join(said, "\n"), "s3cret")
		assert.Contains(t, said[0], "http://xxxxx@127.0.0.1:")
	}
}
