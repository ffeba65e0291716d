package session

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
)

// A release that does not exist is told by plan; one that cannot be asked for is not.
func TestReleaseThatDoesNotExist(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		assert.Equal(t, http.MethodHead, r.Method)
		if r.URL.Path == "/v1.36.99+k3s1/sha256sum-amd64.txt" {
			http.NotFound(w, r)
			return
		}
		http.Redirect(w, r, "http://nowhere.invalid/", http.StatusFound)
	}))
	defer server.Close()
	todo := &converge.Plan{Items: []converge.Item{{Step: "k3s/cp1", Verdict: converge.Deferred}}}
	s := &Session{Spec: &spec.Spec{K3s: spec.K3s{Version: "v1.36.99+k3s1"}}}
	check := func(url string, p *converge.Plan) error {
		return checkReleaseAt(s, t.Context(), url, p)
	}
	there := server.URL + "/v1.36.5%2Bk3s1/sha256sum-amd64.txt"
	gone := server.URL + "/v1.36.99%2Bk3s1/sha256sum-amd64.txt"
	require.NoError(t, check(there, todo))
	err := check(gone, todo)
	assert.Equal(t, invalid, code(err))
	require.ErrorContains(t, err, "k3s.version: there is no release v1.36.99+k3s1")
	require.NoError(t, check(gone, &converge.Plan{Items: []converge.Item{{Step: "k3s/cp1", Verdict: converge.Clean}}}))
	assert.Equal(t, 2, asked)
	assert.Empty(t, releaseFindings(s, t.Context(), there))
	assert.Equal(t, "there is no release v1.36.99+k3s1 ("+gone+" is not found)", releaseFindings(s, t.Context(), gone)[0].Evidence)
	server.Close()
	assert.Empty(t, releaseFindings(s, t.Context(), gone))
	require.NoError(t, check(gone, todo))

	spec, err := cluster.Parse("cluster.yaml", []byte("name: x\nk3s: {version: v1.36.5+k3s1}\nnodes: {cp1: {role: server, external: teacher@192.168.1.40}}\n"))
	require.NoError(t, err)
	assert.Equal(t, "https://github.com/k3s-io/k3s/releases/download/v1.36.5%2Bk3s1/sha256sum-amd64.txt", cluster.K3sURL(spec))
}
