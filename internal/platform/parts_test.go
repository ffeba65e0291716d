package platform

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
)

// Parts come after those that they need, and else in their order; those that need each
// other are named.
func TestOrderOfParts(t *testing.T) {
	part := func(name string, needs ...string) addon.Recipe {
		return addon.Recipe{Part: chart.Part{Name: name, Needs: needs}}
	}
	for _, c := range []struct {
		all  []addon.Recipe
		want string
	}{
		{nil, ""}, {[]addon.Recipe{part("b"), part("a")}, "b a"}, {[]addon.Recipe{part("b", "a"), part("a")}, "a b"}, {[]addon.Recipe{part("c", "b"), part("b", "a"), part("a"), part("d")}, "a d b c"},
		{[]addon.Recipe{part("b", "nobody"), part("a")}, "b a"}, {[]addon.Recipe{part("c", "a", "b"), part("a"), part("b")}, "a b c"},
		{[]addon.Recipe{part("a", "b"), part("c"), part("b", "a")}, "parts wait for each other: a, b"}, {[]addon.Recipe{part("a", "a")}, "parts wait for each other: a"},
	} {
		out, err := inOrder(c.all)
		if err != nil {
			assert.EqualError(t, err, c.want)
			continue
		}
		names := make([]string, len(out))
		for i, p := range out {
			names[i] = p.Name
		}
		assert.Equal(t, c.want, strings.Join(names, " "))
	}
}

// A provider of identities is asked once for its addresses, by those that its CA vouches for.
func TestIdentityProviderIsAskedOnce(t *testing.T) {
	asked, answer := 0, http.StatusOK
	var srv *httptest.Server
	srv = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(answer)
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": srv.URL, "authorization_endpoint": srv.URL + "/a", "token_endpoint": srv.URL + "/t", "userinfo_endpoint": srv.URL + "/u"})
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // it would tell of who does not trust it
	srv.StartTLS()
	defer srv.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})

	_, err := (&issuer{url: srv.URL, ca: []byte("no certificate")}).endpoints(t.Context())
	require.EqualError(t, err, "hub.auth: there is no certificate in the CA's file")
	_, err = (&issuer{url: srv.URL}).endpoints(t.Context())
	require.ErrorContains(t, err, "certificate")
	assert.Zero(t, asked, "whom nobody vouches for is told nothing")

	one := &issuer{url: srv.URL, ca: ca}
	answer = http.StatusServiceUnavailable
	_, err = one.endpoints(t.Context())
	require.ErrorContains(t, err, "503")
	answer = http.StatusOK
	found, err := one.endpoints(t.Context())
	require.NoError(t, err, "an answer that was none is not kept")
	assert.Equal(t, srv.URL+"/t", found.Token)
	again, err := one.endpoints(t.Context())
	require.NoError(t, err)
	assert.Equal(t, found, again)
	assert.Equal(t, 2, asked)
}
