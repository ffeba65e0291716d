package parts

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/platform"
)

// What comes from charts.values is said to, and nothing else is.
func TestWhoseValues(t *testing.T) {
	values := map[string]any{
		"grafana": map[string]any{"replicas": 2, "annotations": map[string]any{"a.example/b": "x"}}, "list": []any{1, 2}, "gone": nil, "e": map[string]any{}, "f": 1,
	}
	for path, is := range map[string]bool{
		"values/grafana/replicas": true, "values/grafana/annotations/a.example/b": true, "values/list/1": true, "values/gone": true, "values/gone/deeper": true,
		"values/grafana/other": false, "values/graf": false, "values/grafanas/replicas": false, "values/other": false, "grafana/replicas": false, "chart": false,
	} {
		got := markUserValues(converge.Diff{{Path: path, Have: "1", Want: "2"}}, values)[0].Note
		assert.Equal(t, is, got != "", "%s: %s", path, got)
		assert.Empty(t, markUserValues(converge.Diff{{Path: path}}, nil)[0].Note, path)
	}
	kept := converge.Diff{{Path: "values/list", Note: "not ready"}, {Want: "web 1.0.0", Effect: converge.Create}}
	assert.Equal(t, converge.Diff{
		{Path: "values/list", Note: "not ready"},
		{Want: "web 1.0.0", Effect: converge.Create, Note: "with your charts.values: e, f, gone, grafana.annotations.a.example/b and 2 more"},
	}, markUserValues(kept, values))
	assert.Equal(t, "web 1.0.0", kept[1].Want+kept[1].Note, "what is given stays as it is")
}

// Keys of ours that charts.values replace are warned of, at their place; others are not.
func TestReplacedValues(t *testing.T) {
	const text = `name: a
k3s: {version: v1.36.3+k3s1}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
nodes: {a: {role: server, external: root@10.0.0.2}}
storage: {nfs: "10.0.0.9:/export"}
monitoring: {retention: 15d}
`
	s, err := clusterfile.Parse("cluster.yaml", []byte(text), platform.Check)
	require.NoError(t, err)
	require.Empty(t, s.Warnings)
	pieces, err := platform.Pieces(s, false)
	require.NoError(t, err)
	var ours map[string]any
	for _, p := range pieces {
		if p.Name == "monitoring" {
			ours = p.Release.Values
		}
	}
	keys := leafKeys(ours, "")
	require.NotEmpty(t, keys)
	s, err = clusterfile.Parse("cluster.yaml", []byte(text+"charts: {values: {monitoring: {prometheus: {prometheusSpec: {retention: 30d}}, nobodys: {key: 1}}}}\n"), platform.Check)
	require.NoError(t, err)
	require.Len(t, s.Warnings, 1)
	assert.Equal(t, "charts.values.monitoring replaces what the other keys of this file set: prometheus.prometheusSpec.retention", s.Warnings[0].What)
	assert.Equal(t, 7, s.Warnings[0].Line)
	s, err = clusterfile.Parse("cluster.yaml", []byte(text+"charts: {values: {monitoring: {prometheus: {prometheusSpec: {retention: 15d}}}}}\n"), platform.Check)
	require.NoError(t, err)
	assert.Empty(t, s.Warnings, "it says the same")
}
