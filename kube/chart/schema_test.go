package chart_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/kube/chart"
)

// TestWhatSchemasRefuse: in words, by the path of the value, and without the value.
func TestWhatSchemasRefuse(t *testing.T) {
	const choice = `oneOf: [{type: object, required: [host], properties: {host: {type: string}}}, {type: string, enum: [none, auto]}]`
	for _, c := range []struct{ schema, values, want string }{
		{`{properties: {a: {type: [string, integer]}}}`, `{a: []}`, "a: must be integer or string, and is array"},
		{`{properties: {a: {enum: [x, "", 5, null]}}}`, `{a: z}`, `a: must be one of x, "", 5, null`},
		{`{properties: {a: {const: x}}}`, `{a: z}`, "a: must be x"},
		{`{properties: {a: {const: 5}}}`, `{a: z}`, "a: must be 5"},
		{`{required: [a, b]}`, `{}`, "lacks a, b"},
		{`{properties: {x: {required: [a]}}}`, `{x: {}}`, "x: lacks a"},
		{`{$schema: "http://json-schema.org/draft-07/schema#", dependencies: {a: [b, c]}}`, `{a: 1}`, "with a it needs b, c"},
		{`{dependentRequired: {a: [b, c]}}`, `{a: 1}`, "with a it needs b, c"},
		{`{properties: {a: false}}`, `{a: 1}`, "a: is not allowed here"},
		{`{properties: {a: {not: {type: string}}}}`, `{a: z}`, "a: is not allowed here"},
		{`{propertyNames: {pattern: "^a"}}`, `{b: 1}`, `key "b" does not match "^a"`},
		{`{properties: {x: {propertyNames: {maxLength: 2}}}}`, `{x: {b: 1, long: 1}}`, `x: key "long" must have 2 characters or less`},
		{`{properties: {a: {contains: {type: string}, maxContains: 1}}}`, `{a: [b, c]}`, "a: breaks the schema's rule maxContains"},
		{`{$schema: "http://json-schema.org/draft-07/schema#", properties: {a: {format: ipv4}}}`, `{a: b}`, "a: must be written as ipv4"},
		{`{properties: {a: {uniqueItems: true}}}`, `{a: [1, 2, 1]}`, "a: entries 0 and 2 are the same"},
		{`{properties: {a: {pattern: "^a"}}}`, `{a: b}`, `a: does not match "^a"`},
		{`{properties: {a: {minLength: 3}}}`, `{a: bb}`, "a: must have 3 characters or more"},
		{`{properties: {a: {maxLength: 3}}}`, `{a: bbbb}`, "a: must have 3 characters or less"},
		{`{properties: {a: {minItems: 2}}}`, `{a: [1]}`, "a: must have 2 entries or more, and has 1"},
		{`{properties: {a: {maxItems: 1}}}`, `{a: [1, 2]}`, "a: must have 1 entries or less, and has 2"},
		{`{properties: {a: {minProperties: 2}}}`, `{a: {b: 1}}`, "a: must have 2 keys or more, and has 1"},
		{`{properties: {a: {maxProperties: 1}}}`, `{a: {b: 1, c: 2}}`, "a: must have 1 keys or less, and has 2"},
		{`{properties: {a: {minimum: 1.5}}}`, `{a: 1}`, "a: must be 3/2 or more"},
		{`{properties: {a: {maximum: 1}}}`, `{a: 2}`, "a: must be 1 or less"},
		{`{properties: {a: {exclusiveMinimum: 1}}}`, `{a: 1}`, "a: must be more than 1"},
		{`{properties: {a: {exclusiveMaximum: 1}}}`, `{a: 1}`, "a: must be less than 1"},
		{`{properties: {a: {multipleOf: 2}}}`, `{a: 3}`, "a: must be a multiple of 2"},
		{`{properties: {a: {contains: {const: 1}}}}`, `{a: [2]}`, "a[0]: must be 1"},
		{`{additionalProperties: false, properties: {a: {}}}`, `{b: 1, c: 2}`, "b: is not a key that the chart knows | c: is not a key that the chart knows"},
		{`{properties: {a: {additionalProperties: false}}}`, `{a: {"b.c": 1}}`, `a["b.c"]: is not a key that the chart knows`},
		{`{properties: {a: {items: {type: string}}}}`, `{a: [x, 1]}`, "a[1]: must be string, and is number"},
		{`{properties: {a: {properties: {b: {type: string}}}}}`, `{a: {b: 1}}`, "a.b: must be string, and is number"},
		{`{properties: {a: {` + choice + `}}}`, `{a: {}}`, "a: lacks host"},
		{`{properties: {a: {` + choice + `}}}`, `{a: {host: 1}}`, "a.host: must be string, and is number"},
		{`{properties: {a: {` + choice + `}}}`, `{a: never}`, "a: must be one of none, auto"},
		{`{properties: {a: {` + choice + `}}}`, `{a: 5}`, "a: must be object, and is number, or must be string, and is number"},
		{`{properties: {a: {anyOf: [{type: string, minLength: 2}, {type: string, pattern: "^x"}, {type: "null"}]}}}`, `{a: z}`,
			`a: does not match "^x", or must be null, and is string, or must have 2 characters or more`},
		{`{properties: {a: {anyOf: [{minLength: 2}, {minLength: 2}]}}}`, `{a: z}`, "a: must have 2 characters or more"},
		{`{properties: {a: {oneOf: [{type: string}, {minLength: 1}]}}}`, `{a: z}`, "a: fits several of the forms that exclude each other"},
		{`{properties: {a: {$ref: "https://example.com/other.json"}}}`, `{a: z}`, ""},
		{`{properties: {a: {$ref: "#/$defs/x"}}, $defs: {x: {type: integer}}}`, `{a: z}`, "a: must be integer, and is string"},
		{`{properties: {a: {type: string}}}`, `{a: z}`, ""},
	} {
		schema, err := yaml.YAMLToJSON([]byte(c.schema))
		require.NoError(t, err, c.schema)
		var m map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(c.values), &m))
		found, err := chart.SchemaProblems(schema, m)
		require.NoError(t, err, c.schema)
		var got []string
		for _, p := range found {
			got = append(got, p.String())
		}
		assert.Equal(t, c.want, strings.Join(got, " | "), "%s: %s", c.schema, c.values)
		if c.want == "" {
			continue
		}
		inside, err := chart.SchemaProblems(schema, m, "sub", "chart")
		require.NoError(t, err)
		for _, p := range inside {
			assert.True(t, strings.HasPrefix(p.Path, "sub.chart"), p.Path)
		}
		assert.Len(t, inside, len(found))
	}
	_, err := chart.SchemaProblems([]byte("{}"), map[string]any{"f": func() {}})
	require.ErrorContains(t, err, "values: json: unsupported type")
	for want, schema := range map[string]string{"unexpected EOF": "{", "not-a-regex(": `{"properties":{"a":{"pattern":"not-a-regex("}}}`, "file:///values.schema.json": `{"type": 5}`} {
		_, err := chart.SchemaProblems([]byte(schema), map[string]any{})
		assert.ErrorContains(t, err, want)
	}
}

func TestNormal(t *testing.T) {
	got, err := chart.Normalize(map[string]any{"n": 5, "l": []string{"x"}, "m": map[string]bool{"b": true}})
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"n": 5.0, "l": []any{"x"}, "m": map[string]any{"b": true}}, got)
	for _, none := range []map[string]any{nil, {}} {
		got, err = chart.Normalize(none)
		require.NoError(t, err)
		assert.Equal(t, map[string]any{}, got)
	}
	_, err = chart.Normalize(map[string]any{"f": func() {}})
	require.ErrorContains(t, err, "values: json: unsupported type")
}

func TestDotted(t *testing.T) {
	for want, path := range map[string][]string{"": nil, "a": {"a"}, "a.b[0].c": {"a", "b", "0", "c"}, `["x.y"].a`: {"x.y", "a"}, `a["x.y"]`: {"a", "x.y"}, "[0].a": {"0", "a"}} {
		assert.Equal(t, want, chart.DottedPath(path))
	}
}
