package addon_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/sim/facts"
)

// definedBy are the files of the definitions of kinds that charts bring, by kind.
func definedBy() map[string]string {
	return map[string]string{
		"IPAddressPool": "metallb.io_ipaddresspools.yaml", "L2Advertisement": "metallb.io_l2advertisements.yaml",
		"BGPAdvertisement": "metallb.io_bgpadvertisements.yaml", "BGPPeer": "metallb.io_bgppeers.yaml",
		"ResourceFlavor": "kueue.x-k8s.io_resourceflavors.yaml", "ClusterQueue": "kueue.x-k8s.io_clusterqueues.yaml", "LocalQueue": "kueue.x-k8s.io_localqueues.yaml",
		"ClusterIssuer": "cert-manager.io_clusterissuers.yaml", "Certificate": "cert-manager.io_certificates.yaml",
		"Cluster": "postgresql.cnpg.io_clusters.yaml", "ScheduledBackup": "postgresql.cnpg.io_scheduledbackups.yaml", "ObjectStore": "barmancloud.cnpg.io_objectstores.yaml",
	}
}

// Objects of kinds that charts bring have the fields that the definitions know, with
// values that they take.
func TestObjectsFitTheirDefinitions(t *testing.T) {
	ours := map[string][]any{} // by kind
	where := map[string][]string{}
	for _, s := range samples(t) {
		for _, o := range s.part.After {
			if u, ok := o.(*unstructured.Unstructured); ok && definedBy()[u.GetKind()] != "" {
				ours[u.GetKind()] = append(ours[u.GetKind()], u.Object)
				where[u.GetKind()] = append(where[u.GetKind()], s.name)
			}
		}
	}
	schemas := definitions(t, ours)
	for kind := range definedBy() {
		require.NotEmpty(t, ours[kind], kind)
		for i, o := range ours[kind] {
			schema, ok := schemas[dig(o, "apiVersion").(string)+" "+kind].(map[string]any)
			require.True(t, ok, "%s: %s of %s", where[kind][i], kind, dig(o, "apiVersion"))
			text, err := json.Marshal(schema)
			require.NoError(t, err)
			assert.Empty(t, strangers(dig(o, "spec"), dig(schema, "properties", "spec"), "spec"), "%s: %s", where[kind][i], kind)
			assert.NoError(t, facts.Fits(t, text)(o), "%s: %s", where[kind][i], kind)
		}
	}
}

// definitions are what is kept of the schemas, by version and kind: the names of all
// fields, and what may be in those that we set.
func definitions(t *testing.T, ours map[string][]any) map[string]any {
	t.Helper()
	text := facts.Load(t, filepath.Join("testdata", "facts", "definitions.json"), *update, func(full fs.FS) ([]byte, error) {
		out := map[string]any{}
		for kind, file := range definedBy() {
			raw, err := fs.ReadFile(full, "crds/"+file)
			if err != nil {
				return nil, err
			}
			var crd map[string]any
			if err := yaml.Unmarshal(raw, &crd); err != nil {
				return nil, err
			}
			for _, v := range dig(crd, "spec", "versions").([]any) {
				key := fmt.Sprintf("%s/%s %s", dig(crd, "spec", "group"), dig(v, "name"), kind)
				schema, _ := dig(v, "schema", "openAPIV3Schema").(map[string]any)
				out[key] = pruned(schema, ours[kind])
			}
		}
		text, err := json.MarshalIndent(out, "", " ")
		return append(text, '\n'), err
	})
	var out map[string]any
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}

// pruned is a schema without words, and without what is below the fields that none of
// the values has.
func pruned(schema map[string]any, values []any) map[string]any {
	out := map[string]any{}
	for key, v := range schema {
		switch key {
		case "type", "enum", "format", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "required",
			"x-kubernetes-preserve-unknown-fields":
			out[key] = v
		case "additionalProperties":
			if below, ok := v.(map[string]any); ok {
				v = pruned(below, nil)
			}
			out[key] = v
		case "items":
			var all []any
			for _, list := range values {
				entries, _ := list.([]any)
				all = append(all, entries...)
			}
			out[key] = pruned(v.(map[string]any), all)
		case "properties":
			names := map[string]any{}
			for name, below := range v.(map[string]any) {
				var all []any
				for _, value := range values {
					if one := dig(value, name); one != nil {
						all = append(all, one)
					}
				}
				names[name] = map[string]any{}
				if len(all) > 0 {
					names[name] = pruned(below.(map[string]any), all)
				}
			}
			out[key] = names
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
