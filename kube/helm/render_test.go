package helm_test

import (
	"bytes"
	"flag"
	"log"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/helm"
)

var update = flag.Bool("update", false, "write the golden files")

var local = helm.Source{Folder: "testdata/charts", Offline: true}

func tiny(values map[string]any) chart.Release {
	return chart.Release{Name: "t", Namespace: "test", Chart: "plain", Version: "1.0.0", Values: values}
}

func TestRender(t *testing.T) {
	got, err := local.Render(t.Context(), tiny(map[string]any{"list": map[string]any{"a": "table over a list"}}), helm.Capabilities{
		Kubernetes: "v1.36.5+k3s1", APIs: []string{"monitoring.coreos.com/v1", "monitoring.coreos.com/v1/ServiceMonitor"}})
	require.NoError(t, err)
	again, err := local.Render(t.Context(), tiny(map[string]any{"list": map[string]any{"a": "table over a list"}}), helm.Capabilities{
		Kubernetes: "v1.36.5+k3s1", APIs: []string{"monitoring.coreos.com/v1", "monitoring.coreos.com/v1/ServiceMonitor"}})
	require.NoError(t, err)
	assert.Equal(t, string(got), string(again))
	const golden = "testdata/plain.yaml"
	if *update {
		require.NoError(t, os.WriteFile(golden, got, 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
	objs, err := kube.Decode(got)
	require.NoError(t, err)
	assert.Len(t, objs, 5, "the hook is left out")
}

// TestMergingPrintsNothing holds Helm's merge to silence: its warnings go to the
// process's log.
func TestMergingPrintsNothing(t *testing.T) {
	var said bytes.Buffer
	log.SetOutput(&said)
	defer log.SetOutput(os.Stderr)
	for _, values := range []map[string]any{
		{"list": map[string]any{"a": 1}},
		{"table": []any{1}},
		{"table": map[string]any{"inner": []string{"x"}}},
		{"cache": map[string]any{"limits": []any{"x"}}},
	} {
		_, err := local.Render(t.Context(), tiny(values), caps)
		require.NoError(t, err)
	}
	assert.Empty(t, said.String())
}

func TestCheck(t *testing.T) {
	web := func(values map[string]any) chart.Release {
		return chart.Release{Name: "site", Namespace: "web", Chart: "web", Version: "1.0.0", Values: values}
	}
	for name, c := range map[string]struct {
		values map[string]any
		want   []string
	}{
		"all is well":       {map[string]any{"replicas": 2}, nil},
		"an unknown key":    {map[string]any{"hook": map[string]any{"exti": 1}}, []string{"hook.exti: is not a key that the chart knows"}},
		"a wrong type":      {map[string]any{"replicas": "2"}, []string{"replicas: must be integer, and is string"}},
		"not of the choice": {map[string]any{"color": "pink"}, []string{"color: must be one of blue, green"}},
		"a secret":          {map[string]any{"token": "hunter2"}, []string{`token: does not match "^([a-f0-9]{8})?$"`}},
		"a chart inside":    {map[string]any{"cache": map[string]any{"size": "7Gi-hunter2"}}, []string{`cache.size: does not match "^[0-9]+Mi$"`}},
		"several": {map[string]any{"replicas": 0, "extra": "yes", "cache": "hunter2"},
			[]string{"cache: must be a mapping: the values of the chart cache", "extra: must be boolean, and is string", "replicas: must be 1 or more"}},
		"a default removed": {map[string]any{"replicas": nil}, []string{"lacks replicas"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := local.Check(t.Context(), web(c.values), caps)
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			var wrong *helm.ValuesError
			require.ErrorAs(t, err, &wrong)
			var got []string
			for _, p := range wrong.Problems {
				got = append(got, p.String())
			}
			assert.ElementsMatch(t, c.want, got)
			assert.NotContains(t, err.Error(), "hunter2")
		})
	}
	err := local.Check(t.Context(), web(map[string]any{"replicas": "x"}), helm.Capabilities{Kubernetes: "v1.29.0"})
	require.ErrorContains(t, err, "wants Kubernetes >=1.30.0-0, and the cluster's is v1.29.0")
	require.ErrorContains(t, err, "replicas: must be integer", "everything that is wrong is said")
	require.NoError(t, local.Check(t.Context(), web(nil), helm.Capabilities{}), "an unknown version is not checked")
	require.ErrorContains(t, local.Check(t.Context(), chart.Release{Name: "Bad Name", Chart: "web", Version: "1.0.0"}, caps), `release "Bad Name"`)
	_, err = local.Render(t.Context(), tiny(map[string]any{"fail": "because"}), caps)
	require.ErrorContains(t, err, "chart plain-1.0.0 does not render with these values")
	require.ErrorContains(t, err, "because")
}

func TestUnknown(t *testing.T) {
	got, err := local.UnknownValues(t.Context(), tiny(map[string]any{
		"tabel": 1, "table": map[string]any{"inner": map[string]any{"deep": 1, "x.y": 2}}, "list": map[string]any{"a": 1},
		"cache": map[string]any{"limits": map[string]any{"cpu": 1}}, "global": map[string]any{"a": 1},
	}))
	require.NoError(t, err)
	assert.Equal(t, []string{"cache.limits.cpu", "tabel", `table.inner["x.y"]`}, got)
}
