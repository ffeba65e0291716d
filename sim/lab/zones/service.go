package zones

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/miekg/dns"
)

// Service serves zones, and changes their records for those who have its credentials.
type Service interface {
	// Records are all records of a zone, and Update removes and inserts some, as external-dns does both.
	Records(ctx context.Context, zone string) ([]dns.RR, error)
	Update(ctx context.Context, zone string, remove, insert []dns.RR) error
	// Present and CleanUp show and remove the record of a challenge, as cert-manager does.
	Present(ctx context.Context, zone string, record *dns.TXT) error
	CleanUp(ctx context.Context, zone string, record *dns.TXT) error
}

// maxAnswer limits the size of an answer, in bytes.
const maxAnswer = 1 << 20

// exchange sends a request to an API, and returns the status and text of its answer.
func exchange(ctx context.Context, method, address string, body []byte, sign func(*http.Request)) (int, []byte, error) {
	if !OnLoopback(HostOf(address)) {
		return 0, nil, fmt.Errorf("the lab asks no API but one on the loopback interface, and %s is not", address)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("API: %w", err)
	}
	sign(req)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: limit}).Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("API: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, nil, fmt.Errorf("API: %w", err)
	}
	return resp.StatusCode, text, nil
}

// HostOf is the host and port of an address.
func HostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// value is a record's value as in a zone's file.
func value(rr dns.RR) string { return strings.TrimPrefix(rr.String(), rr.Header().String()) }

// parsed is a record of a name, type and value.
func parsed(name, kind, value string) (dns.RR, error) {
	rr, err := dns.NewRR(fmt.Sprintf("%s 60 %s %s", dns.Fqdn(name), kind, value))
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", name, err)
	}
	return rr, nil
}
