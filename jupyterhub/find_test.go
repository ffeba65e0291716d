package jupyterhub

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

func withCluster(t *testing.T, test func(t *testing.T, k *kube.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sim, err := kubesim.New(t.Context(), guest.PlaneConfig{Version: "v1.36.5+k3s1", TLSSANs: []string{"10.0.0.10"}}, 1)
		require.NoError(t, err)
		defer sim.Close()
		k, err := kube.New(kube.Config{Kubeconfig: sim.Kubeconfig("https://10.0.0.10:6443"),
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return sim.Dial(ctx) }})
		require.NoError(t, err)
		defer k.Close()
		test(t, k)
	})
}

func TestFind(t *testing.T) {
	withCluster(t, func(t *testing.T, k *kube.Client) {
		h := hubs()["oidc"]
		var dialled string
		dial := func(_ context.Context, _, addr string) (net.Conn, error) {
			dialled = addr
			return nil, errors.New("only asked")
		}
		_, err := h.FindClient(t.Context(), k, dial)
		require.ErrorIs(t, err, kube.ErrNotFound)
		require.ErrorContains(t, err, "cluster:up creates it")

		meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "jupyterhub", Name: name} }
		_, err = k.Apply(t.Context(),
			&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "jupyterhub"}},
			&corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: meta(secretName), Data: map[string][]byte{keyToken: []byte("t0ken")}},
			&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta(caConfigMap), Data: map[string]string{"ca.crt": authority}},
			&networkingv1.Ingress{
				TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"}, ObjectMeta: meta("jupyterhub"),
				Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: h.Hostname}}},
			},
		)
		require.NoError(t, err)
		c, err := h.FindClient(t.Context(), k, dial)
		require.NoError(t, err)
		require.Equal(t, "https://hub.lab.example", c.URL)
		require.Equal(t, "t0ken", c.Token.Reveal())
		require.NotNil(t, c.TLS.RootCAs)
		_, err = c.Dial(t.Context(), "tcp", "hub.lab.example:443")
		require.ErrorContains(t, err, "only asked")
		require.Equal(t, "hub.lab.example:443", dialled, "nothing serves the Ingress yet: its name decides")
		_, _ = c.Dial(t.Context(), "tcp", "elsewhere:443")
		require.Equal(t, "elsewhere:443", dialled)

		h.Ingress = Ingress{Kind: ByLoadBalancer}
		_, err = h.FindClient(t.Context(), k, dial)
		require.ErrorIs(t, err, kube.ErrNotFound)
	})
}

func TestLead(t *testing.T) {
	var dialled []string
	dial := lead(func(_ context.Context, _, addr string) (net.Conn, error) {
		dialled = append(dialled, addr)
		return nil, nil
	}, "hub.lab.example", "10.0.0.200")
	for _, addr := range []string{"hub.lab.example:443", "elsewhere:443", "hub.lab.example:80"} {
		_, err := dial(t.Context(), "tcp", addr)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"10.0.0.200:443", "elsewhere:443", "10.0.0.200:80"}, dialled)
}

func TestDiscover(t *testing.T) {
	var publish map[string]string
	mux := http.NewServeMux()
	mux.HandleFunc("GET /realms/lab/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(publish) })
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	issuer := server.URL + "/realms/lab"
	publish = map[string]string{
		"issuer": issuer, "authorization_endpoint": issuer + "/auth", "token_endpoint": issuer + "/token", "userinfo_endpoint": issuer + "/userinfo",
	}
	have, err := Discover(t.Context(), server.Client(), issuer+"/")
	require.NoError(t, err)
	require.Equal(t, Endpoints{issuer + "/auth", issuer + "/token", issuer + "/userinfo"}, have)

	delete(publish, "userinfo_endpoint")
	_, err = Discover(t.Context(), server.Client(), issuer)
	require.ErrorContains(t, err, "does not publish all three")
	publish["issuer"] = "https://other"
	_, err = Discover(t.Context(), server.Client(), issuer)
	require.ErrorContains(t, err, `it calls itself "https://other"`)
	_, err = Discover(t.Context(), server.Client(), server.URL)
	require.ErrorContains(t, err, "404")
	_, err = Discover(t.Context(), http.DefaultClient, issuer)
	require.ErrorContains(t, err, "certificate")
}

// TestDiscoverStaysWithTLS: what an issuer says is heard and obeyed by TLS alone, where it
// is reached by that: the hub shows its client secret at the endpoints.
func TestDiscoverStaysWithTLS(t *testing.T) {
	publish := map[string]string{}
	answer := func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(publish) }
	plain := httptest.NewServer(http.HandlerFunc(answer))
	defer plain.Close()
	to := ""
	safe := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to != "" && r.URL.Path != "/here" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		answer(w, r)
	}))
	defer safe.Close()
	ask := func(issuer string, endpoints map[string]string) error {
		publish = map[string]string{"issuer": issuer, "authorization_endpoint": issuer + "/a", "token_endpoint": issuer + "/t", "userinfo_endpoint": issuer + "/u"}
		maps.Copy(publish, endpoints)
		_, err := Discover(t.Context(), safe.Client(), issuer)
		return err
	}
	require.NoError(t, ask(safe.URL, nil))
	require.NoError(t, ask(plain.URL, nil), "who has no TLS at all has said so")
	require.NoError(t, ask(plain.URL, map[string]string{"token_endpoint": safe.URL}))
	for name, endpoint := range map[string]string{"authorizeURL": "authorization_endpoint", "tokenURL": "token_endpoint", "userdataURL": "userinfo_endpoint"} {
		require.ErrorContains(t, ask(safe.URL, map[string]string{endpoint: plain.URL + "/x"}), "its "+name+": "+plain.URL+"/x has no TLS")
		require.ErrorContains(t, ask(safe.URL, map[string]string{endpoint: "file:///etc/passwd"}), "is not a URL that a hub can use")
	}
	to = plain.URL + "/elsewhere"
	require.ErrorContains(t, ask(safe.URL, nil), "it redirects to "+to+", which has no TLS")
	to = safe.URL + "/here"
	require.NoError(t, ask(safe.URL, nil), "a redirect that keeps TLS is followed")
	to = "/again"
	require.ErrorContains(t, ask(safe.URL, nil), "10 redirects")
}

// TestNoHub: what answers in a hub's place is told for what it is.
func TestNoHub(t *testing.T) {
	for want, answer := range map[string]http.HandlerFunc{
		"it is not JupyterHub": func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{}`)) },
		"a web page": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(502)
		},
		"it redirects to https:": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "https://login", http.StatusFound) },
		"nobody can log in: GET /hub/login: 500": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hub/login" {
				w.WriteHeader(http.StatusInternalServerError)
			}
			w.Write([]byte(`{"version": "5.5.0"}`))
		},
		"not what a hub answers": func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`<html>`)) },
	} {
		server := httptest.NewServer(answer)
		_, err := Verify(t.Context(), Client{URL: server.URL, Token: hubs()["oidc"].Secrets.Client}, nil, Options{Stop: 50 * time.Millisecond})
		require.ErrorContains(t, err, want)
		server.Close()
		_, err = Verify(t.Context(), Client{URL: server.URL, Token: hubs()["oidc"].Secrets.Client}, nil, Options{Stop: 50 * time.Millisecond})
		require.ErrorContains(t, err, "the hub does not answer")
	}
	_, err := Verify(t.Context(), Client{URL: "hub.lab.example"}, nil, Options{})
	require.ErrorContains(t, err, "no token")
	_, err = Verify(t.Context(), Client{URL: "hub.lab.example", Token: hubs()["oidc"].Secrets.Client}, nil, Options{})
	require.ErrorContains(t, err, "is not a URL of a hub")
}
