package facts

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Fits returns a check of documents against a JSON schema.
func Fits(t testing.TB, schema []byte) func(doc any) error {
	t.Helper()
	read, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", read); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return func(doc any) error {
		text, err := json.Marshal(doc)
		if err != nil {
			return err
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return err
		}
		return compiled.Validate(v)
	}
}

// FitsValues is Fits for the values of a chart: a null removes a default, and Helm removes it
// before it checks the schema.
func FitsValues(t testing.TB, schema []byte) func(values map[string]any) error {
	t.Helper()
	fits := Fits(t, schema)
	return func(values map[string]any) error { return fits(withoutNulls(values)) }
}

func withoutNulls(values map[string]any) map[string]any {
	out := map[string]any{}
	for key, v := range values {
		if below, ok := v.(map[string]any); ok {
			v = withoutNulls(below)
		}
		if v != nil {
			out[key] = v
		}
	}
	return out
}
