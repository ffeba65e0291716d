package clusterfile

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/written"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

const schemaID = "https://github.com/cps-gpu/homelab/cluster/clusterfile/schema.json"

// TestSchema holds schema.json against the sections.
func TestSchema(t *testing.T) {
	inner := &jsonschema.Reflector{
		FieldNameTag: "yaml", Anonymous: true, RequiredFromJSONSchemaTags: true,
		Namer: func(t reflect.Type) string { return t.Name() },
	}
	inner.Mapper = schemaOf(inner)
	outer := *inner
	outer.ExpandedStruct = true // the file itself stands at the top, not in a definition
	s := outer.Reflect(&written.File{})
	s.ID, s.Title = schemaID, "cluster.yaml"
	got, err := json.MarshalIndent(unsettable(t, s), "", "  ")
	require.NoError(t, err)
	got = append(got, '\n')
	if *update {
		require.NoError(t, os.WriteFile("schema.json", got, 0o644))
	}
	want, err := os.ReadFile("schema.json")
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "run go test ./cluster/clusterfile -run TestSchema -update")
}

// text is the schema of a value with a syntax of its own.
func text(pattern, example string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: pattern, Examples: []any{example}}
}

// schemaOf says what the types look like that are not plain Go.
func schemaOf(r *jsonschema.Reflector) func(reflect.Type) *jsonschema.Schema {
	inner := func(t reflect.Type) *jsonschema.Schema {
		s := r.ReflectFromType(t)
		s.Version, s.ID = "", ""
		return s
	}
	return func(t reflect.Type) *jsonschema.Schema {
		switch t {
		case reflect.TypeFor[spec.Size]():
			return text(`^([0-9]+)(?:\.([0-9]{1,3}))? ?([KMGT])(?:i?B)?$`, "16GiB")
		case reflect.TypeFor[netip.Addr]():
			return text(`^[0-9a-fA-F.:]+$`, "10.0.0.11")
		case reflect.TypeFor[netip.Prefix]():
			return text(`^[0-9a-fA-F.:]+/[0-9]{1,3}$`, "10.0.0.0/24")
		case reflect.TypeFor[spec.MAC]():
			return text(`^[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}$`, "02:1f:88:0a:9e:31")
		case reflect.TypeFor[spec.PCIAddress]():
			return text(`^([0-9a-fA-F]{1,4}:)?[0-9a-fA-F]{1,2}:[0-9a-fA-F]{1,2}(\.[0-7])?$`, "0000:01:00.0")
		case reflect.TypeFor[spec.Taint]():
			return text(`^[^:=]+(=[^:=]*)?:(NoSchedule|PreferNoSchedule|NoExecute)$`, "dedicated=gpu:NoSchedule")
		case reflect.TypeFor[spec.SecretRef]():
			return text(`^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$`, "env:PROXMOX_TOKEN_SECRET")
		case reflect.TypeFor[written.TokenID]():
			return text(written.TokenSyntax.String(), "homelab@pve!cluster")
		case reflect.TypeFor[written.AddressRange]():
			return text(`^[0-9a-fA-F.:]+( *- *[0-9a-fA-F.:]+)?$`, "10.0.0.11-10.0.0.13")
		case reflect.TypeFor[written.VMIDRange]():
			return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
				{Type: "integer", Minimum: "100", Maximum: "999999999"}, text(`^[0-9]{3,9}( *- *[0-9]{3,9})?$`, "201-204"),
			}}
		case reflect.TypeFor[written.BootOrder]():
			return text(`^(order|up|down)=[0-9]+(,(order|up|down)=[0-9]+)*$`, "order=1,up=30,down=120")
		case reflect.TypeFor[written.FileMode]():
			return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "integer"}, text(`^(0o)?[0-7]{3,4}$`, "0644")}}
		case reflect.TypeFor[written.Period]():
			return text(written.PeriodSyntax.String(), "15d")
		case reflect.TypeFor[written.Cores]():
			return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "number", Minimum: "0"}, text(`^[0-9]+m$`, "500m")}}
		case reflect.TypeFor[written.AddressPool]():
			return text(`^[0-9a-fA-F.:]+( *- *[0-9a-fA-F.:]+|/[0-9]{1,3})?$`, "10.0.0.200-10.0.0.219")
		case reflect.TypeFor[map[string]string]():
			scalar := &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "string"}, {Type: "number"}, {Type: "boolean"}, {Type: "null"}}}
			return &jsonschema.Schema{Type: "object", AdditionalProperties: scalar}
		}
		if t.Implements(reflect.TypeFor[written.Ordered]()) {
			return &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{
				AnyOf: []*jsonschema.Schema{inner(t.Elem().Field(1).Type.Elem()), {Type: "null"}},
			}}
		}
		return nil
	}
}

// unsettable lets every optional key also be null, which unsets what is inherited,
// and adds the short forms. It lifts the definitions of nested types to the top.
func unsettable(t *testing.T, s *jsonschema.Schema) map[string]any {
	b, err := json.Marshal(s)
	require.NoError(t, err)
	var tree map[string]any
	require.NoError(t, json.Unmarshal(b, &tree))
	defs := map[string]any{}
	lift(tree, defs)
	for _, d := range append([]any{tree}, values(defs)...) {
		allowNull(d.(map[string]any))
	}
	tree["$defs"] = defs
	allowShort(tree)
	return tree
}

// short are the sections that may also be written as one value.
func short() map[string]written.ShortForm {
	out := map[string]written.ShortForm{}
	for _, f := range []written.ShortForm{
		written.Image{}, written.GPUs{}, written.NFS{}, written.Share{}, written.Scratch{}, written.Longhorn{}, written.LoadBalancer{}, written.Ingress{}, written.TLS{}, written.Rancher{}, written.Fleet{}, written.Monitoring{},
		written.Hub{}, written.HubDatabase{}, written.HubAuth{}, written.AuthDummy{}, written.AuthNative{}, written.CPU{}, written.Memory{}, written.HubHome{}, written.HubShare{}, written.HubScratch{}, written.HubCull{},
	} {
		out["#/$defs/"+reflect.TypeOf(f).Name()] = f
	}
	return out
}

// allowShort adds the short forms beside each reference to a type that has some.
func allowShort(v any) {
	forms := short()
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			allowShort(x)
		}
		choices, _ := v["anyOf"].([]any)
		for _, c := range choices {
			form, ok := forms[asString(c.(map[string]any)["$ref"])]
			if !ok {
				continue
			}
			for _, k := range []struct {
				kind   yamlnode.Kind
				schema map[string]any
			}{
				{yamlnode.Bool, map[string]any{"type": "boolean"}}, {yamlnode.Text, map[string]any{"type": "string"}},
				{yamlnode.Number, map[string]any{"type": "number", "minimum": 0}},
			} {
				if _, ok := form.Keys(k.kind); ok {
					choices = append(choices, k.schema)
				}
			}
			v["anyOf"] = choices
		}
	case []any:
		for _, x := range v {
			allowShort(x)
		}
	}
}

func values(m map[string]any) []any {
	var out []any
	for _, name := range sortedNames(m) {
		out = append(out, m[name])
	}
	return out
}

func lift(v any, defs map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		if nested, ok := v["$defs"].(map[string]any); ok {
			delete(v, "$defs")
			for name, d := range nested {
				defs[name] = d
			}
			lift(nested, defs)
		}
		for _, x := range v {
			lift(x, defs)
		}
	case []any:
		for _, x := range v {
			lift(x, defs)
		}
	}
}

func allowNull(object map[string]any) {
	properties, _ := object["properties"].(map[string]any)
	for name, p := range properties {
		property := p.(map[string]any)
		description := property["description"]
		delete(property, "description")
		choices := []any{property, map[string]any{"type": "null"}}
		properties[name] = map[string]any{"description": description, "anyOf": choices}
	}
}

func asString(v any) string { s, _ := v.(string); return s }

// goodFiles are files that load: the examples, and what testdata/good tries.
func goodFiles(t *testing.T) []string {
	examples, err := filepath.Glob("../../examples/*/cluster.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(examples), 3)
	good, err := filepath.Glob("testdata/good/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, good)
	return append(examples, good...)
}

func compiled(t *testing.T) *validator.Schema {
	doc, err := validator.UnmarshalJSON(bytes.NewReader(Schema()))
	require.NoError(t, err)
	c := validator.NewCompiler()
	require.NoError(t, c.AddResource(schemaID, doc))
	s, err := c.Compile(schemaID)
	require.NoError(t, err)
	return s
}

func asJSON(t *testing.T, file string) any {
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	c := written.NewChecker(file)
	root := written.ReadTree(c, data)
	require.NotNil(t, root, "%v", c.Err())
	data, err = json.Marshal(written.Plain(root))
	require.NoError(t, err)
	doc, err := validator.UnmarshalJSON(bytes.NewReader(data))
	require.NoError(t, err)
	return doc
}

// TestSchemaAccepts: whatever loads is valid for the schema too.
func TestSchemaAccepts(t *testing.T) {
	s := compiled(t)
	for _, file := range goodFiles(t) {
		_, err := Load(file)
		require.NoError(t, err)
		assert.NoError(t, s.Validate(asJSON(t, file)), file)
	}
}

// TestSchemaRefuses: the schema sees the mistakes that need no more than one value.
func TestSchemaRefuses(t *testing.T) {
	s := compiled(t)
	for _, name := range []string{
		"unknown-key", "unknown-key-habit", "list-for-mapping", "text-for-list", "quoted-number", "text-for-bool", "fraction",
		"size-garbage", "secret-inline", "secret-in-token", "taint-effect", "gpu-bad-address", "bad-role", "disable-unknown", "no-name",
		"platform-longhorn", "platform-hub-typos", "platform-rancher-password-inline", "platform-number-for-part", "platform-monitoring-retention-unit",
	} {
		assert.Error(t, s.Validate(asJSON(t, "testdata/broken/"+name+".yaml")), name)
	}
}
