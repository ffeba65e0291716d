package modelserver_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/internal/modelserver"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/modelengine"
)

// gateway puts LiteLLM in front of a world's engine, which from then on asks for a key.
func (w *world) gateway(t *testing.T) *modelserver.Gateway {
	t.Helper()
	w.model(t, "qwen", up())
	w.model(t, modelserver.GatewayService, up()) // any pod behind a Service of this name
	e, ok := modelengine.New("vllm/vllm-openai:v0.11.0", []string{"--model=of/qwen", "--served-model-name=qwen"})
	require.True(t, ok)
	e.Key = "of the engines"
	g := modelengine.Gateway{Master: "sk-master", Models: []modelengine.Upstream{{Name: "qwen", Base: "http://qwen.models.svc:8000/v1", Key: e.Key}}, Keys: &modelengine.GatewayKeys{},
		Engine: func(base string) (http.Handler, error) {
			if base != "http://qwen.models.svc:8000/v1" {
				return nil, fmt.Errorf("nothing listens at %s", base)
			}
			return e.Handler(func() bool { return true }), nil
		}}
	w.engine = g.Handler()
	none, err := modelserver.FindGateway(t.Context(), w.Client)
	require.NoError(t, err)
	require.Nil(t, none)
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: modelserver.GatewayService}, Data: map[string][]byte{modelserver.MasterKey: []byte("sk-master")}}
	_, err = w.api.CoreV1().Secrets(modelserver.Namespace).Create(t.Context(), s, metav1.CreateOptions{})
	require.NoError(t, err)
	found, err := modelserver.FindGateway(t.Context(), w.Client)
	require.NoError(t, err)
	return found
}

// A model answers by way of the gateway, which has a list of its own.
func TestAModelAnswersByTheGateway(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		by := w.gateway(t)
		s := modelserver.Server{Name: "qwen", State: modelserver.Ready}
		a, err := s.Verify(t.Context(), w.Client, by)
		require.NoError(t, err)
		assert.Contains(t, a.Text, "This is the lab")
		assert.Equal(t, 10*time.Millisecond, a.FirstToken)
		_, err = modelserver.Server{Name: "other", State: modelserver.Ready}.Verify(t.Context(), w.Client, by)
		require.EqualError(t, err, `the gateway serves "qwen", and not other: homelab cluster:up brings its list up to date`)
		w.engine = said(http.StatusBadGateway, `{"error":{"message":"Connection error.","code":"502"}}`)
		_, err = s.Verify(t.Context(), w.Client, by)
		require.EqualError(t, err, "the gateway answers HTTP 502: Connection error.")
	})
}

// Keys are listed over several pages; only the mark says whose they are.
func TestKeys(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		g := w.gateway(t)
		for i := range 120 {
			require.NoError(t, g.Add(t.Context(), fmt.Sprintf("k%03d", i), secret.New(fmt.Sprintf("sk-%d", i)), modelserver.Limits{Models: []string{"qwen"}, Requests: i}))
		}
		all, err := g.Keys(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 120)
		one := all[7]
		assert.True(t, one.Ours)
		assert.Equal(t, []string{"qwen"}, one.Models)
		require.NoError(t, g.Limit(t.Context(), one.Hash, modelserver.Limits{Tokens: 5}))
		require.NoError(t, g.Revoke(t.Context(), all[8].Hash))
		require.EqualError(t, g.Revoke(t.Context(), all[8].Hash), "the gateway answers HTTP 404: Not all keys passed in were found in DB")
		require.ErrorContains(t, g.Add(t.Context(), one.Name, secret.New("sk-new"), modelserver.Limits{}), "already exists")
		all, err = g.Keys(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 119)
		assert.Equal(t, modelserver.Key{Name: one.Name, Hash: one.Hash, Ours: true, Limits: modelserver.Limits{Models: []string{}, Tokens: 5}}, all[7])
		w.engine = said(http.StatusOK, "nonsense")
		_, err = g.Keys(t.Context())
		require.ErrorContains(t, err, "the gateway's /key/list: ")
	})
}
