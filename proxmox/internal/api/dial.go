package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lib "github.com/luthermonson/go-proxmox"

	"github.com/cps-gpu/homelab/secret"
)

// Config is package proxmox's, field by field.
type Config struct {
	Endpoint     string
	TokenID      string
	TokenSecret  secret.Value
	CAFile       string
	Fingerprint  string
	Insecure     bool
	HTTPClient   *http.Client
	UserAgent    string
	RootUser     string
	RootPassword func(context.Context) (secret.Value, error)
	Poll         time.Duration
	Wrap         func(http.RoundTripper) http.RoundTripper
}

// Client sends requests to one Proxmox host or cluster. It is safe for concurrent use. Share one
// Client, because it combines requests. It needs no Close.
type Client struct {
	lib     *lib.Client
	http    *http.Client
	base    string // https://host:8006/api2/json
	cfg     Config
	expects *grantHints // the permissions that the token is meant to have
	version Version
	glances sharedGets
	tasks   tasks
	earlier earlierTasks
	guard   atomic.Pointer[func(context.Context) error]
	root    sync.Mutex // guards session
	session *session   // of Config.RootUser; nil until first needed
}

// Dial makes a Client and asks the host for its version, so a wrong address, certificate or token
// shows at once.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	host, err := parseEndpoint(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(checkToken(cfg), checkTLS(cfg)); err != nil {
		return nil, err
	}
	if cfg.Poll <= 0 {
		cfg.Poll = time.Second
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "homelab"
	}
	own := http.Client{}
	if cfg.HTTPClient != nil {
		own = *cfg.HTTPClient
	} else if own.Transport, err = defaultTransport(cfg, host); err != nil {
		return nil, err
	}
	if own.Transport == nil {
		own.Transport = http.DefaultTransport
	}
	if cfg.Wrap != nil {
		own.Transport = cfg.Wrap(own.Transport)
	}
	expects := &grantHints{}
	own.Transport = retryGets{&workerLimit{next: statusErrors{own.Transport, cfg.TokenID, expects}}}
	base := "https://" + host + apiRoot
	c := &Client{
		http: &own, base: base, cfg: cfg, expects: expects,
		lib: lib.NewClient(base, lib.WithHTTPClient(&own), lib.WithUserAgent(cfg.UserAgent),
			lib.WithAPIToken(cfg.TokenID, cfg.TokenSecret.Reveal())),
	}
	if err := c.Get(ctx, "/version", nil, &c.version); err != nil {
		return nil, explainDial(err, host)
	}
	if c.version.Version == "" {
		return nil, fmt.Errorf("proxmox: %s answers, but not as Proxmox VE does: is this its API?", host)
	}
	return c, nil
}

// Version is the answer to GET /version.
type Version struct {
	Version string `json:"version"` // 9.2.11
	Release string `json:"release"` // 9.2
}

// Version returns the host's version, as read by [Dial].
func (c *Client) Version() Version { return c.version }

// Poll returns the longest time between two checks while waiting.
func (c *Client) Poll() time.Duration { return c.cfg.Poll }

// TokenID returns the id of the token in use.
func (c *Client) TokenID() string { return c.cfg.TokenID }

// Endpoint returns host and port.
func (c *Client) Endpoint() string {
	return strings.TrimSuffix(strings.TrimPrefix(c.base, "https://"), apiRoot)
}

func dialer() *net.Dialer { return &net.Dialer{Timeout: 10 * time.Second} }

// parseEndpoint accepts any spelling of the API's address and returns host:port.
func parseEndpoint(s string) (string, error) {
	text := strings.TrimSpace(s)
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return "", fmt.Errorf("proxmox endpoint %q is not an address: write host, host:8006 or https://host:8006", s)
	}
	if u.Scheme != "https" {
		return "", fmt.Errorf("proxmox endpoint %q: Proxmox speaks https only", s)
	}
	if u.User != nil {
		return "", errors.New("proxmox endpoint: a user or password does not belong into the address: use an API token")
	}
	switch strings.TrimRight(u.Path, "/") {
	case "", "/api2", apiRoot, "/api2/extjs":
	default:
		return "", fmt.Errorf("proxmox endpoint %q: the path %s is not Proxmox's API", s, u.Path)
	}
	port := u.Port()
	if port == "" {
		port = "8006"
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// checkToken finds mistakes in a token before it is sent, because the server takes three seconds to
// reject a wrong one.
func checkToken(cfg Config) error {
	user, name, found := strings.Cut(cfg.TokenID, "!")
	if !found || name == "" || !strings.Contains(user, "@") {
		return fmt.Errorf("proxmox token id %q: write user@realm!name, as in homelab@pve!cluster", cfg.TokenID)
	}
	if cfg.TokenSecret.IsZero() {
		return fmt.Errorf("proxmox: the secret of the token %s is empty", cfg.TokenID)
	}
	if strings.ContainsAny(cfg.TokenID+cfg.TokenSecret.Reveal(), " \t\r\n") {
		return fmt.Errorf("proxmox: the token %s or its secret has blanks or line ends in it", cfg.TokenID)
	}
	return nil
}

// explainDial says why a first request failed.
func explainDial(err error, host string) error {
	if t := explainTLS(err, host); t != nil {
		return t
	}
	var e *Error
	if errors.As(err, &e) && e.Status == 0 {
		return fmt.Errorf("proxmox: %s cannot be reached: %w\n  is the address right, the host up, and port 8006 open from here?", host, err)
	}
	return err
}
