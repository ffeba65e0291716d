package jupyterhub

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// keyLines are the lines of chart.keys for a schema.
func keyLines(schema map[string]any, at string) []string {
	var out []string
	properties, _ := schema["properties"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		s := properties[key].(map[string]any)
		kinds := []string{}
		switch t := s["type"].(type) {
		case string:
			kinds = append(kinds, t)
		case []any:
			for _, one := range t {
				kinds = append(kinds, one.(string))
			}
		}
		if of, ok := s["enum"].([]any); ok && len(kinds) == 0 {
			for _, one := range of {
				kinds = append(kinds, typeOf(one))
			}
		}
		slices.Sort(kinds)
		kinds = slices.Compact(kinds)
		_, closed := s["additionalProperties"].(bool)
		closed = closed && s["additionalProperties"] == false && s["patternProperties"] == nil && s["properties"] != nil
		if i := slices.Index(kinds, "object"); i >= 0 && !closed {
			kinds[i] = "map"
		}
		if len(kinds) == 0 {
			kinds = []string{"any"}
		}
		out = append(out, at+key+" "+strings.Join(kinds, "|"))
		if closed {
			out = append(out, keyLines(s, at+key+".")...)
		}
	}
	return out
}

// TestChartKeys: chart.keys is what the chart's schema says.
func TestChartKeys(t *testing.T) {
	text, err := os.ReadFile("testdata/facts/values.schema.json")
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, json.Unmarshal(text, &schema))
	want := strings.Join(keyLines(schema, ""), "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile("chart.keys", []byte(want), 0o644))
		chartKeys = want
	}
	assert.Equal(t, want, chartKeys)
}

func TestCheckChartValues(t *testing.T) {
	m := func(text string) (out map[string]any) {
		require.NoError(t, json.Unmarshal([]byte(text), &out))
		return out
	}
	assert.Empty(t, CheckChartValues(m(`{"singleuser": {"extraLabels": {"a": "b"}, "cpu": {"limit": 2, "guarantee": 0.5}, "nodeSelector": {"gpu": "true"}}, "hub": {"config": {"Authenticator": {"admin_users": ["a"]}}}, "cull": {"timeout": 60}, "custom": {"x": 1}}`)))
	for text, want := range map[string]ValueFault{
		`{"singleuser": {"resources": {}}}`:      {"singleuser.resources", "JupyterHub's chart has no key singleuser.resources, and Helm refuses it", elsewhere()["singleuser.resources"]},
		`{"singleuser": {"nodeSelectr": {}}}`:    {"singleuser.nodeSelectr", "JupyterHub's chart has no key singleuser.nodeSelectr, and Helm refuses it", `did you mean "nodeSelector"?`},
		`{"cull": {"timeout": "1h"}}`:            {"cull.timeout", "cull.timeout is string, and JupyterHub's chart refuses that", "write a whole number"},
		`{"cull": {"timeout": 1.5}}`:             {"cull.timeout", "cull.timeout is number, and JupyterHub's chart refuses that", "write a whole number"},
		`{"singleuser": {"cpu": 2}}`:             {"singleuser.cpu", "singleuser.cpu is integer, and JupyterHub's chart refuses that", "write a mapping"},
		`{"singleuser": []}`:                     {"singleuser", "singleuser is array, and JupyterHub's chart refuses that", "write a mapping"},
		`{"singleuser": {"cpu": {"limits": 1}}}`: {"singleuser.cpu.limits", "JupyterHub's chart has no key singleuser.cpu.limits, and Helm refuses it", `did you mean "limit"?`},
	} {
		assert.Equal(t, []ValueFault{want}, CheckChartValues(m(text)), text)
	}
	for path := range elsewhere() {
		assert.NotContains(t, chartKeys, path+" ", "the chart has it")
	}
}

func BenchmarkCheckChartValues(b *testing.B) {
	raw := map[string]any{"singleuser": map[string]any{"extraLabels": map[string]any{"a": "b"}}}
	for b.Loop() {
		CheckChartValues(raw)
	}
}
