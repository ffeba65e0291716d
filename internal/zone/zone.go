// Package zone asks the service that serves the zones of a cluster file whether its credentials may
// change them, before anything is made that relies on it. It changes nothing.
package zone

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// limit is how long one question may take.
const limit = 20 * time.Second

// Check asks about every zone, and returns all mistakes. Route 53 and webhooks are not asked: for
// them it returns nil.
func Check(ctx context.Context, d *spec.DNS) error {
	return checker{"https://api.cloudflare.com/client/v4"}.check(ctx, d)
}

// OnLoopback reports whether the zones are served by this machine: a lab may ask no other.
func OnLoopback(d *spec.DNS) bool {
	if d == nil || d.RFC2136 == nil {
		return false
	}
	at, err := netip.ParseAddrPort(d.RFC2136.Server)
	return err == nil && at.Addr().IsLoopback()
}

// checker has the address of Cloudflare's API.
type checker struct{ cloudflareAPI string }

func (c checker) check(ctx context.Context, d *spec.DNS) error {
	var check func(ctx context.Context, zone string) error
	switch {
	case d.Cloudflare != nil:
		token, err := d.Cloudflare.Token.Resolve()
		if err != nil {
			return fmt.Errorf("dns.cloudflare.token: %w", err)
		}
		check = func(ctx context.Context, zone string) error { return c.cloudflare(ctx, zone, token.Reveal()) }
	case d.RFC2136 != nil:
		key, err := d.RFC2136.Secret.Resolve()
		if err != nil {
			return fmt.Errorf("dns.rfc2136.secret: %w", err)
		}
		if _, err := base64.StdEncoding.DecodeString(key.Reveal()); err != nil {
			return errors.New("dns.rfc2136.secret: the key is not in base64: copy it as the server's configuration has it")
		}
		s := server{d.RFC2136, key.Reveal(), d.Records.IsOn()}
		check = s.check
	default:
		return nil
	}
	var errs []error
	for _, zone := range d.Zones {
		if err := check(ctx, zone); err != nil {
			errs = append(errs, fmt.Errorf("dns: zone %s: %w", zone, err))
		}
	}
	return errors.Join(errs...)
}

// cloudflare checks that a token sees a zone, or the zone that it is part of, and reads its records. Whether
// it may change them no request tells without changing one.
func (c checker) cloudflare(ctx context.Context, zone, token string) error {
	for name := zone; strings.Contains(name, "."); _, name, _ = strings.Cut(name, ".") {
		var zones []struct{ ID string }
		if err := c.ask(ctx, "/zones?name="+url.QueryEscape(name), token, &zones); err != nil {
			return err
		}
		if len(zones) > 0 {
			return c.ask(ctx, "/zones/"+url.PathEscape(zones[0].ID)+"/dns_records?per_page=1", token, nil)
		}
	}
	return errors.New("the token of dns.cloudflare sees no such zone at Cloudflare: give it Zone:Zone:Read and Zone:DNS:Edit for this zone, or correct dns.zones")
}

// maxAnswer limits the size of an answer, in bytes.
const maxAnswer = 1 << 20

func (c checker) ask(ctx context.Context, path, token string, result any) error {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: limit}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: limit}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.cloudflareAPI+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Success bool
		Errors  []struct {
			Code    int
			Message string
		}
		Result json.RawMessage
	}
	bad := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&answer)
	switch {
	case resp.StatusCode >= http.StatusInternalServerError || resp.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("Cloudflare answers %s: try again later", resp.Status)
	case bad == nil && !answer.Success:
		var said []string
		for _, e := range answer.Errors {
			said = append(said, fmt.Sprintf("%s (%d)", e.Message, e.Code))
		}
		return fmt.Errorf("Cloudflare refuses the token of dns.cloudflare: %s: %s; give it Zone:Zone:Read and Zone:DNS:Edit for this zone", resp.Status, strings.Join(said, ", "))
	case bad != nil:
		return fmt.Errorf("Cloudflare answers %s with something that is not its API: %w", resp.Status, bad)
	case result == nil:
		return nil
	}
	return json.Unmarshal(answer.Result, result)
}

// server is a name server that takes updates.
type server struct {
	*spec.RFC2136
	secret   string
	transfer bool // external-dns reads its records by a transfer of the zone
}

// connect signs a question and connects to the server; secrets are what its answer is verified with.
func (s server) connect(ctx context.Context, m *dns.Msg) (conn *dns.Conn, secrets map[string]string, err error) {
	key := dns.Fqdn(s.Key)
	m.SetTsig(key, dns.Fqdn(s.Algorithm), 300, time.Now().Unix())
	nc, err := (&net.Dialer{Timeout: limit}).DialContext(ctx, "tcp", s.Server)
	if err != nil {
		return nil, nil, err
	}
	return &dns.Conn{Conn: nc}, map[string]string{key: s.secret}, nc.SetDeadline(time.Now().Add(limit))
}

// check sends an update of nothing, which a server answers as it would a real one up to the point where
// it looks at single names.
func (s server) check(ctx context.Context, zone string) error {
	m := new(dns.Msg).SetUpdate(dns.Fqdn(zone))
	conn, secrets, err := s.connect(ctx, m)
	if err != nil {
		return err
	}
	defer conn.Close()
	client := dns.Client{Net: "tcp", Timeout: limit, TsigSecret: secrets}
	answer, _, err := client.ExchangeWithConnContext(ctx, m, conn)
	if answer == nil {
		return fmt.Errorf("%s does not answer an update: %w", s.Server, err)
	}
	if why := s.refusal(answer); why != nil {
		return why
	}
	if err != nil {
		return fmt.Errorf("%s: its answer is not signed with %s: %w", s.Server, s.Key, err)
	}
	if s.transfer {
		return s.reads(ctx, zone)
	}
	return nil
}

// refusal says why a server refused an update; nil if it did not.
func (s server) refusal(answer *dns.Msg) error {
	tsig := answer.IsTsig()
	switch {
	case answer.Rcode == dns.RcodeSuccess:
		return nil
	case tsig != nil && tsig.Error == dns.RcodeBadKey:
		return fmt.Errorf("%s does not know the key %s with %s: correct dns.rfc2136.key and algorithm, or add it to the server", s.Server, s.Key, s.Algorithm)
	case tsig != nil && tsig.Error == dns.RcodeBadSig:
		return fmt.Errorf("%s has another secret for the key %s: correct dns.rfc2136.secret", s.Server, s.Key)
	case tsig != nil && tsig.Error == dns.RcodeBadTime:
		return fmt.Errorf("the clocks of %s and of this machine differ by more than five minutes", s.Server)
	case answer.Rcode == dns.RcodeRefused:
		return fmt.Errorf("%s does not let the key %s change this zone: allow it there (BIND: update-policy or allow-update)", s.Server, s.Key)
	case answer.Rcode == dns.RcodeNotAuth || answer.Rcode == dns.RcodeNotZone:
		return fmt.Errorf("%s does not serve this zone as its primary: correct dns.zones or dns.rfc2136.server", s.Server)
	}
	return fmt.Errorf("%s refuses an update: %s", s.Server, dns.RcodeToString[answer.Rcode])
}

// reads checks that the key may transfer a zone.
func (s server) reads(ctx context.Context, zone string) error {
	m := new(dns.Msg).SetAxfr(dns.Fqdn(zone))
	conn, secrets, err := s.connect(ctx, m)
	if err != nil {
		return err
	}
	defer conn.Close()
	t := dns.Transfer{Conn: conn, ReadTimeout: limit, TsigSecret: secrets}
	parts, err := t.In(m, s.Server)
	if err != nil {
		return fmt.Errorf("%s does not answer a transfer: %w", s.Server, err)
	}
	for part := range parts {
		if part.Error != nil {
			err = part.Error
		}
	}
	if err != nil {
		return fmt.Errorf("%s does not let the key %s transfer this zone (%w), so external-dns could not see its own records: allow it there (BIND: allow-transfer), or write records: false", s.Server, s.Key, err)
	}
	return nil
}
