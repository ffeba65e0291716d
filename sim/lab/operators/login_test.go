package operators_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/kube/addon"
)

const loginFile = `name: t
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
nodes: {cp1: {role: server, address: 10.0.0.11}, wk1: {address: 10.0.0.12}, wk2: {address: 10.0.0.13, gpus: {count: 1}}}
tls: {source: ca, ca: ca.pem, key: 'file:ca.key'}
login:
  hostname: login.lab.example
  allowedGroups: [lab]
  adminGroups: [admins]
  clusterRoles: {admins: cluster-admin, lab: view}
%s  people:
%s
hub: {hostname: hub.lab.example, shared: {course: {groups: [course]}}}
monitoring: {hostname: grafana.lab.example, class: local-path}
rancher: {hostname: rancher.lab.example}
argocd: {hostname: argocd.lab.example}
storage: {default: local-path, nfs: {server: 10.0.0.30, export: /export/k3s, shares: {course: {export: /export/course}}}}
models: {mini: a/mini}
modelGateway: true
modelChat: {hostname: chat.lab.example}
`

// remembers is a provider at which people sign in once.
const remembers = "  oidc: {issuer: https://id.example.org, clientID: dex, clientSecret: file:SECRET}\n"

// fileOf is a cluster whose login knows a provider, and people by name with their groups.
func fileOf(t *testing.T, provider string, people map[string]string) *spec.Spec {
	t.Helper()
	dir := t.TempDir()
	var text strings.Builder
	for name, groups := range people {
		hash, err := bcrypt.GenerateFromPassword([]byte("secret of "+name), 10)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), hash, 0o600))
		fmt.Fprintf(&text, "    %s: {email: %s@lab.example, hash: 'file:%s', groups: [%s]}\n", name, name, name, groups)
	}
	authority(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "SECRET"), []byte("of Dex at the provider"), 0o600))
	path := filepath.Join(dir, "cluster.yaml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, loginFile, provider, text.String()), 0o600))
	f, err := clusterfile.Load(path)
	require.NoError(t, err)
	return f
}

// browser is one with cookies, which reaches the cluster by its ingress.
type browser struct {
	t    *testing.T
	http *http.Client
	at   *url.URL
	text string
}

func (s *site) browser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &browser{t: t, http: &http.Client{Transport: s.ways(t), Jar: jar, Timeout: 20 * time.Second}}
}

// ways lead to the names of the cluster's pages.
func (s *site) ways(t *testing.T) *http.Transport {
	t.Helper()
	front, err := s.core.CoreV1().Services("kube-system").Get(t.Context(), "traefik", metav1.GetOptions{})
	require.NoError(t, err)
	require.NotEmpty(t, front.Status.LoadBalancer.Ingress)
	ca, err := addon.IssuerCA(t.Context(), s.kube, "homelab")
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(ca))
	its, err := s.core.CoreV1().Secrets("cattle-system").Get(t.Context(), "tls-rancher", metav1.GetOptions{}) // Rancher has a CA of its own
	require.NoError(t, err)
	require.True(t, roots.AppendCertsFromPEM(its.Data[corev1.TLSCertKey]))
	dial := func(_ context.Context, _, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		conn, ok := s.factory.Reach(net.JoinHostPort(front.Status.LoadBalancer.Ingress[0].IP, port))
		if !ok {
			return nil, errors.New("no route to host")
		}
		return conn, nil
	}
	return &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
}

func (b *browser) load(res *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	b.at, b.text = res.Request.URL, string(text)
	return err
}

// until opens a page until it shows some words.
func (b *browser) until(at, words string) {
	b.t.Helper()
	eventually(b.t, 60*time.Second, at+" shows "+words, func(context.Context) error {
		if err := b.load(b.http.Get(at)); err != nil || !strings.Contains(b.text, words) {
			return errors.Join(err, fmt.Errorf("%s: %.300s", b.at, b.text))
		}
		return nil
	})
}

// pick follows the link to a source of Dex's page.
func (b *browser) pick(source string) {
	b.t.Helper()
	require.NoError(b.t, b.follow(source))
}

func (b *browser) follow(source string) error {
	m := regexp.MustCompile(`/auth/` + source + `/login\?state=[A-Z0-9]+`).FindString(b.text)
	if m == "" {
		return errors.New("no link to " + source + ": " + b.text)
	}
	return b.load(b.http.Get("https://" + b.at.Host + m))
}

// send sends the form of the page.
func (b *browser) send(form url.Values) {
	b.t.Helper()
	require.NoError(b.t, b.submit(form))
}

func (b *browser) submit(form url.Values) error {
	m := regexp.MustCompile(`action="([^"]+)"><input type="hidden" name="state" value="([^"]+)"`).FindStringSubmatch(b.text)
	if m == nil {
		return errors.New("no form: " + b.text)
	}
	form.Set("state", m[2])
	return b.load(b.http.PostForm("https://"+b.at.Host+m[1], form))
}

const (
	hub    = "https://hub.lab.example/hub/login"
	choose = "Log in with OpenID Connect" // Dex' question
)

// password signs in to the hub by a password of the file; while Dex is replaced, any step may fail.
func (b *browser) password(login, password string) error {
	b.until(hub, choose)
	if err := b.follow("local"); err != nil {
		return err
	}
	return b.submit(url.Values{"login": {login}, "password": {password}})
}

// isIn opens pages, each of which renews its session if it is time.
func (b *browser) isIn(pages []string) {
	b.t.Helper()
	for _, page := range pages {
		require.NoError(b.t, b.load(b.http.Get(page)))
		require.True(b.t, strings.HasPrefix(page, "https://"+b.at.Host+"/"), "%s: %s", b.at, b.text)
	}
}

// isOut opens pages again and again, until all of them ask who somebody is: within a minute after the person was removed.
func (b *browser) isOut(pages []string, asks string, removed time.Time) {
	b.t.Helper()
	eventually(b.t, time.Until(removed.Add(time.Minute)), "who was removed is out of all pages", func(context.Context) (err error) {
		for _, page := range pages {
			if fails := b.load(b.http.Get(page)); fails != nil || b.at.Host != asks {
				err = errors.Join(err, fails, fmt.Errorf("%s: %.300s", b.at, b.text))
			}
		}
		return err
	})
	assert.Less(b.t, time.Since(removed), time.Minute)
}

// bring makes what a part of the file is, as package cluster does.
func (s *site) bring(t *testing.T, p addon.Recipe) {
	t.Helper()
	eventually(t, 60*time.Second, p.Name+" knows what the cluster has", func(ctx context.Context) error {
		late, err := p.Resolve(ctx, s.kube)
		if err == nil {
			p = late
		}
		return err
	})
	for _, o := range p.Before {
		if o.GetObjectKind().GroupVersionKind().Kind == "Namespace" {
			s.apply(t, []runtime.Object{o})
		}
	}
	s.install(t, p.Part, nil)
}

// people changes who is in the file, as a second cluster:up does.
func (s *site) people(t *testing.T, file *spec.Spec) {
	t.Helper()
	pieces, err := platform.Pieces(file, true)
	require.NoError(t, err)
	for _, p := range pieces {
		if p.Name != addon.LoginName {
			continue
		}
		config := p.Secrets[0]
		_, err := s.kube.Apply(t.Context(), &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: config.Name, Namespace: config.Namespace},
			Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"config.yaml": []byte(config.Data["config.yaml"].Reveal())}})
		require.NoError(t, err)
		restarted, err := s.kube.RestartSecretUsers(t.Context(), config.Namespace, config.Name)
		require.NoError(t, err)
		require.Len(t, restarted, 1, "Dex")
	}
}

// TestLogin: the parts of a file let people sign in to the hub, Grafana, Rancher, Argo CD, the chat and kubectl, with rights by their
// groups; whom a provider remembers signs in once; who leaves the file cannot sign in again. Without its login Rancher's sessions end.
func TestLogin(t *testing.T) {
	s := newSite(t)
	file := fileOf(t, remembers, map[string]string{"ada": "admins", "bob": "lab, course"})
	s.takesTokens(t, file) // the servers' configuration comes before Dex
	pieces, err := platform.Pieces(file, true)
	require.NoError(t, err)
	for _, p := range pieces {
		s.bring(t, p)
	}
	const grafana, chat = "https://grafana.lab.example/", "https://chat.lab.example/"
	const argo = "https://argocd.lab.example/"
	const rancher, button = "https://rancher.lab.example/", "/dashboard/auth/login?provider=genericoidc"
	ada := url.Values{"login": {"ada@lab.example"}, "password": {"secret of ada"}}

	b := s.browser(t)
	b.until(hub, choose)
	assert.Equal(t, "login.lab.example", b.at.Host)
	b.pick("local")
	b.send(ada)
	assert.Equal(t, "https://hub.lab.example/hub/spawn", b.at.String(), b.text)
	b.until(grafana, choose)
	b.pick("local")
	b.send(ada)
	assert.Contains(t, b.text, "Signed in as ada, whose role is Admin.")
	b.until(rancher, button)
	require.NoError(t, b.load(b.http.Get("https://rancher.lab.example"+button)))
	b.pick("local")
	b.send(ada)
	assert.Equal(t, rancher, b.at.String())
	assert.Contains(t, b.text, "Signed in as ada, who is an administrator.")
	b.until(chat, choose)
	b.pick("local")
	b.send(ada)
	assert.Contains(t, b.text, "Signed in as ada, whose role is admin.")
	b.until(argo, choose)
	b.pick("local")
	b.send(ada)
	assert.Contains(t, b.text, "Signed in as ada@lab.example, whose role is admin.")

	once := s.browser(t)
	once.until(hub, choose)
	once.pick("oidc")
	once.send(url.Values{"login": {"gil"}, "groups": {"lab"}})
	assert.Equal(t, "https://hub.lab.example/hub/spawn", once.at.String(), once.text)
	once.until(grafana, choose)
	once.pick("oidc")
	assert.Contains(t, once.text, "Signed in as gil, whose role is Viewer.")
	once.until("https://rancher.lab.example"+button, choose)
	once.pick("oidc")
	assert.Contains(t, once.text, "Logging in failed: unauthorized")
	once.until(chat, choose)
	once.pick("oidc")
	assert.Contains(t, once.text, "Signed in as gil, whose role is user.")
	once.until(argo, choose)
	once.pick("oidc")
	assert.Contains(t, once.text, "whose role is readonly.")

	pages := map[string]string{grafana: "Signed in as gil, whose role is Viewer.", chat: "Signed in as gil, whose role is user.", argo: "whose role is readonly."}
	t.Run("in Chromium", func(t *testing.T) {
		b := s.chromium(t, "https://hub.lab.example/", "https://login.lab.example/", grafana, chat, argo)
		oneSignIn(b, pages)
	})

	stranger := s.browser(t)
	stranger.until(hub, choose)
	stranger.pick("oidc")
	stranger.send(url.Values{"login": {"eve"}, "groups": {"guests"}})
	assert.Contains(t, stranger.text, "eve may not log in: no group of theirs may use the hub.")
	for _, page := range []string{chat, argo} {
		stranger.until(page, choose)
		stranger.pick("oidc")
		assert.Contains(t, stranger.text, "403 Forbidden")
	}

	bob := s.browser(t)
	require.NoError(t, bob.password("bob@lab.example", "secret of bob"))
	bob.mounts(s, "bob", true)
	b.mounts(s, "ada", false)
	var adas, bobs *client // of kubectl
	if kind(t).Kubernetes {
		adas, bobs = s.kubectlLogins(t, ada, url.Values{"login": {"bob@lab.example"}, "password": {"secret of bob"}})
	}

	open := []string{"https://hub.lab.example/hub/home", grafana, chat, argo}
	b.isIn(open)
	s.people(t, fileOf(t, remembers, map[string]string{"bob": "lab"}))
	removed := time.Now()
	b.isOut(open, "login.lab.example", removed)
	if kind(t).Kubernetes {
		adas.isOut(t, removed)
	}
	again := s.browser(t)
	eventually(t, 60*time.Second, "Dex knows ada no longer", func(context.Context) error {
		if err := again.password("ada@lab.example", "secret of ada"); err != nil {
			return err
		}
		if !strings.Contains(again.text, "Invalid Email Address and password.") {
			return errors.New("she could sign in, or the old Dex was just going: " + again.text)
		}
		return nil
	})
	eventually(t, 60*time.Second, "bob signs in", func(context.Context) error { // a code of the old Dex is nothing to the new one
		if err := again.password("bob@lab.example", "secret of bob"); err != nil {
			return err
		}
		if again.at.String() != "https://hub.lab.example/hub/spawn" {
			return errors.New(again.text)
		}
		return nil
	})

	again.mounts(s, "bob", false)

	if kind(t).Kubernetes {
		bobs.untilMay(t, "login:bob [login:lab system:authenticated] pods=true secrets=false")
	}
	once.isIn(open) // who comes from a provider that leaves the file
	s.people(t, fileOf(t, "", map[string]string{"bob": "guests"}))
	once.isOut(open, "login.lab.example", time.Now())
	if kind(t).Kubernetes {
		bobs.untilMay(t, "login:bob [login:guests system:authenticated] pods=false secrets=false")
	}

	provider := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "management.cattle.io/v3", "kind": "AuthConfig", "metadata": map[string]any{"name": "genericoidc"}}}
	_, err = s.kube.Apply(t.Context(), provider) // as cluster:up does when login has left the file
	require.NoError(t, err)
	b.until(rancher, "own password is not simulated.")
}
