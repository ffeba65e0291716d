package jupyterhub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Discover asks an OpenID Connect issuer for its endpoints. The hub sends its client secret to
// one of them, so an issuer with TLS cannot lead to an endpoint without, neither by a redirect
// nor by what it publishes.
func Discover(ctx context.Context, client *http.Client, issuer string) (Endpoints, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	at := strings.TrimRight(issuer, "/") + "/.well-known/openid-configuration"
	fail := func(err error) (Endpoints, error) {
		return Endpoints{}, fmt.Errorf("the endpoints of issuer %s: %w", issuer, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return fail(err)
	}
	safe := *client
	safe.CheckRedirect = keepTLS
	res, err := safe.Do(req)
	if err != nil {
		return fail(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fail(fmt.Errorf("%s: %s", at, res.Status))
	}
	var said struct {
		Issuer    string `json:"issuer"`
		Authorize string `json:"authorization_endpoint"`
		Token     string `json:"token_endpoint"`
		Userinfo  string `json:"userinfo_endpoint"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&said); err != nil {
		return fail(fmt.Errorf("%s: %w", at, err))
	}
	if strings.TrimRight(said.Issuer, "/") != strings.TrimRight(issuer, "/") {
		return fail(fmt.Errorf("it calls itself %q: write exactly that", said.Issuer))
	}
	if said.Authorize == "" || said.Token == "" || said.Userinfo == "" {
		return fail(errors.New("it does not publish all three: write authorizeURL, tokenURL and userdataURL"))
	}
	for name, endpoint := range map[string]string{"authorizeURL": said.Authorize, "tokenURL": said.Token, "userdataURL": said.Userinfo} {
		if err := sameSafety(req.URL, endpoint); err != nil {
			return fail(fmt.Errorf("its %s: %w", name, err))
		}
	}
	return Endpoints{Authorize: said.Authorize, Token: said.Token, Userinfo: said.Userinfo}, nil
}

// keepTLS follows redirects, but not from TLS to no TLS.
func keepTLS(to *http.Request, via []*http.Request) error {
	switch {
	case len(via) >= mostRedirects:
		return fmt.Errorf("%d redirects, one after the other", mostRedirects)
	case via[0].URL.Scheme == "https" && to.URL.Scheme != "https":
		return fmt.Errorf("it redirects to %s, which has no TLS: anyone on the path could redirect the hub's secret; "+
			"correct the issuer, or write authorizeURL, tokenURL and userdataURL", to.URL.Redacted())
	}
	return nil
}

const mostRedirects = 10

// sameSafety returns an error if an endpoint is not an HTTP URL, or has no TLS although its
// issuer has.
func sameSafety(issuer *url.URL, endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q is not a URL that a hub can use", endpoint)
	}
	if issuer.Scheme == "https" && u.Scheme != "https" {
		return fmt.Errorf("%s has no TLS, but the issuer does: anyone on the path could read what the hub sends there, including its client secret; "+
			"correct the issuer (behind a proxy it must know its own address)", u.Redacted())
	}
	return nil
}
