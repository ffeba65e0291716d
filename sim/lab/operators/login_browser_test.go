package operators_test

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/browsertest"
)

// chromium is a real browser, which reaches nothing but the pages of the cluster.
func (s *site) chromium(t *testing.T, pages ...string) *browsertest.Browser {
	t.Helper()
	ways := s.ways(t)
	known, pins := map[string]bool{}, []string(nil)
	for _, page := range pages {
		address := strings.TrimSuffix(strings.TrimPrefix(page, "https://"), "/") + ":443"
		raw, err := ways.DialContext(t.Context(), "tcp", address)
		require.NoError(t, err)
		host, _, _ := strings.Cut(address, ":")
		conn := tls.Client(raw, &tls.Config{RootCAs: ways.TLSClientConfig.RootCAs, ServerName: host})
		require.NoError(t, conn.HandshakeContext(t.Context()))
		key := sha256.Sum256(conn.ConnectionState().PeerCertificates[0].RawSubjectPublicKeyInfo)
		require.NoError(t, conn.Close())
		known[address], pins = true, append(pins, base64.StdEncoding.EncodeToString(key[:]))
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || !known[r.Host] {
			http.Error(w, "not a page of the cluster", http.StatusForbidden)
			return
		}
		to, err := ways.DialContext(r.Context(), "tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer to.Close()
		w.WriteHeader(http.StatusOK)
		from, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		join(from, to)
	}))
	t.Cleanup(proxy.Close)
	// The certificates were verified above; Chromium has no option for an authority, and takes their keys.
	return browsertest.Open(t, "--proxy-server="+proxy.URL, "--ignore-certificate-errors-spki-list="+strings.Join(pins, ","))
}

// join copies both ways until either side ends.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_, _ = a.Close(), b.Close()
		})
	}
	both.Wait()
}

// shows waits until the browser shows words.
func shows(b *browsertest.Browser, words string) {
	b.WaitUntil(fmt.Sprintf(`!!document.body && document.body.innerText.includes(%q)`, words))
}

// oneSignIn: whom a provider remembers types a name once, and uses every page.
func oneSignIn(b *browsertest.Browser, pages map[string]string) {
	toProvider := func(page string) {
		b.Visit(page)
		shows(b, choose)
		b.Eval(fmt.Sprintf(`[...document.links].find(l => l.innerText == %q).click()`, choose), nil)
	}
	toProvider(hub)
	b.WaitUntil(`!!document.forms[0] && !!document.forms[0].groups`)
	b.Eval(`{const f = document.forms[0]; f.login.value = "gil"; f.groups.value = "lab"; f.requestSubmit()}`, nil)
	b.WaitUntil(`location.href == "https://hub.lab.example/hub/spawn"`)
	for page, words := range pages {
		toProvider(page)
		shows(b, words)
	}
}
