// Package zone asks the service that serves the zones of a cluster file whether its credentials may
// change them, before anything is made that relies on it. It changes nothing.
package zone

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// limit is how long one question may take.
const limit = 20 * time.Second

// Check asks about every zone, and returns all mistakes. A webhook is not asked: for it Check returns nil.
func Check(ctx context.Context, d *spec.DNS) error { return ofEnvironment().check(ctx, d) }

// OnLoopback reports whether the zones are served by this machine: a lab may ask no other.
func OnLoopback(d *spec.DNS) bool {
	switch c := ofEnvironment(); {
	case d == nil:
		return false
	case d.RFC2136 != nil:
		return isLoopback(d.RFC2136.Server)
	case d.Cloudflare != nil:
		return isLoopback(host(c.cloudflareAPI))
	case d.Route53 != nil:
		return isLoopback(host(c.route53API))
	}
	return false
}

func isLoopback(hostPort string) bool {
	at, err := netip.ParseAddrPort(hostPort)
	return err == nil && at.Addr().IsLoopback()
}

func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// checker has the addresses of the APIs.
type checker struct {
	cloudflareAPI string
	route53API    string // empty: that of the region
}

// ofEnvironment has the addresses that the services' own clients take from the environment: cloudflare-go (client.go) and
// aws-sdk-go-v2 (config/env_config.go).
func ofEnvironment() checker {
	return checker{cmp.Or(os.Getenv("CLOUDFLARE_BASE_URL"), "https://api.cloudflare.com/client/v4"), os.Getenv("AWS_ENDPOINT_URL_ROUTE_53")}
}

func (c checker) check(ctx context.Context, d *spec.DNS) error {
	var check func(ctx context.Context, zone string) error
	switch {
	case d.Cloudflare != nil:
		token, err := d.Cloudflare.Token.Resolve()
		if err != nil {
			return fmt.Errorf("dns.cloudflare.token: %w", err)
		}
		check = cloudflare{strings.TrimSuffix(c.cloudflareAPI, "/"), token.Reveal(), d.Records.IsOn()}.check
	case d.Route53 != nil:
		key, err := d.Route53.SecretKey.Resolve()
		if err != nil {
			return fmt.Errorf("dns.route53.secretKey: %w", err)
		}
		check = newRoute53(d.Route53, key.Reveal(), c.route53API, d.Records.IsOn()).check
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
