package login_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/sim/lab/login"
)

const chatURL = "https://chat.lab.example/"

// chat starts what the part is: a gate, nginx and Open WebUI, one after the other, and a gateway that has one model.
func (w *world) chat(l spec.Login) {
	w.t.Helper()
	platform := &spec.Platform{Login: &l, ModelChat: &spec.ModelChat{Hostname: "chat.lab.example"}, TLS: &spec.TLS{}}
	recipe, err := addon.ModelChat{ModelChat: platform.ModelChat, Platform: platform}.Make(&addon.Site{TLS: platform.TLS})
	require.NoError(w.t, err)
	var config string
	var containers []corev1.Container
	for _, o := range recipe.Before {
		switch o := o.(type) {
		case *corev1.ConfigMap:
			config = o.Data["nginx.conf"]
		case *appsv1.Deployment:
			containers = o.Spec.Template.Spec.Containers
		}
	}
	env := func(name string) string {
		for _, e := range containers[0].Env {
			if e.Name == name && e.ValueFrom == nil {
				return e.Value
			}
		}
		return map[string]string{"OPENAI_API_KEY": "sk-chat", "OAUTH2_PROXY_CLIENT_SECRET": "hush", "OAUTH2_PROXY_COOKIE_SECRET": strings.Repeat("c", 32)}[name]
	}
	client := &http.Client{Transport: w}
	gate, err := login.Gate(w.t.Context(), containers[1].Args, env, client, w.clock, login.Roles(config, login.Chat(env, client, w.clock)))
	require.NoError(w.t, err)
	w.hosts["chat.lab.example"] = gate
	w.hosts["gateway.models.svc"] = http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sk-chat" {
			http.Error(out, "no", http.StatusUnauthorized)
			return
		}
		_ = json.NewEncoder(out).Encode(map[string]any{"data": []any{map[string]any{"id": "mini"}}, "path": r.URL.Path})
	})
}

// ask sends a question, with headers of one's own.
func (w *world) ask(b *http.Client, header ...string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, chatURL+"api/chat/completions", strings.NewReader(`{"model":"mini"}`))
	require.NoError(w.t, err)
	r.Header.Set("Accept", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := b.Do(r)
	require.NoError(w.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	return res.StatusCode, string(text)
}

// TestChat: groups give roles in the chat; who says in headers to be somebody else is not; who leaves, or is in no
// group any more, is out when the token is over; who only leaves the administrators' group is one for half a day.
func TestChat(t *testing.T) {
	w := newWorld(t)
	ada, bob := person(t, "ada", "staff"), person(t, "bob", `'of "all" \\, people'`)
	w.dex(ada+bob+person(t, "eve", "guests, staff2"), "")
	w.chat(spec.Login{Hostname: "login.lab.example", AllowedGroups: []string{"lab"}, AdminGroups: []string{"staff", `of "all" \\, people`}})
	b := map[string]*http.Client{}
	for name, want := range map[string]string{
		"ada": "Signed in as ada, whose role is admin. Models: mini.", "bob": "Signed in as bob, whose role is admin.", "eve": "403 Forbidden",
	} {
		b[name] = w.browser()
		_, text := w.open(b[name], chatURL, as(name))
		assert.Contains(t, text, want)
	}
	status, text := w.ask(b["ada"])
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, text, "/v1/chat/completions")
	forged := []string{"X-Chat-Name", "bob", "X-Chat-Role", "admin", "X-Forwarded-Email", "bob", "X-Forwarded-Groups", "staff"}
	status, _ = w.ask(w.browser(), forged...)
	assert.Equal(t, http.StatusUnauthorized, status)
	status, _ = w.ask(b["ada"], forged...)
	assert.Equal(t, http.StatusOK, status, "she is still ada, whose session it is")

	w.dex(person(t, "ada", "lab")+person(t, "bob", "guests"), "")
	w.later(spec.LoginToken)
	status, _ = w.ask(b["bob"])
	assert.Equal(t, http.StatusForbidden, status, "no group of his may use it")
	_, text = w.open(b["ada"], chatURL, nil)
	assert.Contains(t, text, "whose role is admin")
	w.later(12 * time.Hour)
	_, text = w.open(b["ada"], chatURL, nil)
	assert.Contains(t, text, "whose role is user", "and nobody asked her anything")

	w.dex(bob, "")
	w.later(spec.LoginToken)
	status, _ = w.ask(b["ada"])
	assert.Equal(t, http.StatusUnauthorized, status)
	_, text = w.open(b["ada"], chatURL, nil)
	assert.Contains(t, text, "Email Address", "she has to sign in, and cannot")
}
