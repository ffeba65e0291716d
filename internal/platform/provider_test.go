package platform

import (
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// TestCheckProvider: what a provider publishes must do for all programs; each fault has a message of its own that says
// what to do.
func TestCheckProvider(t *testing.T) {
	var said map[string]any
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/lab/.well-known/openid-configuration":
			http.NotFound(w, r)
		case said["redirect"] != nil:
			http.Redirect(w, r, said["redirect"].(string), http.StatusFound)
		default:
			_ = json.NewEncoder(w).Encode(said)
		}
	}))
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	url := server.URL + "/lab/"
	good := map[string]any{"issuer": url, "authorization_endpoint": server.URL + "/a", "token_endpoint": server.URL + "/t", "userinfo_endpoint": server.URL + "/u", "jwks_uri": server.URL + "/k",
		"response_types_supported": []string{"code"}, "id_token_signing_alg_values_supported": []string{"RS256"}}
	o := &spec.LoginProvider{Issuer: url, CA: ca, Scopes: []string{"openid", "offline_access"}}
	p := &spec.Platform{Login: &spec.Login{Provider: o}, Hub: &spec.Hub{Auth: spec.HubAuth{OIDC: &spec.OIDCAuth{Issuer: url}}}}
	said = good
	require.NoError(t, CheckProvider(t.Context(), p))
	found, err := provider{p.Issuer()}.discover(t.Context())
	require.NoError(t, err)
	assert.Equal(t, [4]string{server.URL + "/a", server.URL + "/t", server.URL + "/u", server.URL + "/k"}, [4]string{found.Authorize, found.Token, found.Userinfo, found.Keys})

	for _, c := range []struct {
		key   string
		value any
		want  string
	}{
		{"issuer", server.URL + "/lab", `it calls itself "` + server.URL + `/lab", and programs take no tokens but those of "` + url + `": write exactly its own name as issuer`},
		{"userinfo_endpoint", nil, `its userinfo_endpoint is "", which programs cannot use`},
		{"token_endpoint", "http://id.example.org/t", `its token_endpoint is "http://id.example.org/t", which programs cannot use: behind a proxy a provider must know its own address`},
		{"redirect", "http://id.example.org/", "it redirects to http://id.example.org/: correct issuer"},
		{"grant_types_supported", []string{"implicit"}, "it has no sign-in by a code (authorization_code): turn that on at the provider"},
		{"code_challenge_methods_supported", []string{"plain"}, "it takes PKCE without S256"},
		{"scopes_supported", []string{"openid", "email"}, "it does not know the scope offline_access, and may refuse it: remove it from login.provider.scopes"},
		{"token_endpoint_auth_methods_supported", []string{"client_secret_basic"}, "it takes no client secret in the body of a request (client_secret_post)"},
		{"id_token_signing_alg_values_supported", []string{"HS256"}, "it does not sign with RS256"},
	} {
		said = maps.Clone(good)
		said[c.key] = c.value
		require.ErrorContains(t, CheckProvider(t.Context(), p), c.want)
	}
	said = good
	o.Issuer = server.URL
	require.ErrorContains(t, CheckProvider(t.Context(), p), "404 Not Found: write the issuer below which that document is")
	o.Issuer, o.CA = url, ""
	require.ErrorContains(t, CheckProvider(t.Context(), p), "certificate signed by unknown authority: start it, or correct issuer or ca")
}
