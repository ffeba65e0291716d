package kustomization

import (
	"testing"

	"github.com/stretchr/testify/assert"
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
