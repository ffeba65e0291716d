package zones

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// Server is a name server that takes updates.
type Server struct {
	Address   string // host:port
	Key       string // name of the TSIG key
	Algorithm string // e.g. hmac-sha256
	Secret    string // in base64
}

// OnLoopback reports whether a host, with or without a port, is this machine by its address.
func OnLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// limit is how long one exchange may take.
const limit = 10 * time.Second

// sign signs a message, and returns what its answer is verified with.
func (s Server) sign(m *dns.Msg) map[string]string {
	const skew = 300 // seconds; both programs have this one
	key := dns.Fqdn(s.Key)
	m.SetTsig(key, dns.Fqdn(s.Algorithm), skew, time.Now().Unix())
	return map[string]string{key: s.Secret}
}

func (s Server) dial(ctx context.Context) (*dns.Conn, error) {
	if !OnLoopback(s.Address) {
		return nil, fmt.Errorf("the lab asks no name server but one on the loopback interface, and %s is not", s.Address)
	}
	conn, err := (&net.Dialer{Timeout: limit}).DialContext(ctx, "tcp", s.Address)
	if err != nil {
		return nil, fmt.Errorf("name server: %w", err)
	}
	return &dns.Conn{Conn: conn}, nil
}

// Update removes and inserts records of a zone in one step.
func (s Server) Update(ctx context.Context, zone string, remove, insert []dns.RR) error {
	m := new(dns.Msg).SetUpdate(dns.Fqdn(zone))
	m.Remove(remove)
	m.Insert(insert)
	secrets := s.sign(m)
	conn, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	client := dns.Client{Net: "tcp", Timeout: limit, TsigSecret: secrets}
	answer, _, err := client.ExchangeWithConnContext(ctx, m, conn)
	if answer != nil && answer.Rcode != dns.RcodeSuccess {
		return fmt.Errorf("DNS update failed. Server replied: %s", dns.RcodeToString[answer.Rcode])
	}
	if err != nil {
		return fmt.Errorf("DNS update failed: %w", err)
	}
	return nil
}

// Present shows the record of a challenge.
func (s Server) Present(ctx context.Context, zone string, record *dns.TXT) error {
	return s.Update(ctx, zone, nil, []dns.RR{dns.Copy(record)})
}

// CleanUp removes the record of a challenge. What is removed is sent with another class, which Update writes into it.
func (s Server) CleanUp(ctx context.Context, zone string, record *dns.TXT) error {
	return s.Update(ctx, zone, []dns.RR{dns.Copy(record)}, nil)
}

// Records are all records of a zone, by a transfer.
func (s Server) Records(ctx context.Context, zone string) ([]dns.RR, error) {
	m := new(dns.Msg).SetAxfr(dns.Fqdn(zone))
	secrets := s.sign(m)
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	t := dns.Transfer{Conn: conn, ReadTimeout: limit, TsigSecret: secrets}
	parts, err := t.In(m, s.Address)
	if err != nil {
		return nil, fmt.Errorf("failed to fetch records via AXFR: %w", err)
	}
	var all []dns.RR
	for part := range parts {
		if part.Error != nil {
			err = fmt.Errorf("AXFR error: %w", part.Error)
		}
		all = append(all, part.RR...)
	}
	return all, err
}

// has reports whether a server answers a name with a text. Nobody signs this question.
func has(ctx context.Context, server, name, text string) (bool, error) {
	if !OnLoopback(server) {
		return false, fmt.Errorf("the lab asks no name server but one on the loopback interface, and %s is not", server)
	}
	answer, _, err := (&dns.Client{Net: "tcp", Timeout: limit}).ExchangeContext(ctx, new(dns.Msg).SetQuestion(name, dns.TypeTXT), server)
	if err != nil {
		return false, fmt.Errorf("name server: %w", err)
	}
	for _, rr := range answer.Answer {
		if txt, ok := rr.(*dns.TXT); ok && len(txt.Txt) == 1 && txt.Txt[0] == text {
			return true, nil
		}
	}
	return false, nil
}
