package login_test

import (
	"context"
	"crypto/x509"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/sim/lab/login"
)

const argoURL = "https://argocd.lab.example/"

// argoCD starts what the parts are: Argo CD with its ConfigMaps, and the gate in front of it.
func (w *world) argoCD(l spec.Login) {
	w.t.Helper()
	platform := &spec.Platform{Login: &l, TLS: &spec.TLS{}, ArgoCD: &spec.ArgoCD{Hostname: "argocd.lab.example", Fleet: spec.Fleet{Standalone: spec.On, Polling: time.Minute}}}
	site := &addon.Site{TLS: platform.TLS}
	server, err := addon.ArgoCD{ArgoCD: platform.ArgoCD, Platform: platform}.Make(site)
	require.NoError(w.t, err)
	configs := server.Release.Values["configs"].(map[string]any)
	configs["rbac"].(map[string]any)["scopes"] = "[groups]" // of the chart
	config := func(_ context.Context, name string) (map[string]string, error) {
		out := map[string]string{}
		for key, value := range configs[map[string]string{"argocd-cm": "cm", "argocd-cmd-params-cm": "params", "argocd-rbac-cm": "rbac"}[name]].(map[string]any) {
			out[key] = value.(string)
		}
		return out, nil
	}
	none := func(context.Context) (map[string]string, error) { return nil, nil }
	client := &http.Client{Transport: w}
	w.hosts["argocd-server.argocd"] = &login.ArgoCD{Config: config, Secrets: none, HTTP: func(*x509.CertPool) *http.Client { return client }, Now: w.clock}
	pages, err := addon.ArgoCDPages{Platform: platform}.Make(site)
	require.NoError(w.t, err)
	args := pages.After[0].(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Args
	env := func(name string) string {
		return map[string]string{"OAUTH2_PROXY_CLIENT_SECRET": "hush", "OAUTH2_PROXY_COOKIE_SECRET": strings.Repeat("c", 32)}[name]
	}
	gate, err := login.Gate(w.t.Context(), args, env, client, w.clock, w.hosts["argocd-server.argocd"])
	require.NoError(w.t, err)
	w.hosts["argocd.lab.example"] = gate
}

// TestArgoCD: groups give roles in Argo CD; who brings a token that Dex has not made is refused; who rests stays signed in;
// who leaves a group has its rights for half a minute, and who leaves altogether is out then.
func TestArgoCD(t *testing.T) {
	w := newWorld(t)
	ada, bob := person(t, "ada", "staff"), person(t, "bob", `'a, b'`)
	w.dex(ada+bob+person(t, "eve", "guests, staff2"), "")
	w.argoCD(spec.Login{Hostname: "login.lab.example", AllowedGroups: []string{"a, b", "lab"}, AdminGroups: []string{"staff"}})
	b := map[string]*http.Client{}
	for name, want := range map[string]string{
		"ada": "Signed in as ada@lab.example, whose role is admin.", "bob": "Signed in as bob@lab.example, whose role is readonly.", "eve": "403 Forbidden",
	} {
		b[name] = w.browser()
		_, text := w.open(b[name], argoURL, as(name))
		assert.Contains(t, text, want)
	}
	w.later(time.Hour)
	_, text := w.open(b["bob"], argoURL, nil)
	assert.Contains(t, text, "whose role is readonly", "and nobody asked him anything")

	for at, want := range map[string]int{argoURL: http.StatusFound, "http://argocd-server.argocd/": http.StatusUnauthorized} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, http.NoBody)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer x.y.z")
		res, err := w.RoundTrip(r)
		require.NoError(t, err)
		assert.Equal(t, want, res.StatusCode, at)
		require.NoError(t, res.Body.Close())
	}

	w.dex(person(t, "ada", "lab")+bob, "")
	w.later(spec.LoginToken - spec.LoginCheck)
	_, text = w.open(b["ada"], argoURL, nil)
	assert.Contains(t, text, "whose role is readonly")
	w.dex(bob, "")
	w.later(spec.LoginToken - spec.LoginCheck)
	_, text = w.open(b["ada"], argoURL, nil)
	assert.Contains(t, text, "Email Address", "she has to sign in, and cannot")
}
