package hub

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestProfileAdds: KubeSpawner merges a profile's tables with those of all servers (7.1 spawner.py, _apply_overrides).
func TestProfileAdds(t *testing.T) {
	h := &hub{}
	h.values.Singleuser.ExtraResource.Limits = map[string]any{"ephemeral-storage": "50Gi"}
	h.values.Singleuser.ProfileList = []profile{{Slug: "gpu", Override: map[string]any{"extra_resource_limits": map[string]any{"nvidia.com/gpu": "1"}}}}
	traits, err := h.choose("", map[string]any{"profile": "gpu"})
	require.NoError(t, err)
	resources, err := resourcesOf(traits)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"ephemeral-storage": "50Gi", "nvidia.com/gpu": "1"}, resources["limits"])
}

// TestOptions: an option has the choice that is preselected, the one that people make, or what they type if it may be.
func TestOptions(t *testing.T) {
	h := &hub{}
	require.NoError(t, yaml.Unmarshal([]byte(`
- slug: gpu
  kubespawner_override: {cpu_limit: 4, environment: {NVIDIA_VISIBLE_DEVICES: void}}
  profile_options:
    image:
      choices: {a: {default: true, kubespawner_override: {image: "a:1"}}, b: {kubespawner_override: {image: "b:1"}}}
      unlisted_choice: {enabled: true, validation_regex: ^quay, kubespawner_override: {image: "{value}"}}
    size:
      choices: {s: {default: true}, l: {kubespawner_override: {cpu_limit: 8, environment: {NVIDIA_VISIBLE_DEVICES: null}}}}
`), &h.values.Singleuser.ProfileList))
	for _, c := range []struct {
		options map[string]any
		image   string
		cpu     any
	}{
		{nil, "a:1", 4.}, {map[string]any{"profile": "gpu", "image": "b", "size": "l"}, "b:1", 8.},
		{map[string]any{"profile": "gpu", "image--unlisted-choice": "quay.io/x:1"}, "quay.io/x:1", 4.},
	} {
		traits, err := h.choose("", c.options)
		require.NoError(t, err)
		require.Equal(t, []any{c.image, c.cpu}, []any{traits["image"], traits["cpu_limit"]})
		require.Equal(t, c.cpu == 4., len(traits["environment"].(map[string]any)) == 1, "null removes a key")
	}
	_, err := h.choose("", map[string]any{"profile": "gpu", "image": "c"})
	require.ErrorContains(t, err, `KeyError: "c"`)
	_, err = h.choose("", map[string]any{"profile": "gpu", "image--unlisted-choice": "docker.io/x"})
	require.ErrorContains(t, err, "failed validation regex")
	_, err = h.choose("", map[string]any{"profile": "gpu", "size--unlisted-choice": "x"})
	require.ErrorContains(t, err, "without being enabled")
}

// TestNamesInVariables: a variable can be the key of a Secret by a person's name, beside the variables of another
// Secret.
func TestNamesInVariables(t *testing.T) {
	h := &hub{Options: Options{Pod: &corev1.Pod{}}}
	require.NoError(t, yaml.Unmarshal([]byte(`
hub: {config: {KubeSpawner: {extra_container_config: {envFrom: [{secretRef: {name: shared}}]}}}}
singleuser: {extraEnv: {KEY: {valueFrom: {secretKeyRef: {name: keys, key: "{safe_username}", optional: true}}}, HOME: "/home/{username}"}}
`), &h.values))
	for _, user := range []string{"ada", "ben"} { // the values stay as they are
		pod, err := h.podOf(user, "", h.traits())
		require.NoError(t, err)
		c := pod.Spec.Containers[0]
		require.Equal(t, "shared", c.EnvFrom[0].SecretRef.Name)
		require.Equal(t, corev1.EnvVar{Name: "HOME", Value: "/home/" + user}, c.Env[2])
		require.Equal(t, user, c.Env[3].ValueFrom.SecretKeyRef.Key)
	}
}
