package fleet

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"github.com/cps-gpu/homelab/secret"
)

// httpWire is the smart protocol over HTTP (gitprotocol-http(5)).
type httpWire struct {
	Remote
	place
}

func (w httpWire) exchange(ctx context.Context, service string, ask func(*packp.AdvRefs) (*bytes.Buffer, error),
	read func(io.Reader) error) error {
	client, err := w.client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	var refs *packp.AdvRefs
	base := w.place.url
	err = w.do(ctx, client, http.MethodGet, base+"/info/refs?service="+service, "", nil, func(resp *http.Response) error {
		want := "application/x-" + service + "-advertisement"
		if got := resp.Header.Get("Content-Type"); got != want {
			return fmt.Errorf("this is not a Git server: it answers with %s, where Git's have %s", oneLine(got), want)
		}
		// A server may redirect to another path on it, as GitLab does for a URL without .git.
		base = strings.TrimSuffix(resp.Request.URL.Scheme+"://"+resp.Request.URL.Host+resp.Request.URL.Path, "/info/refs")
		refs, err = readAdvertisement(resp.Body)
		return err
	})
	if err != nil {
		return err
	}
	body, err := ask(refs)
	if err != nil || body == nil {
		return err
	}
	return w.do(ctx, client, http.MethodPost, base+"/"+service, "application/x-"+service+"-request", body, func(resp *http.Response) error {
		return read(resp.Body)
	})
}

func (w httpWire) do(ctx context.Context, client *http.Client, verb, url, kind string, body *bytes.Buffer, read func(*http.Response) error) error {
	var content io.Reader
	if body != nil {
		content = body
	}
	req, err := http.NewRequestWithContext(ctx, verb, url, content)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "git/homelab")
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if !w.Password.IsZero() {
		user := w.Username
		if user == "" {
			user = w.place.user
		}
		req.SetBasicAuth(user, w.Password.Reveal())
	}
	resp, err := client.Do(req)
	if err != nil {
		return w.redact(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, maxSaid))
		text := oneLine(string(said))
		if strings.Contains(resp.Header.Get("Content-Type"), "html") {
			text = "" // a page for people with a browser
		}
		return &statusError{code: resp.StatusCode, text: secret.NewRedactor(w.Password).Redact(text)}
	}
	return w.redact(read(resp))
}

// redact keeps an error's kind and removes the password from its text: a server may echo what
// it received.
func (w httpWire) redact(err error) error {
	if err == nil || w.Password.IsZero() {
		return err
	}
	if clean := secret.NewRedactor(w.Password).Redact(err.Error()); clean != err.Error() {
		return errors.New(clean)
	}
	return err
}

// client makes a client for one talk. It follows redirects only on the same server, because
// the password is sent along.
func (w httpWire) client() (*http.Client, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("the system's certificates: %w", err)
	}
	if len(w.CA) > 0 && !roots.AppendCertsFromPEM(w.CA) {
		return nil, errors.New("the file of certificates for the Git server has none in it: it must be PEM")
	}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 2 * time.Minute, // includes the server's hooks
		ForceAttemptHTTP2:     true,
	}
	if w.Dial != nil {
		transport.Proxy, transport.DialContext = nil, w.Dial
	}
	return &http.Client{Transport: transport, CheckRedirect: func(to *http.Request, via []*http.Request) error {
		from := via[0]
		switch {
		case from.Method != http.MethodGet, to.URL.Host != from.URL.Host, from.URL.Scheme == "https" && to.URL.Scheme != "https":
			return fmt.Errorf("it redirects to %s: if that is right, write it into the URL", to.URL.Redacted())
		case len(via) > 5:
			return errors.New("it redirects in a circle")
		}
		return nil
	}}, nil
}
