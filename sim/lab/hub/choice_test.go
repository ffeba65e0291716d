package hub

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestProfileAdds: KubeSpawner merges a profile's tables with those of all servers (7.1 spawner.py, _apply_overrides).
func TestProfileAdds(t *testing.T) {
	h := &hub{}
	h.values.Singleuser.ExtraResource.Limits = map[string]any{"ephemeral-storage": "50Gi"}
	h.values.Singleuser.ProfileList = []profile{{Slug: "gpu", Override: map[string]any{"extra_resource_limits": map[string]any{"nvidia.com/gpu": "1"}}}}
	traits, err := h.choose("gpu")
	require.NoError(t, err)
	resources, err := resourcesOf(traits)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"ephemeral-storage": "50Gi", "nvidia.com/gpu": "1"}, resources["limits"])
}
