package verify

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/cps-gpu/homelab/kube"
)

// Page is what a browser that nobody has signed in with gets.
type Page struct {
	Status int
	Way    []*url.URL // from the first to where the last redirect leads
	Body   []byte     // its beginning
	Until  time.Time  // when the first of the certificates ends; zero: there was none
}

// maxPage is the most that is read of a page, in bytes.
const maxPage = 1 << 20

// Open opens a page by its own name, and follows redirects to other pages of the cluster, but not to those of others. The
// name leads to the address of its Ingress or route, so that the DNS need not know it; without one the DNS decides.
// Certificates have to be right.
func (c Cluster) Open(ctx context.Context, address string) (Page, error) {
	at, err := url.Parse(address)
	if err != nil {
		return Page{}, err
	}
	ways, err := c.Ways(ctx)
	if err != nil {
		return Page{}, err
	}
	page := Page{Way: []*url.URL{at}}
	var ends endings
	transport := &http.Transport{DialContext: c.lead(ways), TLSHandshakeTimeout: 30 * time.Second,
		TLSClientConfig: &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12, VerifyConnection: ends.note}}
	defer transport.CloseIdleConnections()
	const most = 10 // redirects, as browsers and net/http have it
	browser := &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		page.Way = append(page.Way, r.URL)
		if r.URL.Hostname() != at.Hostname() && ways[r.URL.Hostname()] == "" || len(via) > most {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return Page{}, err
	}
	req.Header.Set("Accept", "text/html,*/*") // proxies answer programs with an error instead of a login
	res, err := browser.Do(req)
	if err != nil {
		return Page{}, pageError(err)
	}
	defer func() { _ = res.Body.Close() }()
	page.Status, page.Until = res.StatusCode, ends.first()
	page.Body, err = io.ReadAll(io.LimitReader(res.Body, maxPage))
	return page, err
}

// pageError says what to do about a page that does not answer.
func pageError(err error) error {
	var untrusted *tls.CertificateVerificationError
	var unknown *net.DNSError
	switch {
	case errors.As(err, &untrusted):
		return fmt.Errorf("%w: kubectl get certificates,challenges --all-namespaces shows which are not ready", err)
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return fmt.Errorf("%w: no Ingress and no route has an address for it, and the DNS does not know it", err)
	}
	return err
}

// endings are the certificates that were seen.
type endings struct {
	mu   sync.Mutex
	seen []*x509.Certificate
}

// overdue is the share of a certificate's life, counted from its end, in which it should have been renewed long ago.
// cert-manager does that at the last third (renewBefore of its documentation).
const overdue = 6

func (e *endings) note(s tls.ConnectionState) error {
	its := s.PeerCertificates[0]
	if left := time.Until(its.NotAfter); left < its.NotAfter.Sub(its.NotBefore)/overdue {
		return fmt.Errorf("the certificate of %s ends on %s and was not renewed: kubectl get certificates,challenges --all-namespaces shows why",
			s.ServerName, its.NotAfter.UTC().Format(time.DateOnly))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = append(e.seen, its)
	return nil
}

func (e *endings) first() (first time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.seen {
		if first.IsZero() || c.NotAfter.Before(first) {
			first = c.NotAfter
		}
	}
	return first
}

// lead dials the addresses of names.
func (c Cluster) lead(ways map[string]string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := c.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second}).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if name, port, err := net.SplitHostPort(addr); err == nil && ways[name] != "" {
			addr = net.JoinHostPort(ways[name], port)
		}
		return dial(ctx, network, addr)
	}
}

type name struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// route is what is read of an HTTPRoute of the Gateway API.
type route struct {
	Metadata name `json:"metadata"`
	Spec     struct {
		Hostnames  []string `json:"hostnames"`
		ParentRefs []name   `json:"parentRefs"`
	} `json:"spec"`
}

// gateway is what is read of a Gateway.
type gateway struct {
	Metadata name `json:"metadata"`
	Status   struct {
		Addresses []struct {
			Value string `json:"value"`
		} `json:"addresses"`
	} `json:"status"`
}

// Ways are the addresses of the names of all Ingresses and routes.
func (c Cluster) Ways(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	ingresses, err := kube.ListAs[networkingv1.Ingress](ctx, c.Kube, "networking.k8s.io/v1", "Ingress", "", "")
	if err != nil {
		return nil, err
	}
	for _, in := range ingresses {
		for _, at := range in.Status.LoadBalancer.Ingress {
			for _, rule := range in.Spec.Rules {
				out[rule.Host] = cmp.Or(out[rule.Host], at.IP, at.Hostname)
			}
		}
	}
	const api = "gateway.networking.k8s.io/v1"
	routes, err := kube.ListAs[route](ctx, c.Kube, api, "HTTPRoute", "", "")
	if missing := new(kube.NoKindError); errors.As(err, &missing) {
		return out, nil
	} else if err != nil {
		return nil, err
	}
	gateways, err := kube.ListAs[gateway](ctx, c.Kube, api, "Gateway", "", "")
	if err != nil {
		return nil, err
	}
	for _, r := range routes {
		for _, ref := range r.Spec.ParentRefs {
			i := slices.IndexFunc(gateways, func(g gateway) bool {
				return g.Metadata.Name == ref.Name && g.Metadata.Namespace == cmp.Or(ref.Namespace, r.Metadata.Namespace)
			})
			if i < 0 || len(gateways[i].Status.Addresses) == 0 {
				continue
			}
			for _, host := range r.Spec.Hostnames {
				out[host] = cmp.Or(out[host], gateways[i].Status.Addresses[0].Value)
			}
		}
	}
	delete(out, "")
	return out, nil
}

// WebPage tries a page: it answers by its own name with a certificate that browsers trust, and sends people to the
// sign-in of issuer; empty: it has one of its own, or none.
func WebPage(address, issuer string) func(context.Context, Cluster) (string, error) {
	return func(ctx context.Context, c Cluster) (string, error) {
		page, err := c.Open(ctx, address)
		if err == nil {
			err = page.Failure()
		}
		if err != nil {
			return "", err
		}
		if issuer == "" {
			return page.WithCertificate("it answers"), nil
		}
		if !slices.ContainsFunc(page.Way, func(u *url.URL) bool { return strings.HasPrefix(u.String(), issuer+"/") }) {
			return "", fmt.Errorf("%s opens %s without a sign-in at %s", address, page.end(), issuer)
		}
		return page.WithCertificate("it leads to the sign-in"), nil
	}
}

// Failure says what is wrong with an answer that is an error.
func (p Page) Failure() error {
	if p.Status < http.StatusBadRequest {
		return nil
	}
	text := fmt.Sprintf("%s answers %d %s", p.end(), p.Status, http.StatusText(p.Status))
	switch p.Status {
	case http.StatusNotFound:
		text += ": kubectl get ingresses,httproutes --all-namespaces shows where names lead"
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		text += ": no pod answers behind it; kubectl get pods --all-namespaces shows which are not ready"
	}
	return errors.New(text)
}

// OpenJSON opens a page, and reads it.
func (c Cluster) OpenJSON(ctx context.Context, address string, out any) (Page, error) {
	page, err := c.Open(ctx, address)
	if err == nil {
		err = page.Failure()
	}
	if err != nil {
		return page, err
	}
	if err := json.Unmarshal(page.Body, out); err != nil {
		return page, fmt.Errorf("%s is not what was expected: %w", page.end(), err)
	}
	return page, nil
}

// end is where the last redirect leads, without its query, which may be long and helps nobody.
func (p Page) end() string {
	u := *p.Way[len(p.Way)-1]
	u.RawQuery = ""
	return u.String()
}

// WithCertificate adds to what was seen until when the page's certificate is valid.
func (p Page) WithCertificate(seen string) string {
	if p.Until.IsZero() {
		return seen
	}
	return fmt.Sprintf("%s; certificate until %s", seen, p.Until.UTC().Format(time.DateOnly))
}
