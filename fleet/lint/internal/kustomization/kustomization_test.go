package kustomization

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// What leads out of a bundle is found wherever it stands in a kustomization. Only
// patchesStrategicMerge has texts that are files themselves.
func TestElsewhere(t *testing.T) {
	const url, inline = "https://git.example.com/x", "https://git.example.com/x\nkind: Pod"
	for want, v := range map[string]any{
		url:    map[string]any{"a": []any{"x", 5, map[string]any{"b": []any{"y", url}}}},
		inline: map[string]any{"a": []any{inline}, "patchesStrategicMerge": []any{inline}},
		"":     map[string]any{"a": "x", "patchesStrategicMerge": []any{"x\nkind: Pod", inline}},
	} {
		assert.Equal(t, want, elsewhere(v, false), "%v", v)
	}
	assert.Equal(t, url, elsewhere(map[string]any{"patchesStrategicMerge": []any{inline, url}}, false))
}

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"a: [":                       "k is not a kustomization",
		"generators: [x]":            "k has generators, which is not run here",
		"HelmCharts: [x]":            "k has HelmCharts, which is not run here",
		"resources: [https://x/y]":   "k takes from https://x/y, which is not fetched",
		"bases: [git@x:y]":           "k takes from git@x:y, which is not fetched",
		"components: [github.com/x]": "k takes from github.com/x, which is not fetched",
	} {
		_, opaque := Plain("k", []byte(text), false)
		assert.Equal(t, want, opaque)
	}
	for text, want := range map[string]string{
		"resources: [a]\nbases: [b, c]":         "resources: [a, b, c]",
		"openapi:\nresources: [a]":              "{openapi: null, resources: [a]}",
		"imageTags: [{name: a, newTag: b}]":     "images: [{name: a, newTag: b}]",
		"patchesJson6902: [{path: a}]":          "patches: [{path: a}]",
		"patchesStrategicMerge: [a, \"b\\nc\"]": "patches: [{path: a}, {patch: \"b\\nc\"}]",
		"commonLabels: {a: b}\nlabels: [c]":     "labels: [c, {pairs: {a: b}, includeSelectors: true}]",
		"bases: []":                             "bases: []",
	} {
		got, opaque := Plain("k", []byte(text), false)
		require.Empty(t, opaque)
		assert.Contains(t, string(got), "originAnnotations")
		assert.YAMLEq(t, want, without(t, got, "buildMetadata"), text)
	}
	others := "patches: [{path: a}]\nreplacements: [a]\nvars: [a]\nimages: [a]\nreplicas: [a]\nresources: [a]"
	for onChart, want := range map[bool]string{true: "resources: [a]", false: others} {
		got, _ := Plain("k", []byte(others), onChart)
		assert.YAMLEq(t, want, without(t, got, "buildMetadata"))
	}
	got, opaque := Plain("k", []byte("kind: Kustomization"), false)
	assert.Equal(t, "kind: Kustomization", string(got)+opaque)
}

func without(t *testing.T, data []byte, key string) string {
	var k map[string]any
	require.NoError(t, yaml.Unmarshal(data, &k))
	delete(k, key)
	out, err := yaml.Marshal(k)
	require.NoError(t, err)
	return string(out)
}

func TestAddResource(t *testing.T) {
	fsys := filesys.MakeFsInMemory()
	require.NoError(t, fsys.WriteFile("k", []byte("resources: [a]\nnamePrefix: x")))
	require.NoError(t, AddResource(fsys, "k", "b"))
	got, err := fsys.ReadFile("k")
	require.NoError(t, err)
	assert.YAMLEq(t, "{resources: [a, b], namePrefix: x}", string(got))
	require.Error(t, AddResource(fsys, "none", "b"))
	require.NoError(t, fsys.WriteFile("bad", []byte("[")))
	require.Error(t, AddResource(fsys, "bad", "b"))
}
