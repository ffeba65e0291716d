package fleet

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The password goes where the URL says: a redirect is followed on the same server, when
// reading, not from https to http, and not forever.
func TestRedirectsThatAreFollowed(t *testing.T) {
	client, err := httpWire{}.client()
	require.NoError(t, err)
	request := func(method, url string) *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
		require.NoError(t, err)
		return r
	}
	for _, c := range []struct {
		method, from, to string
		times            int
		refused          string
	}{
		{"GET", "https://git/a", "https://git/b", 1, ""},
		{"GET", "http://git/a", "http://git/b", 1, ""},
		{"GET", "http://git/a", "https://git/b", 1, ""},
		{"GET", "https://git/a", "https://git/b", 5, ""},
		{"GET", "https://git/a", "https://git/b", 6, "circle"},
		{"GET", "https://git/a", "http://git/b", 1, "redirects to http://git/b"},
		{"GET", "https://git/a", "https://other/a", 1, "redirects to https://other/a"},
		{"GET", "https://git/a", "https://git:8443/a", 1, "redirects to"},
		{"POST", "https://git/a", "https://git/b", 1, "redirects to"},
		{"GET", "http://git/a", "http://me:hunter2@other/a", 1, "me:xxxxx@other"},
	} {
		via := make([]*http.Request, c.times)
		for i := range via {
			via[i] = request(c.method, c.from)
		}
		err := client.CheckRedirect(request(c.method, c.to), via)
		if c.refused == "" {
			assert.NoError(t, err, "%+v", c)
			continue
		}
		assert.ErrorContains(t, err, c.refused, "%+v", c)
	}
}
