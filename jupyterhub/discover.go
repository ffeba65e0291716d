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

// Discover asks an OpenID Connect issuer for its endpoints. The hub shows its client secret
// at one of them, so an issuer that is reached by TLS is not left for what is not: neither
// by a redirect nor by what it publishes.
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
		return fail(fmt.Errorf("it calls itself %q: say exactly that", said.Issuer))
	}
	if said.Authorize == "" || said.Token == "" || said.Userinfo == "" {
		return fail(errors.New("it does not publish all three: say authorizeURL, tokenURL and userdataURL"))
	}
	for name, endpoint := range map[string]string{"authorizeURL": said.Authorize, "tokenURL": said.Token, "userdataURL": said.Userinfo} {
		if err := sameSafety(req.URL, endpoint); err != nil {
			return fail(fmt.Errorf("its %s: %w", name, err))
		}
	}
	return Endpoints{Authorize: said.Authorize, Token: said.Token, Userinfo: said.Userinfo}, nil
}

// keepTLS follows redirects, but not out of TLS.
func keepTLS(to *http.Request, via []*http.Request) error {
	switch {
	case len(via) >= mostRedirects:
		return fmt.Errorf("%d redirects, one after the other", mostRedirects)
	case via[0].URL.Scheme == "https" && to.URL.Scheme != "https":
		return fmt.Errorf("it redirects to %s, which is without TLS: anybody on the way could say where the hub shows its secret; "+
			"set the issuer right, or write authorizeURL, tokenURL and userdataURL", to.URL.Redacted())
	}
	return nil
}

const mostRedirects = 10

// sameSafety is an error where an endpoint is no URL of HTTP, or without TLS where its
// issuer has it.
func sameSafety(issuer *url.URL, endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q is no address that a hub could ask", endpoint)
	}
	if issuer.Scheme == "https" && u.Scheme != "https" {
		return fmt.Errorf("%s is without TLS, and the issuer has it: anybody on the way could read what the hub sends there, its client secret too; "+
			"set the issuer right (one behind a proxy has to know its own address)", u.Redacted())
	}
	return nil
}
