package login

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Client is a program that sends people to an OpenID Connect provider.
type Client struct {
	ID, Secret, Redirect       string
	Authorize, Token, Userinfo string
	Scopes                     []string
	HTTP                       *http.Client // for what needs no browser
	Now                        func() time.Time

	mu    sync.Mutex
	begun map[string]string // verifiers of PKCE, by state
}

// Person is who a provider says that somebody is, and for how long.
type Person struct {
	Claims  map[string]any
	ID      string // token that says so
	Access  string
	Refresh string
	Expires time.Time
}

// Text is a claim; "" if it is missing.
func (p Person) Text(claim string) string { s, _ := p.Claims[claim].(string); return s }

// Groups are the values of a claim.
func (p Person) Groups(claim string) []string {
	list, _ := p.Claims[claim].([]any)
	var out []string
	for _, g := range list {
		if s, ok := g.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// discover reads from the provider where it is asked, with a library that compares its name.
func (c *Client) discover(ctx context.Context, issuer string) error {
	p, err := oidc.NewProvider(oidc.ClientContext(ctx, c.HTTP), issuer)
	if err != nil {
		return err
	}
	c.Authorize, c.Token, c.Userinfo = p.Endpoint().AuthURL, p.Endpoint().TokenURL, p.UserInfoEndpoint()
	return nil
}

// Begin sends a browser to the provider.
func (c *Client) Begin(w http.ResponseWriter, r *http.Request) {
	state, verifier := rand.Text(), rand.Text()+rand.Text()
	sum := sha256.Sum256([]byte(verifier))
	c.mu.Lock()
	if c.begun == nil {
		c.begun = map[string]string{}
	}
	c.begun[state] = verifier
	c.mu.Unlock()
	http.SetCookie(w, &http.Cookie{Name: "state", Value: state, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode}) //nolint:gosec // the lab has pages without TLS too
	http.Redirect(w, r, c.Authorize+"?"+url.Values{"response_type": {"code"}, "client_id": {c.ID}, "redirect_uri": {c.Redirect}, "scope": {strings.Join(c.Scopes, " ")},
		"state": {state}, "code_challenge": {encode(sum[:])}, "code_challenge_method": {"S256"}}.Encode(), http.StatusFound)
}

// End takes the browser back, with a code.
func (c *Client) End(r *http.Request) (Person, error) {
	q := r.URL.Query()
	cookie, err := r.Cookie("state")
	c.mu.Lock()
	verifier, ok := c.begun[q.Get("state")]
	delete(c.begun, q.Get("state"))
	c.mu.Unlock()
	switch {
	case err != nil || !ok || cookie.Value != q.Get("state"):
		return Person{}, errors.New("OAuth state mismatch: begin again")
	case q.Get("error") != "":
		return Person{}, fmt.Errorf("the provider says %s", q.Get("error"))
	}
	return c.exchange(r, url.Values{"grant_type": {"authorization_code"}, "code": {q.Get("code")}, "redirect_uri": {c.Redirect}, "code_verifier": {verifier}})
}

// Again asks the provider again about a person whose token has expired.
func (c *Client) Again(r *http.Request, p Person) (Person, error) {
	if p.Refresh == "" {
		return p, errors.New("there is no refresh token")
	}
	return c.exchange(r, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {p.Refresh}})
}

func (c *Client) exchange(r *http.Request, form url.Values) (Person, error) {
	ask, err := http.NewRequestWithContext(r.Context(), http.MethodPost, c.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return Person{}, err
	}
	ask.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	ask.SetBasicAuth(c.ID, url.QueryEscape(c.Secret))
	var tokens struct {
		ID      string `json:"id_token"`
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
		Lives   int    `json:"expires_in"`
	}
	if err := c.ask(ask, &tokens); err != nil {
		return Person{}, err
	}
	return c.Who(r, Person{ID: tokens.ID, Access: tokens.Access, Refresh: tokens.Refresh, Expires: c.Now().Add(time.Duration(tokens.Lives) * time.Second)})
}

// Who asks the provider who a token is of.
func (c *Client) Who(r *http.Request, p Person) (Person, error) {
	ask, err := http.NewRequestWithContext(r.Context(), http.MethodGet, c.Userinfo, nil)
	if err != nil {
		return p, err
	}
	ask.Header.Set("Authorization", "Bearer "+p.Access)
	p.Claims = nil
	return p, c.ask(ask, &p.Claims)
}

func (c *Client) ask(r *http.Request, into any) error {
	res, err := c.HTTP.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: HTTP %d", r.Method, r.URL.Path, res.StatusCode)
	}
	return json.NewDecoder(res.Body).Decode(into)
}

// Share reports whether two lists have something in common.
func Share(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
