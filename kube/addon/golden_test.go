package addon_test

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/kube/addon"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// shown is a part as a golden file shows it: values of secrets left out, and what
// is long said elsewhere.
func shown(t *testing.T, p addon.Recipe) string {
	t.Helper()
	out := map[string]any{"name": p.Name}
	if len(p.Needs) > 0 {
		out["needs"] = p.Needs
	}
	if p.Keep {
		out["keep"] = true
	}
	if len(p.Classes) > 0 {
		out["classes"] = p.Classes
	}
	if len(p.NamespaceLabels) > 0 {
		out["namespaceLabels"] = p.NamespaceLabels
	}
	if r := p.Release; r != nil {
		out["release"] = map[string]any{"name": r.Name, "namespace": r.Namespace, "chart": r.Chart, "values": r.Values}
	}
	var secrets []any
	for _, s := range p.Secrets {
		secrets = append(secrets, map[string]any{"namespace": s.Namespace, "name": s.Name, "type": s.Type,
			"given": slices.Sorted(maps.Keys(s.Data)), "generated": s.Generate})
	}
	if secrets != nil {
		out["secrets"] = secrets
	}
	if len(p.Before) > 0 {
		out["before"] = p.Before
	}
	if len(p.After) > 0 {
		out["after"] = p.After
	}
	b, err := json.Marshal(out)
	require.NoError(t, err)
	y, err := yaml.JSONToYAML(b)
	require.NoError(t, err)
	return string(y)
}

func TestGolden(t *testing.T) {
	for _, s := range samples(t) {
		t.Run(s.name, func(t *testing.T) {
			if s.part.Name == "dcgm-exporter" {
				s.part.After = nil // the dashboard, which is a file of its own
			}
			if s.part.Name == "gateway-api" {
				s.part.After = s.part.After[:1] // the definitions, too
				s.part.After[0].(*unstructured.Unstructured).Object["spec"] = "…"
			}
			got, file := shown(t, s.part), filepath.Join("testdata", s.name+".yaml")
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err, "write it with -update")
			assert.Equal(t, string(want), got)
		})
	}
	if *update {
		return
	}
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	for _, f := range files {
		known := slices.ContainsFunc(samples(t), func(s sample) bool { return s.name+".yaml" == filepath.Base(f) })
		assert.True(t, known, "%s is of no sample", f)
	}
}

// No given secret may be in what is kept in releases or written to Git.
func TestNothingSecretInValues(t *testing.T) {
	for _, s := range samples(t) {
		text := shown(t, s.part)
		for _, sec := range s.part.Secrets {
			for key, v := range sec.Data {
				if key == "tls.crt" || key == "cacerts.pem" || len(v.Reveal()) < 6 {
					continue
				}
				assert.NotContains(t, text, v.Reveal(), "%s: %s of %s", s.name, key, sec.Name)
			}
		}
		for _, word := range []string{"a-long-password", "wJalrXUtnFEMIEXAMPLE", "AKIAEXAMPLE", "PRIVATE KEY"} {
			assert.False(t, strings.Contains(text, word), "%s shows %s", s.name, word)
		}
	}
}
