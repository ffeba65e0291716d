package zones

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/crypto/acme"
)

// Authority is one that is asked by ACME, and an account there.
type Authority struct {
	Directory string
	CA        []byte // PEM of who signed the directory's own certificate; empty: the system's
	Key       crypto.Signer
	Email     string
}

// client is golang.org/x/crypto/acme, of which cert-manager has a copy (third_party/forked/acme).
func (a Authority) client() (c *acme.Client, end func(), err error) {
	u, err := url.Parse(a.Directory)
	if err != nil {
		return nil, nil, fmt.Errorf("ACME server: %w", err)
	}
	if !OnLoopback(u.Host) {
		return nil, nil, fmt.Errorf("the lab asks no ACME server but one on the loopback interface, and %s is not", u.Host)
	}
	transport := &http.Transport{TLSHandshakeTimeout: limit}
	if len(a.CA) > 0 {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(a.CA)
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	c = &acme.Client{Key: a.Key, DirectoryURL: a.Directory, HTTPClient: &http.Client{Transport: transport}, RetryBackoff: backoff}
	return c, transport.CloseIdleConnections, nil
}

// backoff repeats what may be a used nonce, and nothing else: without it the client repeats a 429 until its context ends.
// Source: cert-manager, pkg/acme/util.
func backoff(n int, _ *http.Request, resp *http.Response) time.Duration {
	const most = 5
	if n > most || resp.StatusCode != http.StatusBadRequest {
		return -1
	}
	return 100 * time.Millisecond
}

// Register makes the account, or finds it, and returns its address.
func (a Authority) Register(ctx context.Context) (string, error) {
	c, end, err := a.client()
	if err != nil {
		return "", err
	}
	defer end()
	account, err := c.Register(ctx, &acme.Account{Contact: []string{"mailto:" + a.Email}}, acme.AcceptTOS)
	if errors.Is(err, acme.ErrAccountAlreadyExists) {
		account, err = c.GetReg(ctx, "")
	}
	if err != nil {
		return "", fmt.Errorf("Failed to register ACME account: %w", err) //nolint:staticcheck // cert-manager's words
	}
	return account.URI, nil
}

// Solver proves a name by a record of its zone.
type Solver struct {
	Service
	Zones     []string
	Resolvers []string // name servers that must show the record before the authority is told
	// Say is told what a challenge waits for; empty: it is over.
	Say func(name, reason string) error
}

// Refused is an order that the authority refused. cert-manager tries again after an hour, not earlier
// (pkg/controller/certificates/trigger, shouldBackoffReissuingOnFailure).
type Refused struct{ Reason string }

func (r *Refused) Error() string { return r.Reason }

// Certificate orders a certificate for names, and returns its chain as PEM. Messages are cert-manager's:
// pkg/controller/acmeorders/sync.go, acmechallenges/sync.go and readiness.go.
func (a Authority) Certificate(ctx context.Context, names []string, key crypto.Signer, s Solver) ([]byte, error) {
	c, end, err := a.client()
	if err != nil {
		return nil, err
	}
	defer end()
	order, err := c.AuthorizeOrder(ctx, acme.DomainIDs(names...))
	if err != nil {
		return nil, refused("errored", "Failed to create Order", err)
	}
	for _, u := range order.AuthzURLs {
		if err := s.prove(ctx, c, u); err != nil {
			return nil, err
		}
	}
	uri := order.URI
	if order, err = c.WaitOrder(ctx, uri); err != nil {
		return nil, refused("invalid", "Failed to wait for Order", err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{}, DNSNames: names}, key)
	if err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	chain, err := fetch(ctx, c, uri, order.FinalizeURL, csr)
	if err != nil {
		return nil, refused("errored", "Failed to finalize Order", err)
	}
	var out bytes.Buffer
	for _, der := range chain {
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
			return nil, fmt.Errorf("certificate: %w", err)
		}
	}
	return out.Bytes(), nil
}

// fetch asks for the certificate of an order. CreateOrderCert forgets the order's address if the authority takes its time to
// sign and does not repeat it, so it is asked once more, as cert-manager does (acmeorders/sync.go, finalizeOrder).
func fetch(ctx context.Context, c *acme.Client, uri, finalize string, csr []byte) ([][]byte, error) {
	chain, _, err := c.CreateOrderCert(ctx, finalize, csr, true)
	var e *acme.Error
	if err == nil || errors.As(err, &e) {
		return chain, err //nolint:wrapcheck // the caller says what was asked
	}
	order, err := c.WaitOrder(ctx, uri)
	if err != nil {
		return nil, err //nolint:wrapcheck // likewise
	}
	return c.FetchCert(ctx, order.CertURL, true) //nolint:wrapcheck // likewise
}

// refused tells an answer of the authority from a network that failed.
func refused(state, what string, err error) error {
	var e *acme.Error
	if errors.As(err, &e) && e.StatusCode >= http.StatusBadRequest && e.StatusCode < http.StatusInternalServerError {
		return &Refused{fmt.Sprintf("order is in %q state: %s: %v", state, what, err)}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// prove shows one name's record for as long as the authority looks.
func (s Solver) prove(ctx context.Context, c *acme.Client, authorization string) error {
	z, err := c.GetAuthorization(ctx, authorization)
	if err != nil {
		return fmt.Errorf("authorization: %w", err)
	}
	if z.Status == acme.StatusValid {
		return nil
	}
	name := z.Identifier.Value
	var challenge *acme.Challenge
	for _, each := range z.Challenges {
		if each.Type == "dns-01" {
			challenge = each
		}
	}
	if challenge == nil {
		return &Refused{fmt.Sprintf("order is in %q state: no solver can prove %s", "errored", name)}
	}
	text, err := c.DNS01ChallengeRecord(challenge.Token)
	if err != nil {
		return fmt.Errorf("challenge: %w", err)
	}
	zone := Keeper{Zones: s.Zones}.zoneOf(name)
	record := &dns.TXT{Hdr: dns.RR_Header{Name: "_acme-challenge." + dns.Fqdn(name), Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 60}, Txt: []string{text}}
	if err := s.Present(ctx, zone, record); err != nil {
		return errors.Join(err, s.Say(name, err.Error()))
	}
	err = s.check(ctx, c, name, record, challenge, authorization)
	return errors.Join(err, s.CleanUp(context.WithoutCancel(ctx), zone, record))
}

// check waits until the record is visible, and lets the authority look at it.
func (s Solver) check(ctx context.Context, c *acme.Client, name string, record *dns.TXT, challenge *acme.Challenge, authorization string) error {
	for _, server := range s.Resolvers {
		ok, err := has(ctx, server, record.Hdr.Name, record.Txt[0])
		if err == nil && !ok {
			err = fmt.Errorf("DNS record for %q not yet propagated", strings.TrimPrefix(name, "*."))
		}
		if err != nil {
			err = fmt.Errorf("Waiting for DNS-01 challenge propagation: %w", err) //nolint:staticcheck // cert-manager's words
			return errors.Join(err, s.Say(name, err.Error()))
		}
	}
	if _, err := c.Accept(ctx, challenge); err != nil {
		return fmt.Errorf("challenge: %w", err)
	}
	if _, err := c.WaitAuthorization(ctx, authorization); err != nil {
		err = &Refused{fmt.Sprintf("order is in %q state: %v", "invalid", err)}
		return errors.Join(err, s.Say(name, "Error accepting authorization: "+err.Error()))
	}
	return s.Say(name, "")
}
