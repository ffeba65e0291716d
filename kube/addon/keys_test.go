package addon_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/sim/facts"
)

// notInValues are settings that charts read and do not list in values.yaml, or only
// as a comment. Each must at least be named in the file.
var notInValues = map[string][]string{
	"local-path-provisioner": {"storageClass.provisionerName"},
	"rancher":                {"hostname"},
}

// subcharts have values of their own below these keys.
var subcharts = map[string][]string{
	"gpu-operator":          {"node-feature-discovery"},
	"kube-prometheus-stack": {"grafana", "kube-state-metrics", "prometheus-node-exporter"},
	"metallb":               {"frr-k8s"},
}

// chartFacts is what is kept of a chart: the keys of its values, those of notInValues
// that its values.yaml names in a comment, and its schema, if it has one.
type chartFacts struct {
	Keys   map[string]any  `json:"keys"`
	Named  []string        `json:"named,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"`
}

func factsOf(t *testing.T, name string) chartFacts {
	t.Helper()
	text := facts.Load(t, filepath.Join("testdata", "facts", name+".json"), *update, func(full fs.FS) ([]byte, error) {
		values, err := fs.ReadFile(full, path.Join("charts", name, "values.yaml"))
		if err != nil {
			return nil, err
		}
		var f chartFacts
		keys, err := facts.Keys(values)
		if err == nil {
			err = yaml.Unmarshal(keys, &f.Keys)
		}
		if err != nil {
			return nil, err
		}
		for _, key := range notInValues[name] {
			last := key[strings.LastIndexByte(key, '.')+1:]
			if regexp.MustCompile(`(?m)^[ #]*` + regexp.QuoteMeta(last) + `:`).Match(values) {
				f.Named = append(f.Named, key)
			}
		}
		schema, err := fs.ReadFile(full, path.Join("charts", name, "values.schema.json"))
		if err == nil {
			f.Schema, err = facts.Schema(schema, true)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		out, err := json.MarshalIndent(f, "", " ")
		return append(out, '\n'), err
	})
	var f chartFacts
	require.NoError(t, json.Unmarshal(text, &f))
	return f
}

// Charts silently accept unknown keys. We do not.
func TestEveryKeyExistsInItsChart(t *testing.T) {
	for _, s := range samples(t) {
		if s.part.Release == nil {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			name := s.part.Release.Chart
			theirs := factsOf(t, name)
			for _, missing := range unknown(s.part.Release.Values, theirs.Keys, "") {
				assert.True(t, excused(name, missing, theirs.Named), "chart %s knows no %s", name, missing)
			}
			checkSchema(t, theirs.Schema, s.part.Release.Values)
		})
	}
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

func excused(chart, path string, named []string) bool {
	for _, sub := range subcharts[chart] {
		if strings.HasPrefix(path, sub+".") {
			return true // TestNoUnknownKeys, with the real charts, has a look at these
		}
	}
	return slices.Contains(named, path)
}

// checkSchema checks values with the stored part of a chart's schema.
func checkSchema(t *testing.T, text []byte, values map[string]any) {
	t.Helper()
	if len(text) == 0 {
		return // the chart has none
	}
	assert.NoError(t, facts.FitsValues(t, text)(values))
}

// The check above can fail.
func TestUnknownKeysAreSeen(t *testing.T) {
	theirs := map[string]any{"a": map[string]any{"b": 1, "free": map[string]any{}}}
	ours := map[string]any{"a": map[string]any{"b": 2, "bb": 2, "free": map[string]any{"any": 1}}, "z": 1}
	assert.ElementsMatch(t, []string{"a.bb", "z"}, unknown(ours, theirs, ""))
	rancher := factsOf(t, "rancher")
	assert.False(t, excused("rancher", "hostnam", rancher.Named))
	assert.True(t, excused("rancher", "hostname", rancher.Named))
	assert.Error(t, facts.FitsValues(t, rancher.Schema)(map[string]any{"ingress": "yes"}))
}
