package addon_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// publicCharts are values.yaml and values.schema.json of the charts, as their
// projects publish them. They are not part of this repository.
const publicCharts = "../../shared/data/charts"

// notInValues are settings that charts read and do not list in values.yaml, or only
// as a comment. Each must at least be named in the file.
var notInValues = map[string][]string{
	"local-path-provisioner": {"storageClass.provisionerName"},
	"rancher":                {"hostname"},
}

// subcharts have values of their own below these keys.
var subcharts = map[string][]string{
	"kube-prometheus-stack": {"grafana", "kube-state-metrics", "prometheus-node-exporter"},
}

// Charts take a key that they do not know without a word. We do not.
func TestEveryKeyExistsInItsChart(t *testing.T) {
	if _, err := os.Stat(publicCharts); err != nil {
		t.Skipf("SKIPPED: the charts' values are not here (%s): no key of ours was checked against them", publicCharts)
	}
	for _, s := range samples(t) {
		if s.part.Release == nil {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			name := s.part.Release.Chart
			text, err := os.ReadFile(filepath.Join(publicCharts, name, "values.yaml"))
			require.NoError(t, err)
			var theirs map[string]any
			require.NoError(t, yaml.Unmarshal(text, &theirs))
			for _, missing := range unknown(s.part.Release.Values, theirs, "") {
				assert.True(t, excused(name, missing, text), "chart %s knows no %s", name, missing)
			}
			checkSchema(t, filepath.Join(publicCharts, name, "values.schema.json"), over(s.part.Release.Values, theirs))
		})
	}
}

// over lays ours over theirs, as Helm does before it asks the schema.
func over(ours, theirs map[string]any) map[string]any {
	out := maps.Clone(theirs)
	for key, v := range ours {
		mine, isMap := v.(map[string]any)
		below, alsoMap := theirs[key].(map[string]any)
		if isMap && alsoMap {
			v = over(mine, below)
		}
		out[key] = v
	}
	return out
}

// unknown are the paths of ours that theirs does not have. Where theirs is empty, or
// no mapping, the chart takes what comes.
func unknown(ours, theirs map[string]any, at string) []string {
	var missing []string
	for key, v := range ours {
		path := strings.TrimPrefix(at+"."+key, ".")
		their, known := theirs[key]
		if !known {
			missing = append(missing, path)
			continue
		}
		mine, isMap := v.(map[string]any)
		below, alsoMap := their.(map[string]any)
		if isMap && alsoMap && len(below) > 0 {
			missing = append(missing, unknown(mine, below, path)...)
		}
	}
	return missing
}

func excused(chart, path string, text []byte) bool {
	for _, sub := range subcharts[chart] {
		if strings.HasPrefix(path, sub+".") {
			return true // TestNoUnknownKeys, with the real charts, has a look at these
		}
	}
	last := path[strings.LastIndexByte(path, '.')+1:]
	for _, known := range notInValues[chart] {
		if known == path {
			return regexp.MustCompile(`(?m)^[ #]*` + regexp.QuoteMeta(last) + `:`).Match(text)
		}
	}
	return false
}

func checkSchema(t *testing.T, file string, values map[string]any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return // the chart has none
	}
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("values.schema.json", doc))
	schema, err := c.Compile("values.schema.json")
	require.NoError(t, err)
	js, err := yaml.Marshal(values)
	require.NoError(t, err)
	js, err = yaml.YAMLToJSON(js)
	require.NoError(t, err)
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(js))
	require.NoError(t, err)
	assert.NoError(t, schema.Validate(instance))
}

// The check above can fail.
func TestUnknownKeysAreSeen(t *testing.T) {
	theirs := map[string]any{"a": map[string]any{"b": 1, "free": map[string]any{}}}
	ours := map[string]any{"a": map[string]any{"b": 2, "bb": 2, "free": map[string]any{"any": 1}}, "z": 1}
	assert.ElementsMatch(t, []string{"a.bb", "z"}, unknown(ours, theirs, ""))
	assert.False(t, excused("rancher", "hostnam", []byte("# hostname: x")))
	assert.True(t, excused("rancher", "hostname", []byte("# hostname: x")))
	assert.False(t, excused("rancher", "hostname", []byte("nothing")), fmt.Sprint(notInValues["rancher"]))
}
