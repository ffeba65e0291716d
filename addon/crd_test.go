package addon_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
)

// Objects of kinds that charts bring have the fields that the definitions in the
// real charts know, with values that they take.
func TestObjectsFitTheirDefinitions(t *testing.T) {
	if *charts == "" {
		t.Skip("SKIPPED: no -charts=FOLDER: our objects were not checked against the charts' definitions")
	}
	schemas := definitions(t)
	checked := map[string]int{}
	for _, s := range samples(t) {
		for _, o := range s.part.After {
			u, ok := o.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			schema := schemas[u.GetAPIVersion()+" "+u.GetKind()]
			if schema == nil {
				continue
			}
			checked[u.GetKind()]++
			where := fmt.Sprintf("%s: %s %s", s.name, u.GetKind(), u.GetName())
			assert.Empty(t, strangers(u.Object["spec"], dig(schema, "properties", "spec"), "spec"), where)
			assert.NoError(t, fits(t, schema, u.Object), where)
		}
	}
	for _, kind := range []string{"IPAddressPool", "L2Advertisement", "ClusterIssuer", "Certificate"} {
		assert.Positive(t, checked[kind], kind)
	}
}

// definitions are the schemas in the real charts, by version and kind.
func definitions(t *testing.T) map[string]map[string]any {
	t.Helper()
	source := chart.Source{Folder: *charts, AnyVersion: true, Offline: true}
	out := map[string]map[string]any{}
	for _, s := range samples(t) {
		if s.name != "metallb" && s.name != "cert-manager" {
			continue
		}
		manifest, err := source.Render(t.Context(), *s.part.Release, capabilities)
		require.NoError(t, err)
		objects, err := kube.Decode(manifest)
		require.NoError(t, err)
		for _, o := range objects {
			crd := o.(*unstructured.Unstructured).Object
			if crd["kind"] != "CustomResourceDefinition" {
				continue
			}
			for _, v := range dig(crd, "spec", "versions").([]any) {
				key := fmt.Sprintf("%s/%s %s", dig(crd, "spec", "group"), dig(v, "name"), dig(crd, "spec", "names", "kind"))
				out[key], _ = dig(v, "schema", "openAPIV3Schema").(map[string]any)
			}
		}
	}
	return out
}

func dig(v any, path ...string) any {
	for _, key := range path {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

// strangers are the paths of v of which the schema says nothing.
func strangers(v, schema any, at string) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		properties, named := dig(schema, "properties").(map[string]any)
		for key, below := range v {
			switch {
			case named && properties[key] != nil:
				out = append(out, strangers(below, properties[key], at+"."+key)...)
			case dig(schema, "additionalProperties") != nil:
				out = append(out, strangers(below, dig(schema, "additionalProperties"), at+"."+key)...)
			case dig(schema, "x-kubernetes-preserve-unknown-fields") != true:
				out = append(out, at+"."+key)
			}
		}
	case []any:
		for i, below := range v {
			out = append(out, strangers(below, dig(schema, "items"), fmt.Sprintf("%s[%d]", at, i))...)
		}
	}
	return out
}

func fits(t *testing.T, schema map[string]any, object any) error {
	t.Helper()
	read := func(v any) any {
		b, err := json.Marshal(v)
		require.NoError(t, err)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		require.NoError(t, err)
		return doc
	}
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("crd.json", read(schema)))
	compiled, err := c.Compile("crd.json")
	require.NoError(t, err)
	return compiled.Validate(read(object))
}
