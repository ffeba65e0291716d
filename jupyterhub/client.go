package jupyterhub

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/secret"
)

// Client talks to a hub with the token of a service. Its zero fields reach a hub
// directly, with the system's authorities.
type Client struct {
	URL   string // the hub's address for users, e.g. https://hub.lab.example
	Token secret.Value
	Dial  func(ctx context.Context, network, addr string) (net.Conn, error) // nil: directly
	TLS   *tls.Config                                                       // nil: the system's authorities
}

// APIError is an error response of the hub, or of a server behind it.
type APIError struct {
	Method, Path string
	Status       int
	Message      string // the hub's own message; may be empty
}

func (e *APIError) Error() string {
	text := fmt.Sprintf("%s %s: %d %s", e.Method, e.Path, e.Status, http.StatusText(e.Status))
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// Transient is true if the proxy in front of the hub, or of one of its servers, cannot reach it:
// either may be restarting.
func (e *APIError) Transient() bool {
	return e.Status == http.StatusBadGateway || e.Status == http.StatusServiceUnavailable || e.Status == http.StatusGatewayTimeout
}

// markTransient marks an error as transient if the network prevented an answer. An unknown name or
// an untrusted certificate is not transient.
func markTransient(err error) error {
	var late net.Error
	var op *net.OpError
	var name *net.DNSError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &cert), errors.As(err, &name) && name.IsNotFound:
		return err
	case errors.As(err, &op), errors.As(err, &late) && late.Timeout(), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return converge.Transient(err)
	}
	return err
}

// is reports whether err is an answer with this status.
func is(err error, status int) bool {
	var e *APIError
	return errors.As(err, &e) && e.Status == status
}

// conn is a Client in use: its connections end with it.
type conn struct {
	base  *url.URL
	token secret.Value
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	tls   *tls.Config
	http  *http.Client
}

// open connects like reach, and requires a token.
func (c Client) open() (*conn, error) {
	if c.Token.IsZero() {
		return nil, errors.New("no token for the hub's API: it is in the Secret " + secretName + ", key " + keyToken)
	}
	return c.reach()
}

func (c Client) reach() (*conn, error) {
	base, err := url.Parse(strings.TrimRight(c.URL, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("%q is not a URL of a hub: want e.g. https://hub.lab.example", c.URL)
	}
	dial := c.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second}).DialContext
	}
	transport := &http.Transport{DialContext: dial, TLSClientConfig: c.TLS, TLSHandshakeTimeout: 30 * time.Second}
	return &conn{base: base, token: c.Token, dial: dial, tls: c.TLS, http: &http.Client{
		Transport: transport,
		// The API does not redirect; a login page that answers instead does.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func (c *conn) close() { c.http.CloseIdleConnections() }

// maximum length of an answer: a hub's longest is the model of a user.
const maxAnswer = 4 << 20

// requestTimeout is the time limit of one request. It answers a start after 10 s at the
// latest, and a stop too (JupyterHub: slow_spawn_timeout, slow_stop_timeout).
const requestTimeout = 90 * time.Second

// call sends body as JSON, unless it is nil, and reads the answer into out, unless
// that is nil. It returns the status of a success.
func (c *conn) call(ctx context.Context, method, path string, body, out any) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	res, err := c.send(ctx, method, path, body, "application/json")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", method, path, markTransient(err))
	}
	if res.StatusCode >= 300 {
		return 0, &APIError{Method: method, Path: path, Status: res.StatusCode, Message: message(data, res)}
	}
	if out == nil || len(data) == 0 {
		return res.StatusCode, nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return 0, fmt.Errorf("%s %s: this is not what a hub answers: %w", method, path, err)
	}
	return res.StatusCode, nil
}

func (c *conn) send(ctx context.Context, method, path string, body any, accept string) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", method, path, err)
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base.String()+path, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "token "+c.token.Reveal())
	req.Header.Set("Accept", accept)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the hub does not answer: %w", markTransient(err))
	}
	return res, nil
}

// message returns the hub's own message: it answers {"status": …, "message": …}; a proxy
// before it, or a login page, answers HTML.
func message(data []byte, res *http.Response) string {
	var said struct{ Message, Reason string }
	if json.Unmarshal(data, &said) == nil {
		return cmp.Or(said.Message, said.Reason)
	}
	if to := res.Header.Get("Location"); to != "" {
		return "it redirects to " + to
	}
	if strings.Contains(res.Header.Get("Content-Type"), "html") {
		return "a web page, not the hub's API"
	}
	text := strings.TrimSpace(string(data))
	return text[:min(len(text), 200)]
}
