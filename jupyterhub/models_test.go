package jupyterhub

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
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
