package zone

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/pages"
)

const token = "a-token-of-forty-characters-or-so"

// playedCloudflare answers like Cloudflare's API: to one token, which sees the zones 0123 and moved.example. A list is two pages.
func playedCloudflare(t *testing.T, list, records int) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		say := func(status int, text string) { w.WriteHeader(status); fmt.Fprint(w, text) }
		const ours, moved = `{"id":"0123","name":"home.example","status":"active"}`, `{"id":"4567","name":"moved.example","status":"moved"}`
		page := func(zones string) {
			say(http.StatusOK, `{"success":true,"errors":[],"result":[`+zones+`],"result_info":{"page":1,"per_page":50,"total_pages":2,"count":1,"total_count":2}}`)
		}
		q := r.URL.Query()
		switch {
		case r.Header.Get("Authorization") != "Bearer "+token:
			say(http.StatusForbidden, `{"success":false,"errors":[{"code":9109,"message":"Invalid access token"}],"result":null}`)
		case r.URL.Path == "/zones" && q.Get("name") == "home.example":
			page(ours)
		case r.URL.Path == "/zones" && q.Get("name") == "moved.example":
			page(moved)
		case r.URL.Path == "/zones" && q.Has("name"):
			page("")
		case r.URL.Path == "/zones" && list == http.StatusForbidden:
			say(list, `{"success":false,"errors":[{"code":0,"message":"Actor requires permission com.cloudflare.api.account.zone.list"}],"result":null}`)
		case r.URL.Path == "/zones" && q.Get("page") == "2" && list == http.StatusOK:
			page(ours)
		case r.URL.Path == "/zones":
			page(moved)
		case r.URL.Path == "/zones/0123/dns_records" && records == http.StatusOK:
			page("")
		case records == http.StatusBadGateway:
			say(records, "<html>")
		default:
			say(http.StatusForbidden, `{"success":false,"errors":[{"code":10000,"message":"Authentication error"}],"result":null}`)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestCloudflare(t *testing.T) {
	const ok = http.StatusOK
	said := map[string]string{}
	for name, c := range map[string]struct {
		token, zone   string
		list, records int
		keeps         spec.Switch // external-dns keeps records
		want          string      // of the error; empty: none
	}{
		"the zone":                      {token, "home.example", ok, ok, spec.Off, ""},
		"the zone with records":         {token, "home.example", ok, ok, spec.On, ""},
		"a name in the zone":            {token, "lab.home.example", ok, ok, spec.Off, ""},
		"records of a name in the zone": {token, "lab.home.example", ok, ok, spec.On, "it is part of the zone home.example, and external-dns would not find it: write zones: [home.example], or records: false"},
		"another zone":                  {token, "work.example", ok, ok, spec.Off, "sees no such zone"},
		"a zone that left":              {token, "moved.example", ok, ok, spec.Off, `does not serve it (it is "moved")`},
		"no list":                       {token, "home.example", http.StatusForbidden, ok, spec.On, "external-dns could not list the zones: Cloudflare refuses the token"},
		"no list, and no records":       {token, "home.example", http.StatusForbidden, ok, spec.Off, ""},
		"a list without the zone":       {token, "home.example", http.StatusNoContent, ok, spec.On, "does not list it"},
		"a wrong token":                 {"wrong", "home.example", ok, ok, spec.Off, "Invalid access token (9109)"},
		"a token that reads no records": {token, "home.example", ok, http.StatusForbidden, spec.Off, "Authentication error (10000)"},
		"a service that is down":        {token, "home.example", ok, http.StatusBadGateway, spec.Off, "try again later"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &spec.DNS{Zones: []string{c.zone}, Records: c.keeps, Cloudflare: &spec.Cloudflare{Token: ref(t, c.token)}}
			err := checker{playedCloudflare(t, c.list, c.records), ""}.check(t.Context(), d)
			if c.want == "" {
				assert.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, "zone "+c.zone)
			assert.NotContains(t, err.Error(), c.token+" ")
			said[name] = err.Error()
		})
	}
	pages.Compare(t, "docs/platform.md", "cloudflare", said["records of a name in the zone"], *update)
}

// TestAllZones: every zone is asked, and every mistake is told.
func TestAllZones(t *testing.T) {
	d := &spec.DNS{Zones: []string{"a.example", "home.example", "b.example"}, Cloudflare: &spec.Cloudflare{Token: ref(t, token)}}
	err := checker{playedCloudflare(t, http.StatusOK, http.StatusOK), ""}.check(t.Context(), d)
	require.Error(t, err)
	assert.Equal(t, 2, strings.Count(err.Error(), "sees no such zone"), err)
}
