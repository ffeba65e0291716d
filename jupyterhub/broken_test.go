package jupyterhub

import (
	"github.com/cps-gpu/homelab/cluster/spec"

	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestChartValues go over ours, beside what they say nothing of.
func TestChartValues(t *testing.T) {
	h := Hub{Hub: spec.Hub{Hostname: "hub.lab.example", Auth: spec.HubAuth{Kind: spec.AuthDummy, AllowAll: spec.On}, Profiles: []spec.HubProfile{{Name: "cpu", Title: "CPU", Image: "quay.io/jupyter/minimal-notebook:2026-10-05"}}}}
	plain, err := installed{h}.release()
	require.NoError(t, err)
	h.ChartValues = map[string]any{
		"hub":        map[string]any{"nodeSelector": map[string]any{"disk": "ssd"}, "services": map[string]any{"mine": map[string]any{"url": "http://x"}}},
		"singleuser": map[string]any{"extraLabels": map[string]any{"a": "b"}},
		"cull":       map[string]any{"concurrency": 3},
	}
	r, err := installed{h}.release()
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

// What a profile with GPUs replaces is told: as a value, and as a line of Python.
func TestLostResources(t *testing.T) {
	disk := map[string]any{"ephemeral-storage": "50Gi"}
	h := Hub{Hub: spec.Hub{Auth: spec.HubAuth{Kind: spec.AuthDummy, AllowAll: spec.On}, Profiles: []spec.HubProfile{{Name: "gpu", GPUs: 1}}}, ChartValues: map[string]any{
		"hub": map[string]any{
			"config":      map[string]any{"KubeSpawner": map[string]any{"extra_resource_limits": disk}},
			"extraConfig": map[string]any{"limits": "c.KubeSpawner.extra_resource_limits = {}", "other": "pass"},
		},
		"singleuser": map[string]any{"extraResource": map[string]any{"limits": disk, "guarantees": disk}},
	}}
	assert.Equal(t, []string{
		"singleuser.extraResource.limits: profiles with GPUs have their own and replace it, so that their servers do not get it",
		"hub.config.KubeSpawner.extra_resource_limits: profiles with GPUs have their own and replace it, so that their servers do not get it",
		"hub.extraConfig.limits: it sets extra_resource_limits; profiles with GPUs have their own and replace it, so that their servers do not get it",
		"singleuser.extraResource.guarantees: profiles with GPUs have their own and replace it, so that their servers do not get it",
	}, h.RemovedSettings())
	h.Profiles[0].GPUs = 0
	assert.Empty(t, h.RemovedSettings())
	theirs := map[string]any{"kubespawner_override": map[string]any{"extra_resource_limits": map[string]any{"nvidia.com/gpu": "1"}}}
	h.ChartValues["singleuser"] = map[string]any{"profileList": []any{theirs}}
	assert.Len(t, h.RemovedSettings(), 3, "the list, the setting, and the line of Python")
	h.ChartValues = map[string]any{"hub": map[string]any{"config": map[string]any{"JupyterHub": map[string]any{"authenticator_class": "google"}}}}
	assert.Equal(t, []string{"hub.config.JupyterHub.authenticator_class: google replaces the logins of this file: dummy"}, h.RemovedSettings())
}
