package kube

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/limit"
)

// Config names a cluster and how to reach it.
type Config struct {
	// Kubeconfig is in kubectl's format, proxy-url included, but must contain all credentials
	// (`kubectl config view --raw --flatten`): it may come from another machine, so it may
	// neither read files nor run programs here.
	Kubeconfig []byte
	Context    string // which of its contexts; empty: the current one

	// Dial connects to the API server. Nil connects as kubectl does. If Dial is set, the
	// kubeconfig's proxy-url is not used.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Wrap wraps the transport of every request, for tests that count requests and for
	// tracing.
	Wrap func(http.RoundTripper) http.RoundTripper

	// Devices are what nodes offer by Dynamic Resource Allocation and [Node.Count] counts too.
	Devices Devices

	// Timeout is how long one request may take. Default 30 s.
	Timeout time.Duration
}

// Client talks to one cluster. It is safe for concurrent use.
type Client struct{ api }

// api sends requests, and knows where objects of a kind are.
type api struct {
	base      *url.URL
	http      *http.Client
	transport *http.Transport
	timeout   time.Duration
	manager   string // under which it applies
	devices   Devices
	known     *knownKinds
}

// knownKinds caches the kinds that the API server serves.
type knownKinds struct {
	mu    sync.Mutex
	kinds map[string][]metav1.APIResource // by group and version
}

// New makes a Client. It does not connect yet; [Client.CheckReachable] does.
func New(cfg Config) (*Client, error) {
	raw, err := clientcmd.Load(cfg.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if err := checkSelfContained(raw); err != nil {
		return nil, err
	}
	rc, err := clientcmd.NewNonInteractiveClientConfig(*raw, cfg.Context, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(rc)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: server %q: %w", rc.Host, err)
	}
	tlsConfig, err := rest.TLSConfigFor(rc)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	const reach = 10 * time.Second // for a connection, and again for TLS
	// A transport of our own: the library's are shared by the whole process and
	// live as long, and limit the rate to 5 requests a second.
	transport := &http.Transport{
		Proxy:               rc.Proxy,
		DialContext:         cfg.Dial,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: reach,
		ForceAttemptHTTP2:   true,
		IdleConnTimeout:     90 * time.Second,
	}
	if cfg.Dial != nil {
		transport.Proxy = nil
	} else {
		transport.DialContext = (&net.Dialer{Timeout: reach}).DialContext
	}
	rt, err := rest.HTTPWrappersForConfig(rc, transport)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if cfg.Wrap != nil {
		rt = cfg.Wrap(rt)
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	return &Client{api{base: base, http: &http.Client{Transport: rt, CheckRedirect: refuseRedirect}, transport: transport,
		timeout: cfg.Timeout, devices: cfg.Devices,
		manager: fieldManager, known: &knownKinds{kinds: map[string][]metav1.APIResource{}}}}, nil
}

// checkSelfContained refuses a kubeconfig that reads credentials from elsewhere on this machine.
func checkSelfContained(raw *clientcmdapi.Config) error {
	const cure = ": put the credentials into it with `kubectl config view --raw --flatten`, or make a token"
	for name, user := range raw.AuthInfos {
		if user.Exec != nil || user.AuthProvider != nil {
			return fmt.Errorf("kubeconfig: user %q runs a program of this machine, which is not allowed%s", name, cure)
		}
		if file := cmp.Or(user.TokenFile, user.ClientCertificate, user.ClientKey); file != "" {
			return fmt.Errorf("kubeconfig: user %q refers to %q on this machine, which is not read%s", name, file, cure)
		}
	}
	for name, cluster := range raw.Clusters {
		if cluster.CertificateAuthority != "" {
			return fmt.Errorf("kubeconfig: cluster %q refers to %q on this machine, which is not read%s", name, cluster.CertificateAuthority, cure)
		}
	}
	return nil
}

// refuseRedirect follows no redirect: the transport would send our credentials to its target, and an API
// server redirects none of our requests.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close closes idle connections.
func (c *Client) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// CheckReachable asks the API server whether it is ready to serve.
func (c *Client) CheckReachable(ctx context.Context) error {
	return c.do(ctx, request{doing: "ask whether the API server is ready", path: "/readyz"}, nil)
}

// Version returns the API server's version, e.g. "v1.36.5+k3s1".
func (c *Client) Version(ctx context.Context) (string, error) {
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	err := c.do(ctx, request{doing: "ask the API server's version", path: "/version"}, &v)
	return v.GitVersion, err
}

// request is one call of the API.
type request struct {
	doing string // for errors: "apply configmap default/x"
	verb  string // default GET
	path  string
	query url.Values
	kind  string // content type of body; default application/json
	body  any    // marshalled as JSON; []byte is sent unchanged

	accept string // accepted content type; default application/json
}

// maxAnswer is the most that is read of an answer, in bytes. Lists come in pages, and an
// object has at most 1.5 MiB (etcd's own limit).
const maxAnswer = 64 << 20

// maxBusy is how often a server that says "too many requests, come back in n
// seconds" is asked again. An eviction that a budget forbids says no such time.
const maxBusy = 5

// do makes a request and decodes the answer into out, unless out is nil; a *[]byte receives it as it is.
func (c *api) do(ctx context.Context, r request, out any) error {
	body, err := encode(r.body)
	if err != nil {
		return fmt.Errorf("%s: %w", r.doing, err)
	}
	for try := 0; ; try++ {
		after, err := c.tryOnce(ctx, r, body, out)
		if err == nil || after == 0 || try == maxBusy {
			return explain(r.doing, err)
		}
		converge.Progressf(ctx, "the API server is busy: asking again in %s", after)
		if converge.Pause(ctx, after) != nil {
			return explain(r.doing, errors.Join(err, ctx.Err()))
		}
	}
}

func encode(body any) ([]byte, error) {
	switch b := body.(type) {
	case nil:
		return nil, nil
	case []byte:
		return b, nil
	}
	return json.Marshal(body)
}

// tryOnce makes a request once. after is how long the server asks to wait before the
// next try, 0 when another try is useless.
func (c *api) tryOnce(ctx context.Context, r request, body []byte, out any) (after time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no answer within %s", c.timeout))
	defer cancel()
	u := c.base.JoinPath(r.path)
	u.RawQuery = r.query.Encode()
	verb := r.verb
	if verb == "" {
		verb = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, verb, u.String(), bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept", cmp.Or(r.accept, "application/json"))
	req.Header.Set("User-Agent", fieldManager)
	if body != nil {
		req.Header.Set("Content-Type", r.kind)
		if r.kind == "" {
			req.Header.Set("Content-Type", "application/json")
		}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, causeOf(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	resp.Body = limit.Body(resp.Body, resp.ContentLength, maxAnswer)
	answer, err := io.ReadAll(resp.Body)
	if large, ok := errors.AsType[*limit.Error](err); ok {
		return 0, fmt.Errorf("the API server's answer: %w", large)
	}
	if err != nil {
		return 0, causeOf(ctx, err)
	}
	warn(ctx, resp.Header)
	if resp.StatusCode >= http.StatusMultipleChoices {
		return retryAfter(resp), statusError(resp, answer)
	}
	if out == nil {
		return 0, nil
	}
	if text, ok := out.(*[]byte); ok {
		*text = answer
		return 0, nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return 0, fmt.Errorf("the API server's answer: %w", err)
	}
	return 0, nil
}

// causeOf distinguishes our own time limit from the caller's.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

func retryAfter(resp *http.Response) time.Duration {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode < http.StatusInternalServerError {
		return 0
	}
	n, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || n < 1 {
		return 0
	}
	return min(time.Duration(n)*time.Second, time.Minute)
}

// warn reports the API server's warnings, such as a deprecated version.
func warn(ctx context.Context, h http.Header) {
	warnings, _ := utilnet.ParseWarningHeaders(h.Values("Warning"))
	for _, w := range warnings {
		converge.Progressf(ctx, "the API server warns: %s", w.Text)
	}
}
