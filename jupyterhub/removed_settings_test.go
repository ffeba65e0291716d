package jupyterhub

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// TestChartValues go over ours, beside what they say nothing of.
func TestChartValues(t *testing.T) {
	h := Hub{Hub: spec.Hub{Hostname: "hub.lab.example", Auth: spec.HubAuth{Kind: spec.AuthDummy, AllowAll: spec.On}, Profiles: []spec.HubProfile{{Name: "cpu", Title: "CPU", Image: "quay.io/jupyter/minimal-notebook:2026-10-05"}}}}
	plain, err := installation{h}.release()
	require.NoError(t, err)
	h.ChartValues = map[string]any{
		"hub":        map[string]any{"nodeSelector": map[string]any{"disk": "ssd"}, "services": map[string]any{"mine": map[string]any{"url": "http://x"}}},
		"singleuser": map[string]any{"extraLabels": map[string]any{"a": "b"}},
		"cull":       map[string]any{"concurrency": 3},
	}
	r, err := installation{h}.release()
	require.NoError(t, err)
	hub := r.Values["hub"].(map[string]any)
	assert.Equal(t, map[string]any{"disk": "ssd"}, hub["nodeSelector"])
	assert.Contains(t, hub["services"], "mine")
	assert.Contains(t, hub["services"], verifyService)
	assert.Equal(t, secretName, hub["existingSecret"])
	assert.Equal(t, plain.Values["singleuser"].(map[string]any)["storage"], r.Values["singleuser"].(map[string]any)["storage"])
	assert.Equal(t, map[string]any{"a": "b"}, r.Values["singleuser"].(map[string]any)["extraLabels"])
	assert.Equal(t, 3, r.Values["cull"].(map[string]any)["concurrency"])
	assert.Empty(t, h.RemovedSettings())
}

func TestBroken(t *testing.T) {
	h := Hub{Hub: spec.Hub{Auth: spec.HubAuth{Kind: spec.AuthDummy, AllowAll: spec.On}, Profiles: []spec.HubProfile{{Name: "cpu", Title: "CPU", Image: "quay.io/jupyter/minimal-notebook:2026-10-05"}}}, ChartValues: map[string]any{
		"hub": map[string]any{
			"existingSecret": "other", "services": map[string]any{verifyService: map[string]any{}}, "loadRoles": []any{},
			"extraConfig": map[string]any{"10-homelab-passwords": "pass", "mine": "pass"},
		},
		"singleuser": map[string]any{"profileList": []any{}},
	}}
	assert.Equal(t, []string{
		"hub.existingSecret: logins, cookies and the token of hub:verify are in the Secret hub-homelab, which the hub then does not read",
		"hub.services.homelab-verify: it is ours: services that verify and cull",
		"hub.loadRoles: it is not a mapping and replaces ours: what our services may do",
		"hub.extraConfig.10-homelab-passwords: it is ours: logins and profiles by group",
		"singleuser.profileList: it replaces the profiles of this file, which hub:profiles and hub:verify use",
	}, h.RemovedSettings())
	h.ChartValues = map[string]any{"hub": "not a mapping"}
	assert.Empty(t, h.RemovedSettings())
}
