package labtest

import (
	"encoding/pem"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// NameServer is BIND on the loopback interface.
type NameServer struct {
	Address string
	Secret  string // of its keys
	dir     string
}

// Keys of the name server: one may change and transfer its zones, the other nothing.
const (
	Key      = "homelab"
	OtherKey = "other"
)

// Names starts BIND with zones that have no records but their own.
func Names(t *testing.T, zones ...string) NameServer {
	t.Helper()
	program, err := exec.LookPath("named")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no named: apt-get install bind9")
		}
		t.Skip("SKIPPED: there is no named: apt-get install bind9")
	}
	free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	at := free.Addr().(*net.TCPAddr)
	require.NoError(t, free.Close())
	s := NameServer{Address: at.String(), Secret: "c2VjcmV0LW9mLXRoZS1rZXktb2YtMzItYnl0ZXMhISE=", dir: t.TempDir()}
	var conf strings.Builder
	for _, key := range []string{Key, OtherKey} {
		fmt.Fprintf(&conf, "key %q { algorithm hmac-sha256; secret %q; };\n", key, s.Secret)
	}
	fmt.Fprintf(&conf, "options { directory %q; pid-file none; session-keyfile none; managed-keys-directory %q; lock-file none;\n"+
		"listen-on port %d { 127.0.0.1; }; listen-on-v6 { none; }; recursion no; dnssec-validation no; notify no; };\ncontrols { };\n", s.dir, s.dir, at.Port)
	for _, zone := range zones {
		text := fmt.Sprintf("$TTL 60\n@ SOA ns.%s. root.%s. 1 60 60 60 60\n@ NS ns\nns A 127.0.0.1\n", zone, zone)
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, zone), []byte(text), 0o644))
		fmt.Fprintf(&conf, "zone %q { type primary; file %q; allow-update { key %s; }; allow-transfer { key %s; }; };\n", zone, zone, Key, Key)
	}
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "named.conf"), []byte(conf.String()), 0o644))
	cmd := exec.CommandContext(t.Context(), program, "-g", "-n", "1", "-c", filepath.Join(s.dir, "named.conf"))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	require.Eventually(t, func() bool {
		answer, err := dns.Exchange(new(dns.Msg).SetQuestion(zones[0]+".", dns.TypeSOA), s.Address)
		return err == nil && answer.Rcode == dns.RcodeSuccess
	}, 20*time.Second, 50*time.Millisecond, "named does not answer")
	return s
}

// Records are those of a zone as a program with the key sees them, without the zone's own and without times to live.
func (s NameServer) Records(t *testing.T, zone string) (out []string) {
	t.Helper()
	m := new(dns.Msg).SetAxfr(zone + ".")
	m.SetTsig(Key+".", dns.HmacSHA256, 300, time.Now().Unix())
	parts, err := (&dns.Transfer{TsigSecret: map[string]string{Key + ".": s.Secret}}).In(m, s.Address)
	require.NoError(t, err)
	for part := range parts {
		require.NoError(t, part.Error)
		for _, rr := range part.RR {
			h := rr.Header()
			own := h.Rrtype == dns.TypeSOA || h.Rrtype == dns.TypeNS || h.Name == "ns."+zone+"."
			if !own {
				out = append(out, strings.TrimSuffix(h.Name, ".")+" "+dns.TypeToString[h.Rrtype]+" "+strings.TrimPrefix(rr.String(), h.String()))
			}
		}
	}
	return out
}

// update changes records as a program with the key does.
func (s NameServer) update(t *testing.T, zone string, remove, insert []dns.RR) {
	t.Helper()
	m := new(dns.Msg).SetUpdate(dns.Fqdn(zone))
	m.Remove(remove)
	m.Insert(insert)
	m.SetTsig(Key+".", dns.HmacSHA256, 300, time.Now().Unix())
	answer, _, err := (&dns.Client{Net: "tcp", TsigSecret: map[string]string{Key + ".": s.Secret}}).Exchange(m, s.Address)
	if assert.NoError(t, err) {
		assert.Equal(t, dns.RcodeSuccess, answer.Rcode, "the name server refuses %v", insert)
	}
}

func record(t *testing.T, name, kind, value string) dns.RR {
	t.Helper()
	rr, err := dns.NewRR(fmt.Sprintf("%s 60 %s %s", dns.Fqdn(name), kind, value))
	assert.NoError(t, err)
	return rr
}

// ACME is Pebble, the ACME server with which Let's Encrypt tests clients, on the loopback interface.
type ACME struct {
	Directory string
	CA        []byte // PEM of who signs its page and its certificates
	limited   atomic.Bool
	orders    atomic.Int32
}

// Certificates starts Pebble, which asks a name server for the records that prove names.
func Certificates(t *testing.T, names NameServer) *ACME {
	t.Helper()
	out := log.New(t.Output(), "pebble ", 0)
	store := db.NewMemoryStore()
	authority := ca.New(out, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {}})
	front := wfe.New(out, store, va.New(out, 80, 443, false, names.Address, store), authority, []string{"acme.lab.example"}, false, false, 1, 1)
	pages, a := front.Handler(), &ACME{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/order-plz" {
			a.orders.Add(1)
			if a.limited.Load() {
				// What Let's Encrypt answers: letsencrypt.org/docs/rate-limits
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusTooManyRequests)
				fmt.Fprint(w, `{"type":"urn:ietf:params:acme:error:rateLimited","status":429,"detail":"too many certificates (5) already issued for this exact set of identifiers in the last 168h0m0s"}`)
				return
			}
		}
		pages.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	a.Directory = server.URL + wfe.DirectoryPath
	a.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	a.CA = append(a.CA, authority.GetRootCert(0).PEM()...)
	return a
}

// Limit makes the server refuse orders for their number, or no longer.
func (a *ACME) Limit(on bool) { a.limited.Store(on) }

// Orders is how many were asked for.
func (a *ACME) Orders() int { return int(a.orders.Load()) }
