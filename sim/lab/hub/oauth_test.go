package hub

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/cps-gpu/homelab/sim/lab/login"
)

// hosts answers for names with handlers.
type hosts map[string]http.Handler

func (h hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	h[r.URL.Hostname()].ServeHTTP(rec, r)
	res := rec.Result()
	res.Request = r
	return res, nil
}

// TestLogin: people sign in at the provider; who is gone, or has lost the groups that give rights, is out
// after a minute, and others stay.
func TestLogin(t *testing.T) {
	w := newWorld(t, genericOAuth)
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	names := hosts{"hub.lab.example": w.handler()}
	w.now, w.web = clock, &http.Client{Transport: names}
	w.oauth = w.provider()
	require.NotNil(t, w.oauth)
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	require.NoError(t, err)
	var state login.State
	dex := func(groups map[string]string) {
		t.Helper()
		config := `{issuer: "http://login.lab.example", expiry: {idTokens: 45s}, enablePasswordDB: true,
			staticClients: [{id: hub, name: Notebooks, secret: hush, redirectURIs: ["http://hub.lab.example/hub/oauth_callback"]}], staticPasswords: [`
		for name, its := range groups {
			config += `{email: ` + name + `@lab.example, hash: "` + string(hash) + `", preferredUsername: ` + name + `, userID: ` + name + `, groups: [` + its + `]},`
		}
		h, err := login.Dex(login.Options{Config: []byte(config + "]}"), State: state, Save: func(s login.State) { state = s }, Now: clock})
		require.NoError(t, err)
		names["login.lab.example"], names["dex.dex"] = h, h
	}
	open := func(b *http.Client, method, at string, form url.Values) (string, string) {
		t.Helper()
		res, err := b.Get(at)
		if method == http.MethodPost {
			res, err = b.PostForm(at, form)
		}
		require.NoError(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.Request.URL.Host + res.Request.URL.Path, string(text)
	}
	state1 := regexp.MustCompile(`name="state" value="([^"]+)"`)
	signIn := func(name string) (*http.Client, string, string) {
		t.Helper()
		jar, err := cookiejar.New(nil)
		require.NoError(t, err)
		b := &http.Client{Transport: names, Jar: jar}
		at, text := open(b, http.MethodGet, "http://hub.lab.example/", nil)
		require.Equal(t, "login.lab.example/auth/local/login", at, "the hub sends them there at once")
		m := state1.FindStringSubmatch(text)
		require.NotNil(t, m)
		at, text = open(b, http.MethodPost, "http://"+at, url.Values{"state": {m[1]}, "login": {name + "@lab.example"}, "password": {"secret"}})
		return b, at, text
	}
	dex(map[string]string{"ada": "admins", "bob": "lab", "cyd": "lab", "eve": "guests"})
	people := map[string]*http.Client{}
	for _, name := range []string{"ada", "bob", "cyd"} {
		b, at, text := signIn(name)
		require.Equal(t, "hub.lab.example/hub/spawn", at, name)
		assert.Contains(t, text, name)
		people[name] = b
	}
	assert.Equal(t, []string{"lab"}, w.groups("bob"))
	_, _, text := signIn("eve")
	assert.Contains(t, text, "eve may not log in: no group of theirs may use the hub.")
	res, err := people["ada"].PostForm("http://hub.lab.example/hub/login", url.Values{"username": {"teacher"}, "password": {"x"}})
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, http.StatusForbidden, res.StatusCode, "the hub takes no passwords")

	dex(map[string]string{"bob": "lab, course", "cyd": "guests"}) // ada has gone, and cyd has lost the group
	now = now.Add(time.Minute)
	for name, want := range map[string]string{"ada": "login.lab.example/auth/local/login", "cyd": "login.lab.example/auth/local/login", "bob": "hub.lab.example/hub/spawn"} {
		at, _ := open(people[name], http.MethodGet, "http://hub.lab.example/hub/home", nil)
		assert.Equal(t, want, at, name)
	}
	assert.Equal(t, []string{"lab", "course"}, w.groups("bob"))
	_, at, _ := signIn("ada")
	assert.Equal(t, "login.lab.example/auth/local/login", at)
	at, text = open(people["bob"], http.MethodPost, "http://hub.lab.example/hub/logout", nil)
	assert.Equal(t, "hub.lab.example/hub/logout", at, "it does not sign in again by itself")
	assert.Contains(t, text, "Log in with the cluster's login")
}
