package conform

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"io/fs"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/facts"
)

var update = flag.Bool("update", false, "rewrite the embedded facts")

// The dump of Proxmox's own API schema that api.json.gz is reduced from, among the full
// sources.
const fullSchema = "pve9-api.json"

// TestAPIIsProxmoxs compares the embedded API with the dump it was made from, where that is at
// hand.
func TestAPIIsProxmoxs(t *testing.T) {
	facts.Compare(t, "api.json.gz", *update, func(full fs.FS) ([]byte, error) {
		raw, err := fs.ReadFile(full, fullSchema)
		if err != nil {
			return nil, err
		}
		return packed(t, reduced(t, raw)), nil
	})
	var kept api
	require.NoError(t, unpack(apiJSON, func(r io.Reader) error { return json.NewDecoder(r).Decode(&kept) }))
	assert.Greater(t, len(kept.Methods), 600, "Proxmox VE 9 has more than that")
}

func packed(t *testing.T, data []byte) []byte {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	require.NoError(t, err)
	_, err = z.Write(data)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

func reduced(t *testing.T, raw []byte) []byte {
	var full struct {
		Paths map[string]map[string]struct {
			AllowToken  int
			Permissions map[string]any
			Parameters  struct{ Properties map[string]any }
			Returns     map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(raw, &full))
	out := api{Methods: map[string]apiMethod{}}
	for path, methods := range full.Paths {
		for verb, m := range methods {
			one := apiMethod{Parameters: map[string]json.RawMessage{}, NoToken: m.AllowToken == 0}
			for k, v := range m.Parameters.Properties {
				one.Parameters[k] = encoded(t, slim(v))
			}
			if m.Permissions != nil {
				delete(m.Permissions, "description")
				one.Permissions = encoded(t, m.Permissions)
			}
			one.Returns = shapeOf(m.Returns)
			out.Methods[verb+" "+path] = one
		}
	}
	return encoded(t, out)
}

// shapeOf keeps of what a method returns the keys.
func shapeOf(returns map[string]any) *shape {
	s := &shape{Keys: map[string]bool{}}
	if returns["type"] == "array" {
		s.List = true
		returns, _ = returns["items"].(map[string]any)
	}
	properties, _ := returns["properties"].(map[string]any)
	if len(properties) == 0 {
		return nil
	}
	s.Open = returns["additionalProperties"] == 1.0
	for k, p := range properties {
		p, _ := p.(map[string]any)
		s.Keys[k] = p["optional"] == nil || p["optional"] == 0.0
	}
	return s
}

func encoded(t *testing.T, v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(v))
	return bytes.TrimSpace(b.Bytes())
}

var perlGroup = regexp.MustCompile(`\(\?\^u?(i?):`)

// slim keeps of a parameter what says what it may be; the rest is documentation.
func slim(v any) any {
	in, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for _, f := range []string{"type", "optional", "minimum", "maximum", "minLength", "maxLength", "pattern",
		"enum", "format", "default_key", "alias", "keyAlias", "requires", "items", "type-property", "oneOf"} {
		x, ok := in[f]
		if !ok || x == nil || f == "optional" && x == 0.0 || f == "type-property" && in["oneOf"] == nil {
			continue
		}
		switch keys, isMap := x.(map[string]any); {
		case f == "format" && isMap:
			all := map[string]any{}
			for k, p := range keys {
				all[k] = slim(p)
			}
			x = all
		case f == "items":
			x = slim(x)
		case f == "oneOf":
			x = variants(x)
		case f == "pattern":
			x = perlGroup.ReplaceAllString(x.(string), "(?$1:")
		case f == "minimum" || f == "maximum":
			if s, isText := x.(string); isText {
				x = json.Number(s)
			}
		}
		out[f] = x
	}
	return out
}

// variants are a parameter as it is for each type of what it depends on.
func variants(v any) (out []any) {
	all, _ := v.([]any)
	for _, one := range all {
		in, _ := one.(map[string]any)
		kept, _ := slim(one).(map[string]any)
		kept["instance-types"] = in["instance-types"]
		out = append(out, kept)
	}
	return out
}
