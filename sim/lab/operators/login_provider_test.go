package operators_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/sim/lab/login"
	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

// stranger is a provider that is not of the cluster: a Dex elsewhere, with a certificate of an authority of its own. It
// remembers browsers, and has people of two sources.
type stranger struct {
	t      *testing.T
	server *httptest.Server
	serves atomic.Pointer[http.Handler]
	state  login.State
}

func newStranger(t *testing.T) *stranger {
	t.Helper()
	p := &stranger{t: t}
	p.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*p.serves.Load()).ServeHTTP(w, r) }))
	t.Cleanup(p.server.Close)
	p.knows("oidc", "github")
	return p
}

// knows replaces the sources of people. Who came by another one is no longer known.
func (p *stranger) knows(sources ...string) {
	p.t.Helper()
	var connectors, clients strings.Builder
	for _, s := range sources {
		fmt.Fprintf(&connectors, "- {type: %s, id: %s, name: %s}\n", s, s, s)
	}
	for host, path := range map[string]string{"hub": "/hub/oauth_callback", "grafana": "/login/generic_oauth", "rancher": "/verify-auth", "argocd": "/oauth2/callback", "chat": "/oauth2/callback"} {
		fmt.Fprintf(&clients, ", 'https://%s.lab.example%s'", host, path)
	}
	h, err := login.Dex(login.Options{Config: fmt.Appendf(nil, `issuer: %s
expiry: {idTokens: 10s}
staticClients: [{id: lab, name: lab, secret: of the programs, redirectURIs: [%s]}, {id: public, public: true, redirectURIs: ['http://localhost:8000']}]
connectors:
%s`, p.server.URL, strings.TrimPrefix(clients.String(), ", "), connectors.String()), State: p.state, Save: func(s login.State) { p.state = s }, Now: time.Now})
	require.NoError(p.t, err)
	p.serves.Store(&h)
}

// reach is the way to it, from pods and from browsers.
func (p *stranger) reach(ctx context.Context, address string) (net.Conn, error) {
	if "https://"+address != p.server.URL {
		return nil, fmt.Errorf("%s: %w", address, traffic.ErrNoRoute)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

func (p *stranger) file() *spec.Spec {
	p.t.Helper()
	dir := p.t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	authority(p.t, dir)
	require.NoError(p.t, os.WriteFile(filepath.Join(dir, "provider.pem"), ca, 0o600))
	require.NoError(p.t, os.WriteFile(filepath.Join(dir, "secret"), []byte("of the programs"), 0o600))
	head, rest, _ := strings.Cut(loginFile, "login:\n")
	_, rest, _ = strings.Cut(rest, "hub: ")
	text := head + fmt.Sprintf("login:\n  allowedGroups: [lab]\n  adminGroups: [admins]\n  clusterRoles: {admins: cluster-admin, lab: view}\n  provider: {issuer: '%s', ca: provider.pem, clients: {kubectl: {clientID: public}}, clientID: lab, clientSecret: 'file:secret', scopes: [openid, profile, email, groups, offline_access]}\n", p.server.URL) + "hub: " + rest
	path := filepath.Join(dir, "cluster.yaml")
	require.NoError(p.t, os.WriteFile(path, []byte(text), 0o600))
	f, err := clusterfile.Load(path)
	require.NoError(p.t, err)
	return f
}

// TestProvider: with a provider that exists people sign in once for the hub, Grafana, Rancher, Argo CD and the chat,
// without a Dex in the cluster; whom the provider no longer knows is out of all but Rancher within a minute, and others stay.
func TestProvider(t *testing.T) {
	p := newStranger(t)
	s := newSiteOn(t, nil, p.reach)
	file := p.file()
	require.NoError(t, platform.CheckProvider(t.Context(), &file.Platform))
	s.takesTokens(t, file)
	pieces, err := platform.Pieces(file, true)
	require.NoError(t, err)
	for _, piece := range pieces {
		require.NotEqual(t, "dex", piece.Name)
		s.bring(t, piece)
	}
	const grafana, chat, argo, rancher = "https://grafana.lab.example/", "https://chat.lab.example/", "https://argocd.lab.example/", "https://rancher.lab.example/"
	const button = "/dashboard/auth/login?provider=genericoidc"
	at := []string{hub, grafana, chat, argo}
	enter := func(source, name, group string) *browser {
		b := s.browser(t)
		b.beyond(p)
		b.until(hub, "Log in with "+source)
		assert.Equal(t, strings.TrimPrefix(p.server.URL, "https://"), b.at.Host)
		b.pick(source)
		b.send(url.Values{"login": {name}, "groups": {group}})
		assert.Equal(t, "https://hub.lab.example/hub/spawn", b.at.String(), b.text)
		return b
	}
	ada, bob := enter("oidc", "ada", "admins"), enter("github", "bob", "lab")
	for page, want := range map[string]string{grafana: "Signed in as ada, whose role is Admin.", chat: "Signed in as ada, whose role is admin.", argo: "Signed in as ada@lab.example, whose role is admin.",
		"https://rancher.lab.example" + button: "Signed in as ada, who is an administrator."} {
		ada.until(page, "Log in with oidc")
		ada.pick("oidc") // which remembers her
		assert.Contains(t, ada.text, want)
	}
	for page, want := range map[string]string{grafana: "Signed in as bob, whose role is Viewer.", chat: "Signed in as bob, whose role is user.", argo: "whose role is readonly."} {
		bob.until(page, "Log in with github")
		bob.pick("github")
		assert.Contains(t, bob.text, want)
	}
	eve := s.browser(t)
	eve.beyond(p)
	eve.until(argo, "Log in with oidc")
	eve.pick("oidc")
	eve.send(url.Values{"login": {"eve"}, "groups": {"guests"}})
	assert.Contains(t, eve.text, "403 Forbidden")

	var adas, bobs *client // of kubectl
	if kind(t).Kubernetes {
		signIn := func(source, name, group string) *client {
			b := s.browser(t)
			b.beyond(p)
			return b.kubectl(s, p.server.URL, "public", source, url.Values{"login": {name}, "groups": {group}})
		}
		adas, bobs = signIn("oidc", "ada", "admins"), signIn("github", "bob", "lab")
		adas.untilMay(t, "login:ada [login:admins system:authenticated] pods=true secrets=true")
		bobs.untilMay(t, "login:bob [login:lab system:authenticated] pods=true secrets=false")
	}

	ada.isIn(at)
	p.knows("github")
	removed := time.Now()
	ada.isOut(at, strings.TrimPrefix(p.server.URL, "https://"), removed)
	for _, page := range at[1:] {
		bob.until(page, "Signed in as bob")
	}
	if kind(t).Kubernetes {
		adas.isOut(t, removed)
		bobs.untilMay(t, "login:bob [login:lab system:authenticated] pods=true secrets=false")
	}
	require.NoError(t, bob.load(bob.http.Get("https://hub.lab.example/hub/spawn")))
	assert.Equal(t, "https://hub.lab.example/hub/spawn", bob.at.String(), "bob stays")
}

// beyond lets a browser reach a provider elsewhere, whose authority it trusts.
func (b *browser) beyond(p *stranger) {
	its := b.http.Transport.(*http.Transport)
	inside := its.DialContext
	its.TLSClientConfig.RootCAs.AddCert(p.server.Certificate())
	its.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if conn, err := p.reach(ctx, address); !errors.Is(err, traffic.ErrNoRoute) {
			return conn, err
		}
		return inside(ctx, network, address)
	}
}
