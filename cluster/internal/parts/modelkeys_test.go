package parts

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster/internal/kubetest"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/modelserver"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/modelengine"
)

// inFront answers requests to the gateway's Service instead of the API server's proxy.
type inFront struct {
	gateway http.Handler // nil: no pod of it is ready
	next    http.RoundTripper
}

func (f *inFront) RoundTrip(r *http.Request) (*http.Response, error) {
	_, path, ok := strings.Cut(r.URL.Path, "/namespaces/models/services/gateway:http/proxy")
	if !ok {
		return f.next.RoundTrip(r)
	}
	w := httptest.NewRecorder()
	if f.gateway == nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.WriteString(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503,"message":"no endpoints available for service \"gateway\""}`)
	} else {
		out := r.Clone(r.Context())
		out.URL.Path = path
		f.gateway.ServeHTTP(w, out)
	}
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

// keyed are steps with a gateway of models, which has a key of somebody else's.
func keyed(t *testing.T) (*Steps, *kube.Client, *inFront, *kubetest.FailNth) {
	t.Helper()
	s, client, _, way := failing(t)
	s.Spec.Platform.ModelGateway, s.Spec.Platform.Models = &spec.ModelGateway{}, []spec.Model{{Name: "qwen"}, {Name: "other"}}
	gateway := modelengine.Gateway{Master: "sk-master", Models: []modelengine.Upstream{{Name: "qwen"}}, Keys: &modelengine.GatewayKeys{}}
	f := &inFront{gateway.Handler(), way.Next}
	way.Next = f
	for _, name := range []string{modelserver.Namespace, "jupyterhub"} {
		_, err := client.Apply(t.Context(), &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name}})
		require.NoError(t, err)
	}
	keep(t, client, modelserver.Namespace, modelserver.GatewayService, map[string]string{modelserver.MasterKey: "sk-master"})
	keep(t, client, modelserver.Namespace, modelserver.ChatSecret, map[string]string{modelserver.ChatKey: "sk-chat"})
	keep(t, client, "jupyterhub", modelserver.NotebooksSecret, map[string]string{modelserver.NotebooksKey: "sk-notebooks"})
	theirs := httptest.NewRequest(http.MethodPost, "/key/generate", strings.NewReader(`{"key":"sk-theirs","key_alias":"theirs"}`))
	theirs.Header.Set("Authorization", "Bearer sk-master")
	w := httptest.NewRecorder()
	f.gateway.ServeHTTP(w, theirs)
	require.Equal(t, http.StatusOK, w.Code)
	return s, client, f, way
}

// bring runs the step.
func bring(t *testing.T, s *Steps) error {
	t.Helper()
	g := &converge.Graph{}
	g.Add(s.modelKeysStep())
	_, err := g.Run(t.Context(), nil)
	return err
}

func keep(t *testing.T, client *kube.Client, namespace, name string, data map[string]string) {
	t.Helper()
	s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{}}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	_, err := client.Apply(t.Context(), s)
	require.NoError(t, err)
}

// Whatever keys files name one after the other, the gateway has those of the last one, and another's as it was.
func TestModelKeysFollowTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client, _, _ := keyed(t)
		random := rand.New(rand.NewPCG(29, 1))
		names := []string{"alice", "bob", "carol"}
		for round := range 40 {
			data := map[string]string{}
			s.Spec.Platform.ModelGateway.Keys, s.Spec.Platform.ModelChat = nil, nil
			if random.IntN(2) == 0 {
				s.Spec.Platform.ModelChat = &spec.ModelChat{}
			}
			for _, name := range names {
				if random.IntN(2) == 0 {
					continue
				}
				k := spec.ModelKey{Name: name, Requests: random.IntN(3), Tokens: random.IntN(3) * 100}
				if random.IntN(2) == 0 {
					k.Models = []string{"qwen"}
				}
				s.Spec.Platform.ModelGateway.Keys = append(s.Spec.Platform.ModelGateway.Keys, k)
				data[name] = fmt.Sprintf("sk-%s-%d", name, random.IntN(2)) // somebody may have deleted the Secret
			}
			keep(t, client, modelserver.Namespace, modelserver.KeysSecret, data)
			require.NoError(t, bring(t, s), "round %d", round)
			seen, err := s.observeModelKeys(t.Context())
			require.NoError(t, err)
			require.Empty(t, seen.diff())
			copies, err := client.SecretData(t.Context(), "jupyterhub", modelserver.PeopleSecret)
			require.True(t, err == nil || errors.Is(err, kube.ErrNotFound))
			for name, key := range data {
				require.Equal(t, key, string(copies[name]), "the notebooks of %s", name)
			}
			want := map[string]modelserver.Key{
				"theirs":          {Name: "theirs", Hash: modelserver.KeyHash(secret.New("sk-theirs"))},
				spec.NotebooksKey: {Name: spec.NotebooksKey, Hash: modelserver.KeyHash(secret.New("sk-notebooks")), Ours: true},
			}
			if s.Spec.Platform.ModelChat != nil {
				want[spec.ChatKey] = modelserver.Key{Name: spec.ChatKey, Hash: modelserver.KeyHash(secret.New("sk-chat")), Ours: true, Limits: modelserver.Limits{Models: []string{"other", "qwen"}}}
			}
			for _, k := range s.Spec.Platform.ModelGateway.Keys {
				want[k.Name] = modelserver.Key{Name: k.Name, Hash: modelserver.KeyHash(secret.New(data[k.Name])), Ours: true,
					Limits: modelserver.Limits{Models: k.Models, Requests: k.Requests, Tokens: k.Tokens}}
			}
			have := map[string]modelserver.Key{}
			for _, k := range seen.have {
				k.Models = slices.DeleteFunc(k.Models, func(string) bool { return false })
				if len(k.Models) == 0 {
					k.Models = nil
				}
				have[k.Name] = k
			}
			require.Equal(t, want, have)
		}
	})
}

// What a person sees of keys: before there is a gateway, while it does not answer, of another's key, and of one
// that leaves.
func TestModelKeysInAPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client, f, _ := keyed(t)
		plan := func() string {
			seen, err := s.observeModelKeys(t.Context())
			require.NoError(t, err)
			return seen.diff().String()
		}
		// requestsPerMinute: 60, tokensPerMinute: 9
		s.Spec.Platform.ModelGateway.Keys = []spec.ModelKey{{Name: "alice", Models: []string{"qwen"}, Requests: 60, Tokens: 9}}
		assert.Contains(t, plan(), "key/alice: qwen, 60 requests a minute, 9 tokens a minute")
		err := bring(t, s)
		require.ErrorContains(t, err, "key alice: its Secret models/gateway-keys has no alice yet")
		keep(t, client, modelserver.Namespace, modelserver.KeysSecret, map[string]string{"alice": "sk-alice", "theirs": "sk-other"})
		require.NoError(t, bring(t, s))

		gateway := f.gateway
		f.gateway = nil
		assert.Contains(t, plan(), `no endpoints available for service "gateway"`)
		f.gateway = gateway

		s.Spec.Platform.ModelGateway.Keys = []spec.ModelKey{{Name: "theirs"}}
		assert.Contains(t, plan(), "it is refused from then on")
		require.ErrorContains(t, bring(t, s), "key theirs: the gateway has a key of this name that homelab did not make")

		keep(t, client, modelserver.Namespace, modelserver.GatewayService, map[string]string{modelserver.MasterKey: "sk-other"})
		_, err = s.observeModelKeys(t.Context())
		require.ErrorContains(t, err, "rollout restart deployment gateway")
		assert.NotContains(t, err.Error(), modelserver.KeyHash(secret.New("sk-other")), "LiteLLM's own words have it")
	})
}

// A refused request fails the step with its reason, and names no key's value.
func TestModelKeysRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for at := 1; ; at++ {
			s, client, _, way := keyed(t)
			s.Spec.Platform.ModelGateway.Keys = []spec.ModelKey{{Name: "alice"}}
			keep(t, client, modelserver.Namespace, modelserver.KeysSecret, map[string]string{"alice": "sk-alice"})
			way.On, way.At = true, at
			seen, err := s.observeModelKeys(t.Context())
			if err == nil {
				err = seen.apply(t.Context())
			}
			if at > len(way.Seen) {
				require.NoError(t, err)
				return
			}
			if seen.away == nil { // a plan says it then
				require.ErrorContains(t, err, kubetest.Refusal, "request %d, %s", at, way.Seen[at-1])
				assert.NotContains(t, err.Error(), "sk-")
			}
		}
	})
}
