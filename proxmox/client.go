package proxmox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	api "github.com/luthermonson/go-proxmox"
	"golang.org/x/sync/semaphore"

	"github.com/cps-gpu/homelab/secret"
)

// Config says where Proxmox is and who we are.
type Config struct {
	Endpoint    string        // any spelling: pve1, pve1:8006, https://pve1:8006/api2/json
	TokenID     string        // user@realm!name
	TokenSecret secret.Value  //
	CAFile      string        // PEM of the authority to trust, in place of the system's
	Fingerprint string        // SHA-256 of the host's certificate, in place of any authority
	Insecure    bool          // do not check the certificate
	HTTPClient  *http.Client  // nil: our own; the TLS fields above are for our own alone
	UserAgent   string        // default "homelab"
	Login       *Login        // for what no token may set; nil: such an option is refused
	Poll        time.Duration // longest time between two looks at running tasks, default 1 s
	// Wrap goes around every request as it is sent, repeated ones too; may be nil.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Client speaks to one Proxmox host or cluster. It is safe for concurrent use,
// and one Client should be shared: it is what keeps requests together and
// allocations apart. It has nothing to close.
type Client struct {
	api      *api.Client
	http     *http.Client
	base     string // https://host:8006/api2/json
	cfg      Config
	expects  *expectation // what the token is meant to be allowed to do
	version  Version
	glances  glances
	tasks    tasks
	earlier  earlier
	born     sync.Map       // by owner: func(name string) string, see Recognise
	agents   notes[silence] // of guests whose agents did not answer
	vmids    vmids
	clones   *semaphore.Weighted // clones in flight
	destroys *semaphore.Weighted // destroys in flight
	storages storageLocks
	guard    atomic.Pointer[func(context.Context) error]
	sources  sync.Mutex // guards templates
	// templates are those that VMs were cloned from, by owner, host and name.
	templates map[string]template
	root      sync.Mutex // guards session
	session   *session   // of Config.Login; nil before it was needed
}

// Limits on work at one time, from measurements: more clones than six gain
// nothing, and destroys queue at the cluster's lock on user.cfg.
const (
	maxClones   = 6
	maxDestroys = 4
)

// Version is what GET /version says.
type Version struct {
	Version string `json:"version"` // 9.2.11
	Release string `json:"release"` // 9.2
}

// Major returns the major version, 0 when it cannot be read.
func (v Version) Major() int {
	var n int
	_, _ = fmt.Sscanf(v.Version, "%d.", &n)
	return n
}

// Before reports whether v is older than a release such as 8.4; one that cannot be read is not.
func (v Version) Before(major, minor int) bool {
	var a, b int
	n, _ := fmt.Sscanf(v.Version, "%d.%d", &a, &b)
	return n == 2 && (a < major || a == major && b < minor)
}

// Dial makes a Client and asks the host for its version, which shows at once
// whether address, certificate and token are right.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	host, err := parseEndpoint(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	if err := checkToken(cfg); err != nil {
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
	} else if own.Transport, err = ownTransport(cfg, host); err != nil {
		return nil, err
	}
	if own.Transport == nil {
		own.Transport = http.DefaultTransport
	}
	if cfg.Wrap != nil {
		own.Transport = cfg.Wrap(own.Transport)
	}
	expects := &expectation{}
	own.Transport = retryGets{&turns{next: statusErrors{own.Transport, cfg.TokenID, expects}}}
	base := "https://" + host + apiRoot
	c := &Client{
		http: &own, base: base, cfg: cfg, expects: expects,
		api: api.NewClient(base, api.WithHTTPClient(&own), api.WithUserAgent(cfg.UserAgent),
			api.WithAPIToken(cfg.TokenID, cfg.TokenSecret.Reveal())),
		clones:   semaphore.NewWeighted(maxClones),
		destroys: semaphore.NewWeighted(maxDestroys),
	}
	if err := c.get(ctx, "/version", nil, &c.version); err != nil {
		return nil, explainDial(err, host)
	}
	if c.version.Version == "" {
		return nil, fmt.Errorf("proxmox: %s answers, but not as Proxmox VE does: is this its API?", host)
	}
	return c, nil
}

// Version returns what the host said when we dialled.
func (c *Client) Version() Version { return c.version }

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

// checkToken finds what can be wrong with a token before it is sent: a wrong one
// costs three seconds at the server.
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

// explainDial says what a failed first request means.
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

// get asks and decodes what is below "data".
func (c *Client) get(ctx context.Context, path string, query url.Values, out any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return plain(c.api.Get(ctx, path, out))
}

// params are the parameters of a request. Values are strings, whole numbers or
// lists of strings: go-proxmox sends them as JSON, which Proxmox reads without
// loss. (Its query encoder writes 1e+06, so queries are made here.)
type params map[string]any

// call sends a request that changes something. out may be nil.
func (c *Client) call(ctx context.Context, method, path string, p params, out any) error {
	defer c.glances.forget(path)
	return c.send(ctx, method, path, p, out)
}

func (c *Client) send(ctx context.Context, method, path string, p params, out any) error {
	var raw json.RawMessage
	err := c.may(ctx)
	if err != nil {
		return err
	}
	switch method {
	case http.MethodPost:
		err = c.api.Post(ctx, path, p, &raw)
	case http.MethodPut:
		err = c.api.Put(ctx, path, p, &raw)
	case http.MethodDelete:
		query := url.Values{}
		for k, v := range p {
			query.Set(k, fmt.Sprint(v))
		}
		if len(query) > 0 {
			path += "?" + query.Encode()
		}
		err = c.api.Delete(ctx, path, &raw)
	default:
		err = fmt.Errorf("method %s", method)
	}
	if err != nil {
		return plain(err)
	}
	if out == nil || len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("proxmox: %s %s: answer %.100q: %w", method, path, raw, err)
	}
	return nil
}

// Guard has may asked before every request that changes something, until done is called:
// its error keeps the request back. There is one guard at a time.
func (c *Client) Guard(may func(context.Context) error) (done func()) {
	c.guard.Store(&may)
	return func() { c.guard.CompareAndSwap(&may, nil) }
}

func (c *Client) may(ctx context.Context) error {
	if guard := c.guard.Load(); guard != nil && ctx.Value(unguarded{}) == nil {
		return (*guard)(ctx)
	}
	return nil
}

// unguarded marks the context of what a guard itself asks for.
type unguarded struct{}

// begin sends a request that starts a task and returns the task's id. An answer
// without one is an error here; go-proxmox would return a nil task.
func (c *Client) begin(ctx context.Context, method, path string, p params) (UPID, error) {
	defer c.glances.forget(path)
	return c.launch(ctx, method, path, p)
}

func (c *Client) launch(ctx context.Context, method, path string, p params) (UPID, error) {
	var text string
	err := c.send(ctx, method, path, p, &text)
	var upid UPID
	switch {
	case err != nil:
	case text == "":
		err = &Error{Method: method, Path: path, Message: "the answer names no task", Token: c.cfg.TokenID}
	default:
		upid, err = parseUPID(text)
	}
	if said := new(Error); err != nil && (!errors.As(err, &said) || said.class() == unknown) {
		if on, is := strings.CutPrefix(path, "/nodes/"); is { // it may have begun
			host, _, _ := strings.Cut(on, "/")
			c.earlier.lose(host)
		}
	}
	return upid, err
}

// do sends a request that starts a task and waits for the task's end.
func (c *Client) do(ctx context.Context, method, path string, p params) error {
	_, err := c.finish(ctx, method, path, p)
	return err
}

// finish is do, and returns the task's exit status: "OK", or "WARNINGS: 2".
func (c *Client) finish(ctx context.Context, method, path string, p params) (exit string, err error) {
	defer c.glances.forget(path) // not before: what others asked meanwhile is as true as it was
	upid, err := c.launch(ctx, method, path, p)
	if err != nil {
		return "", err
	}
	return c.exit(ctx, upid)
}

// plain takes off the wrapping that net/http puts around a transport's error.
func plain(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// nodePath is the API path of something on a host.
func nodePath(host string, parts ...string) string {
	var b strings.Builder
	b.WriteString("/nodes/")
	b.WriteString(url.PathEscape(host))
	for _, p := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(p))
	}
	return b.String()
}

// vmPath is the API path of something of a VM.
func vmPath(host string, vmid int, parts ...string) string {
	return nodePath(host, append([]string{"qemu", fmt.Sprint(vmid)}, parts...)...)
}

// storageLocks keeps allocations on one storage of one host apart. Proxmox holds
// a lock per storage while it makes a volume and gives up after 10 s: linked
// clones take it for an instant and may go side by side, a full copy or an
// import has the storage for itself.
type storageLocks struct {
	mu    sync.Mutex
	locks map[string]*semaphore.Weighted
}

// allocate waits for its turn and returns what ends it.
func (s *storageLocks) allocate(ctx context.Context, host, storage string, whole bool) (release func(), err error) {
	s.mu.Lock()
	if s.locks == nil {
		s.locks = map[string]*semaphore.Weighted{}
	}
	key := host + "/" + storage
	lock := s.locks[key]
	if lock == nil {
		lock = semaphore.NewWeighted(maxClones)
		s.locks[key] = lock
	}
	s.mu.Unlock()
	weight := int64(1)
	if whole {
		weight = maxClones
	}
	if err := lock.Acquire(ctx, weight); err != nil {
		return nil, err
	}
	return func() { lock.Release(weight) }, nil
}
