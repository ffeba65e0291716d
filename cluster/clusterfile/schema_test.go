package clusterfile

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

const schemaID = "https://github.com/cps-gpu/homelab/cluster/clusterfile/schema.json"

// TestSchema holds schema.json against the sections.
func TestSchema(t *testing.T) {
	root := reflect.TypeFor[spec.Spec]()
	s := sectionSchema(root)
	defs := map[string]any{}
	for _, section := range sections(root) {
		if section != root {
			defs[decode.Name(section)] = sectionSchema(section)
		}
	}
	s["$defs"], s["$id"], s["title"] = defs, schemaID, "cluster.yaml"
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetIndent("", "  ")
	require.NoError(t, e.Encode(s))
	if *update {
		require.NoError(t, os.WriteFile("schema.json", buf.Bytes(), 0o644))
	}
	want, err := os.ReadFile("schema.json")
	require.NoError(t, err)
	assert.Equal(t, string(want), buf.String(), "run go test ./cluster/clusterfile -run TestSchema -update")
}

// object is a part of a JSON Schema.
type object = map[string]any

// sections lists a section and those in it.
func sections(root reflect.Type) []reflect.Type {
	var out []reflect.Type
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		switch {
		case t.Kind() == reflect.Pointer, t.Kind() == reflect.Slice:
			walk(t.Elem())
		case decode.IsSection(t) && !slices.Contains(out, t):
			out = append(out, t)
			for _, f := range decode.Fields(t) {
				walk(f.Type)
			}
		}
	}
	walk(root)
	return out
}

// sectionSchema is the schema of a section. Every key may be null, which unsets what is inherited.
func sectionSchema(t reflect.Type) object {
	properties, required := object{}, []any{}
	for _, f := range decode.Fields(t) {
		choices := []any{valueSchema(f), object{"type": "null"}}
		properties[f.Name] = object{"description": description(f), "anyOf": append(choices, short(f)...)}
		if f.Required != "" {
			required = append(required, f.Name)
		}
	}
	s := object{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// short are the values that may be written in place of a section.
func short(f decode.Field) []any {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var out []any
	if !decode.IsSection(t) {
		return nil
	}
	for _, k := range []struct {
		kind   yamlnode.Kind
		schema object
	}{
		{yamlnode.Bool, object{"type": "boolean"}}, {yamlnode.Text, object{"type": "string"}},
		{yamlnode.Number, object{"type": "number", "minimum": 0}},
	} {
		if _, ok := decode.Short(t, k.kind); ok {
			out = append(out, k.schema)
		}
	}
	return out
}

// valueSchema is the schema of a key's value.
func valueSchema(f decode.Field) object {
	of := func(t reflect.Type) object {
		if decode.IsSection(t) {
			return object{"$ref": "#/$defs/" + decode.Name(t)}
		}
		return typeSchema(t)
	}
	t := f.Type
	switch {
	case f.Name == "token" && t.Kind() == reflect.String:
		return text(tokenID, "homelab@pve!cluster")
	case f.Single:
		return typeSchema(reflect.TypeFor[netip.Addr]())
	case t.Kind() == reflect.Pointer:
		t = t.Elem()
	}
	if f.Named {
		item := t.Elem()
		named := decode.Field{Type: item}
		return object{"type": "object", "additionalProperties": object{"anyOf": append([]any{of(item), object{"type": "null"}}, short(named)...)}}
	}
	s := of(t)
	if t.Kind() == reflect.Slice && s == nil {
		items := of(t.Elem())
		addEnum(items, f)
		return object{"type": "array", "items": items}
	}
	addEnum(s, f)
	for name, bound := range map[string]string{"minimum": f.Min, "maximum": f.Max} {
		if bound != "" {
			s[name] = json.Number(bound)
		}
	}
	return s
}

func addEnum(s object, f decode.Field) {
	if len(f.Enum) > 0 {
		s["enum"] = f.Enum
	}
}

// text is the schema of a value with a syntax of its own.
func text(pattern, example string) object {
	return object{"type": "string", "pattern": pattern, "examples": []any{example}}
}

// typeSchema is the schema of a type that is not a section; nil is a list of others.
func typeSchema(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[spec.Size]():
		return text(`^([0-9]+)(?:\.([0-9]{1,3}))? ?([KMGT])(?:i?B)?$`, "16GiB")
	case reflect.TypeFor[netip.Addr]():
		return text(`^[0-9a-fA-F.:]+$`, "10.0.0.11")
	case reflect.TypeFor[netip.Prefix]():
		return text(`^[0-9a-fA-F.:]+/[0-9]{1,3}$`, "10.0.0.0/24")
	case reflect.TypeFor[spec.Ranges]():
		one := `^[0-9a-fA-F.:]+/[0-9]{1,3}`
		return object{"oneOf": []any{text(one+`( *, *[0-9a-fA-F.:]+/[0-9]{1,3})?$`, "10.42.0.0/16"), object{"type": "array", "maxItems": 2, "items": text(one+`$`, "10.42.0.0/16")}}}
	case reflect.TypeFor[spec.MAC]():
		return text(`^[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}$`, "02:1f:88:0a:9e:31")
	case reflect.TypeFor[spec.PCIAddress]():
		return text(`^([0-9a-fA-F]{1,4}:)?[0-9a-fA-F]{1,2}:[0-9a-fA-F]{1,2}(\.[0-7])?$`, "0000:01:00.0")
	case reflect.TypeFor[spec.Taint]():
		return text(`^[^:=]+(=[^:=]*)?:(NoSchedule|PreferNoSchedule|NoExecute)$`, "dedicated=gpu:NoSchedule")
	case reflect.TypeFor[spec.SecretRef]():
		return text(`^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$`, "env:PROXMOX_TOKEN_SECRET")
	case reflect.TypeFor[spec.AddressRange]():
		return text(`^[0-9a-fA-F.:]+( *- *[0-9a-fA-F.:]+)?$`, "10.0.0.11-10.0.0.13")
	case reflect.TypeFor[spec.VMIDRange]():
		return object{"oneOf": []any{
			object{"type": "integer", "minimum": 100, "maximum": 999999999}, text(`^[0-9]{3,9}( *- *[0-9]{3,9})?$`, "201-204"),
		}}
	case reflect.TypeFor[spec.Startup]():
		return text(`^(order|up|down)=[0-9]+(,(order|up|down)=[0-9]+)*$`, "order=1,up=30,down=120")
	case reflect.TypeFor[spec.FileMode]():
		return object{"oneOf": []any{object{"type": "integer"}, text(`^(0o)?[0-7]{3,4}$`, "0644")}}
	case reflect.TypeFor[spec.Switch]():
		return object{"type": "boolean"}
	case reflect.TypeFor[decode.Period](), reflect.TypeFor[time.Duration]():
		return text(decode.PeriodSyntax.String(), "15d")
	case reflect.TypeFor[spec.ASN]():
		return object{"type": "integer", "minimum": 1, "maximum": 1<<32 - 1}
	case reflect.TypeFor[spec.Cores]():
		return object{"oneOf": []any{object{"type": "number", "minimum": 0}, text(`^[0-9]+m$`, "500m")}}
	case reflect.TypeFor[spec.AddressPool]():
		return text(`^[0-9a-fA-F.:]+( *- *[0-9a-fA-F.:]+|/[0-9]{1,3})?$`, "10.0.0.200-10.0.0.219")
	case reflect.TypeFor[map[string]string]():
		scalar := object{"oneOf": []any{object{"type": "string"}, object{"type": "number"}, object{"type": "boolean"}, object{"type": "null"}}}
		return object{"type": "object", "additionalProperties": scalar}
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int:
		return object{"type": "integer"}
	case reflect.Slice:
		return nil
	case reflect.Map:
		s := object{"type": "object"}
		if t.Elem().Kind() != reflect.Interface {
			s["additionalProperties"] = typeSchema(t.Elem())
		}
		return s
	default:
		return object{"type": "string"}
	}
}

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
	c := decode.NewChecker(file)
	root := decode.ReadTree(c, data)
	require.NotNil(t, root, "%v", c.Err())
	data, err = json.Marshal(decode.Plain(root))
	require.NoError(t, err)
	doc, err := validator.UnmarshalJSON(bytes.NewReader(data))
	require.NoError(t, err)
	return doc
}

// TestSchemaAccepts: whatever loads is valid for the schema too.
func TestSchemaAccepts(t *testing.T) {
	s := compiled(t)
	for _, file := range goodFiles(t) {
		_, err := Load(file, platform.Check)
		require.NoError(t, err)
		assert.NoError(t, s.Validate(asJSON(t, file)), file)
	}
}

// TestSchemaRequires: a good file without a key that the schema requires does not load.
func TestSchemaRequires(t *testing.T) {
	s, without := compiled(t), 0
	for _, file := range goodFiles(t) {
		doc := asJSON(t, file)
		loads := func() error {
			text, err := json.Marshal(doc)
			require.NoError(t, err)
			_, err = Parse(file, text, platform.Check)
			return err
		}
		require.NoError(t, loads())
		var walk func(v any)
		walk = func(v any) {
			section, _ := v.(map[string]any)
			for key, inner := range section {
				delete(section, key)
				if s.Validate(doc) != nil {
					without++
					assert.Error(t, loads(), "%s without %s of %v", file, key, section)
				}
				section[key] = inner
				walk(inner)
			}
			list, _ := v.([]any)
			for _, inner := range list {
				walk(inner)
			}
		}
		walk(doc)
	}
	assert.NotZero(t, without)
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
