package helm

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	helmchart "helm.sh/helm/v3/pkg/chart"

	"github.com/cps-gpu/homelab/kube/chart"
)

func TestValuesError(t *testing.T) {
	assert.Equal(t, "chart web-1 does not accept the values: a.b: is bad; all is bad",
		(&ValuesError{Chart: "web-1", Problems: []chart.Problem{{Path: "a.b", Text: "is bad"}, {Path: "", Text: "all is bad"}}}).Error())
}

// inMemory is a chart with values, and charts inside it.
func inMemory(name string, values map[string]any, inside ...*helmchart.Chart) *helmchart.Chart {
	ch := &helmchart.Chart{Metadata: &helmchart.Metadata{Name: name, Version: "1.0.0", APIVersion: "v2"}, Values: values}
	ch.SetDependencies(inside...)
	for _, d := range inside {
		ch.Metadata.Dependencies = append(ch.Metadata.Dependencies, &helmchart.Dependency{Name: d.Name(), Version: "1.0.0"})
	}
	return ch
}

// TestSchemasOfChartsInside: each is held to its own part of the values, however deep.
func TestSchemasOfChartsInside(t *testing.T) {
	deep := inMemory("deep", nil)
	mid, other := inMemory("mid", nil, deep), inMemory("other", nil)
	top := inMemory("top", nil, other, mid)
	mine := []byte(`{"properties":{"n":{"type":"integer"}}}`)
	top.Schema, deep.Schema = mine, mine
	bad := map[string]any{"n": "x"}
	got, err := checkSchema(top, map[string]any{"n": "x", "mid": map[string]any{"n": "x", "deep": bad}, "deep": bad, "other": 5}, nil)
	require.NoError(t, err)
	assert.Equal(t, []chart.Problem{{Path: "n", Text: "must be integer, and is string"}, {Path: "mid.deep.n", Text: "must be integer, and is string"}}, got)
	deep.Schema = []byte("{")
	_, err = checkSchema(top, map[string]any{"mid": map[string]any{"deep": bad}}, nil)
	require.ErrorContains(t, err, "chart top/charts/mid/charts/deep: its values.schema.json: ")
	got, err = checkSchema(top, map[string]any{"mid": map[string]any{"deep": "no mapping"}}, nil)
	require.NoError(t, err, "the schema of what is not there is not read")
	assert.Empty(t, got)
}

// TestKnownValues: a chart's own, those of the charts inside it, where the outer ones win, and aliases.
func TestKnownValues(t *testing.T) {
	top := inMemory("top", map[string]any{"a": 1, "sub": map[string]any{"x": 2, "more": 3}}, inMemory("sub", map[string]any{"x": 1, "own": 1}), inMemory("bare", nil))
	top.Metadata.Dependencies[0].Alias = "second"
	assert.Equal(t, map[string]any{"a": 1, "global": nil, "second": nil, "bare": map[string]any{"global": nil},
		"sub": map[string]any{"x": 1, "own": 1, "more": 3, "global": nil}}, defaultValues(top))
	assert.NotContains(t, top.Values, "global", "the chart's own stay as they are")
	assert.Equal(t, map[string]any{"global": "x"}, defaultValues(inMemory("g", map[string]any{"global": "x"})))
	var out []string
	unknown(&out, map[string]any{"global": map[string]any{"z": 1}, "second": map[string]any{"z": 1}, "a": map[string]any{"z": 1}, "sub": map[string]any{"z": 1, "x": 5}}, defaultValues(top), nil)
	assert.Equal(t, []string{"sub.z"}, out)
}
