package proxmox

import (
	"cmp"
	"context"
	"crypto/x509"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/cps-gpu/homelab/proxmox/internal/agent"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
	"github.com/cps-gpu/homelab/secret"
)

// Config has the address of Proxmox and the credentials.
type Config struct {
	Endpoint    string       // any spelling: pve1, pve1:8006, https://pve1:8006/api2/json
	TokenID     string       // user@realm!name
	TokenSecret secret.Value //
	// At most one of these four says how the host's certificate is checked; the system's authorities do
	// if none is set. With more than one, Dial returns an error.
	CAFile      string       // PEM of the authority to trust
	Fingerprint string       // SHA-256 of the host's certificate
	Insecure    bool         // do not check the certificate
	HTTPClient  *http.Client // checks it in its own way
	UserAgent   string       // default "homelab"
	// Some options can only be set by root@pam itself, not by a token, not even one of root. RootPassword
	// is called once, when a ticket of RootUser is needed for them, and its result is not kept. Without
	// it such options are refused.
	RootUser     string // root@pam
	RootPassword func(context.Context) (secret.Value, error)
	Poll         time.Duration // longest time between two checks of running tasks, default 1 s
	// Wrap wraps the transport of every request, including retries; may be nil.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Client talks to one Proxmox host or cluster. It is safe for concurrent use. Share one Client,
// because it combines requests and serializes allocations. It needs no Close.
type Client struct {
	*core
	VMs       *VMClient
	Templates *TemplateClient
	Agents    *AgentClient
	Consoles  *ConsoleClient
	Hosts     *HostClient
	Storages  *StorageClient
	PCI       *PCIClient
	Firewall  *FirewallClient
}

// What a Client does, by noun.
type (
	// VMClient finds, makes, changes and removes VMs.
	VMClient struct{ *core }
	// ConsoleClient does what one does at the console of a VM that has no guest agent yet.
	ConsoleClient struct{ *core }
	// TemplateClient makes templates, and VMs from them.
	TemplateClient struct{ *core }
	// AgentClient asks guests through their agents.
	AgentClient struct{ *core }
	// HostClient reads what hosts are and what is on them.
	HostClient struct{ *core }
	// StorageClient handles storages, their volumes, images and ISOs.
	StorageClient struct{ *core }
	// PCIClient handles cards of hosts, and the mappings by which VMs get them.
	PCIClient struct{ *core }
	// FirewallClient handles security groups of VMs.
	FirewallClient struct{ *core }
)

// core is what all parts of a Client share.
type core struct {
	client   *Client
	pve      *api.Client   // the requests themselves
	expected sync.Map      // by owner: func(name string) bool, see RegisterNames
	agents   *agent.Agents // of guests
	vmids    vmids
	clones   *semaphore.Weighted // clones in flight
	destroys *semaphore.Weighted // destroys in flight
	locks    storageLocks
	sources  sync.Mutex // guards known
	// recorded are the templates that VMs were cloned from, by owner, host and name.
	recorded map[string]template
}

// Dial makes a Client and asks the host for its version, so a wrong address, certificate or token
// shows at once.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	pve, err := api.Dial(ctx, api.Config(cfg))
	if err != nil {
		return nil, err
	}
	k := &core{pve: pve, agents: agent.New(pve), clones: semaphore.NewWeighted(maxClones), destroys: semaphore.NewWeighted(maxDestroys)}
	k.client = &Client{k, &VMClient{k}, &TemplateClient{k}, &AgentClient{k}, &ConsoleClient{k}, &HostClient{k}, &StorageClient{k}, &PCIClient{k}, &FirewallClient{k}}
	return k.client, nil
}

// Version is a version of Proxmox VE.
type Version struct {
	Version string `json:"version"` // 9.2.11
	Release string `json:"release"` // 9.2
}

// Major returns the major version, or 0 if it cannot be parsed.
func (v Version) Major() int { major, _ := v.numbers(); return major }

// Before reports whether v is older than a release such as 8.4. It is false if v cannot be parsed.
func (v Version) Before(major, minor int) bool {
	a, b := v.numbers()
	return a > 0 && b >= 0 && (a < major || a == major && b < minor)
}

// numbers returns the first two numbers of a version: 0 and -1 stand for ones that are not there.
func (v Version) numbers() (major, minor int) {
	first, rest, _ := strings.Cut(cmp.Or(v.Version, v.Release), ".")
	digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
	return wire.Number(first, 0), wire.Number(rest[:digits], -1)
}

// Version returns the host's version, as read by [Dial].
func (c *Client) Version() Version { return Version(c.pve.Version()) }

// TokenID returns the id of the token in use.
func (c *Client) TokenID() string { return c.pve.TokenID() }

// Endpoint returns host and port.
func (c *Client) Endpoint() string { return c.pve.Endpoint() }

// Get sends a GET to a path below /api2/json and decodes the "data" of the answer.
func (c *Client) Get(ctx context.Context, path string, query url.Values, out any) error {
	return c.pve.Get(ctx, path, query, out)
}

// Call sends a request that changes something, once. Parameters are strings, whole numbers or lists
// of strings; out may be nil.
func (c *Client) Call(ctx context.Context, method, path string, params map[string]any, out any) error {
	return c.pve.Call(ctx, method, path, params, out)
}

// Do sends a request that starts a task and waits until the task ends.
func (c *Client) Do(ctx context.Context, method, path string, params map[string]any) error {
	return c.pve.Do(ctx, method, path, params)
}

// Guard calls may before every request that changes something, until done is called. If may returns
// an error, the request is not sent. There is one guard at a time.
func (c *Client) Guard(may func(context.Context) error) (done func()) { return c.pve.Guard(may) }

// SetGrantCommands tells the client how to get the commands that grant one of the privileges on a path, none if
// its token is not meant to have them. The error of a refused request then has them, ready to paste.
func (c *Client) SetGrantCommands(commands func(path string, privileges []string) []string) {
	c.pve.SetGrantCommands(commands)
}

// WaitForEarlierTasks waits until every task on a host has ended that an earlier process with the same
// token started there. It reports whether there was one: state that was read before may be stale.
func (c *Client) WaitForEarlierTasks(ctx context.Context, host string) (waited bool, err error) {
	return c.pve.WaitForEarlierTasks(ctx, host)
}

// Certificate requests the certificate of the host at endpoint, in any spelling, before anything is
// sent to the host. It returns the certificate's SHA-256 fingerprint, and whether an authority that
// this system trusts has signed it for that name. Proxmox makes an authority of its own, which no
// other system trusts.
func Certificate(ctx context.Context, endpoint string) (fingerprint string, trusted bool, err error) {
	return api.Certificate(ctx, endpoint)
}

// Fingerprint returns the SHA-256 of a certificate in Proxmox's format: AB:CD:….
func Fingerprint(cert *x509.Certificate) string { return api.Fingerprint(cert) }

// Limits on concurrent work, from measurements: more than six clones at once gain nothing, and
// destroys queue at the cluster's lock on user.cfg.
const (
	maxClones   = 6
	maxDestroys = 4
)

// storageLocks serializes allocations on one storage of one host. Proxmox locks the storage while
// it makes a volume, and gives up after 10 s. Linked clones hold that lock only briefly and may run
// concurrently. A full copy or an import gets the storage exclusively.
type storageLocks struct {
	mu    sync.Mutex
	locks map[string]*semaphore.Weighted
}

// allocate waits for its turn and returns the function that ends it.
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
