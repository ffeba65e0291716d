package jupyterhub

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
)

// Notebooks find models: a sole one without set-up, several by their names; what a profile or the chart's
// values set comes first.
func TestNotebooksFindModels(t *testing.T) {
	user := func(urls map[string]string) map[string]any {
		h := base()
		h.Auth = spec.HubAuth{Kind: spec.AuthDummy, AllowAll: spec.On}
		h.Models = Models{Namespace: "models", URLs: urls}
		v, err := h.Values()
		require.NoError(t, err)
		return v["singleuser"].(map[string]any)
	}
	v := user(nil)
	assert.NotContains(t, v, "extraEnv")
	assert.NotContains(t, v, "networkPolicy")

	v = user(map[string]string{"small-one": "http://a/v1"})
	assert.Equal(t, map[string]any{"OPENAI_BASE_URL": "http://a/v1", "OPENAI_API_KEY": "none", "MODEL_SMALL_ONE_URL": "http://a/v1"}, v["extraEnv"])
	assert.Equal(t, map[string]any{"egress": []any{map[string]any{"to": []any{map[string]any{
		"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": "models"}}}}}}}, v["networkPolicy"])

	v = user(map[string]string{"a": "http://a/v1", "b": "http://b/v1"})
	assert.Equal(t, map[string]any{"MODEL_A_URL": "http://a/v1", "MODEL_B_URL": "http://b/v1"}, v["extraEnv"])
}

// Behind a gateway all models have its address, which asks for a key: a person's own, else the one that notebooks share.
func TestNotebooksFindTheGateway(t *testing.T) {
	h := base()
	h.Auth = spec.HubAuth{Kind: spec.AuthDummy, AllowAll: spec.On}
	h.Models = Models{Namespace: "models", URLs: map[string]string{"a": "http://a/v1", "b": "http://b/v1"}, Gateway: "http://g/v1"}
	p, err := h.Part()
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"MODEL_A_URL": "http://g/v1", "MODEL_B_URL": "http://g/v1", "OPENAI_BASE_URL": "http://g/v1",
		"OPENAI_API_KEY": map[string]any{"valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "model-keys", "key": "{safe_username}", "optional": true}}}},
		p.Release.Values["singleuser"].(map[string]any)["extraEnv"])
	config := p.Release.Values["hub"].(map[string]any)["config"].(map[string]any)
	assert.Equal(t, map[string]any{"envFrom": []any{map[string]any{"secretRef": map[string]any{"name": "model-key"}}}}, config["KubeSpawner"].(map[string]any)["extra_container_config"])
	require.Len(t, p.Secrets, 2)
	assert.Equal(t, chart.Secret{Namespace: "jupyterhub", Name: "model-key", Prefix: "sk-", Generate: map[string]int{"OPENAI_API_KEY": 16}}, p.Secrets[1])

	h.Models.Keys = []string{"alice", "bob"}
	p, err = h.Part()
	require.NoError(t, err)
	assert.Equal(t, chart.Secret{Namespace: "jupyterhub", Name: "model-keys", Prefix: "sk-", Generate: map[string]int{"alice": 16, "bob": 16}}, p.Secrets[2])
}
