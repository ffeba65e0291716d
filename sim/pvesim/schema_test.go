package pvesim

import (
	"bytes"
	"encoding/json"
	"flag"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/facts"
)

var update = flag.Bool("update", false, "write schema.json and golden files again")

// The dump of Proxmox's own API schema that schema.json is reduced from, among the full
// sources.
const fullSchema = "pve9-api.json"

// keptFields are the fields of a property that say what it may be; the rest of
// the dump is documentation.
func keptFields() []string {
	return []string{"type", "optional", "minimum", "maximum", "minLength", "maxLength", "pattern",
		"enum", "format", "default_key", "alias", "keyAlias", "requires", "items", "type-property", "instance-types", "oneOf"}
}

// TestSchemaIsProxmoxs holds the embedded schema against the dump it was made
// from, where that is at hand; that it has all that is served here, always.
func TestSchemaIsProxmoxs(t *testing.T) {
	text := facts.Load(t, "internal/schema/schema.json", *update, func(full fs.FS) ([]byte, error) {
		raw, err := fs.ReadFile(full, fullSchema)
		if err != nil {
			return nil, err
		}
		return reduce(t, raw), nil
	})
	var kept struct{ Methods map[string]json.RawMessage }
	require.NoError(t, json.Unmarshal(text, &kept))
	for name := range handlers() {
		assert.Contains(t, kept.Methods, name, "Proxmox has no such method")
	}
}

// dumped is what the dump says of one method.
type dumped struct {
	AllowToken  int
	Permissions map[string]any
	Parameters  struct {
		AdditionalProperties any
		Properties           map[string]any
		AllOf                []struct {
			Properties map[string]any
			OneOf      []struct {
				InstanceType string `json:"instance-type"`
				Properties   map[string]any
			}
			TypeProperty       string         `json:"type-property"`
			TypePropertySchema map[string]any `json:"type-property-schema"`
		}
	}
}

// variants takes parameters apart that depend on one of them, the type.
func (d *dumped) variants(used map[string]bool) map[string]any {
	if d.Parameters.Properties == nil {
		d.Parameters.Properties = map[string]any{}
	}
	var out map[string]any
	for _, part := range d.Parameters.AllOf {
		maps.Copy(d.Parameters.Properties, part.Properties)
		if part.OneOf == nil {
			continue
		}
		d.Parameters.Properties[part.TypeProperty] = part.TypePropertySchema
		out = map[string]any{}
		for _, one := range part.OneOf {
			out[one.InstanceType] = slimAll(one.Properties, used)
		}
	}
	return out
}

func reduce(t *testing.T, raw []byte) []byte {
	var full struct {
		Formats map[string]struct {
			Kind       string
			Properties map[string]any
		}
		Paths map[string]map[string]dumped
	}
	require.NoError(t, json.Unmarshal(raw, &full))
	named := map[string]dumped{}
	for path, verbs := range full.Paths {
		for verb, m := range verbs {
			named[verb+" "+path] = m
		}
	}
	used := map[string]bool{}
	methods := map[string]any{}
	variants := map[string]map[string]int{} // property name -> its JSON -> how often
	for name, m := range named {
		props, byType := map[string]any{}, m.variants(used)
		for k, v := range m.Parameters.Properties {
			props[k] = slim(v, used)
			text := mustJSON(t, props[k])
			if variants[k] == nil {
				variants[k] = map[string]int{}
			}
			variants[k][text]++
		}
		entry := map[string]any{"parameters": props}
		if byType != nil {
			entry["variants"] = byType
		}
		if m.Permissions != nil {
			delete(m.Permissions, "description")
			entry["permissions"] = m.Permissions
		}
		if m.AllowToken == 0 {
			entry["noToken"] = true
		}
		if m.Parameters.AdditionalProperties != 0.0 && m.Parameters.AllOf == nil {
			entry["open"] = true
		}
		methods[name] = entry
	}
	shared := hoist(t, methods, variants)
	formats := map[string]any{}
	// A format may name further formats.
	for again := true; again; {
		again = false
		for name := range used {
			f, known := full.Formats[name]
			if _, done := formats[name]; done || !known || f.Kind != "property-string" {
				continue
			}
			formats[name] = slimAll(f.Properties, used)
			again = true
		}
	}
	return indented(t, map[string]any{"formats": formats, "methods": methods, "shared": shared})
}

func indented(t *testing.T, v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(v))
	return b.Bytes()
}

// hoist moves properties that several methods have in common into one table and
// leaves their names behind.
func hoist(t *testing.T, methods map[string]any, variants map[string]map[string]int) map[string]any {
	shared := map[string]any{}
	for _, m := range methods {
		m := m.(map[string]any)
		var names []string
		props := m["parameters"].(map[string]any)
		for k, v := range props {
			best, n := "", 1
			for text, count := range variants[k] {
				if count > n || count == n && n > 1 && text < best {
					best, n = text, count
				}
			}
			if mustJSON(t, v) == best {
				shared[k] = v
				names = append(names, k)
				delete(props, k)
			}
		}
		slices.Sort(names)
		m["shared"] = strings.Join(names, " ")
	}
	return shared
}

var perlGroup = regexp.MustCompile(`\(\?\^u?(i?):`)

func slim(v any, used map[string]bool) any {
	in, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for _, f := range keptFields() {
		x, ok := in[f]
		if !ok || x == nil {
			continue
		}
		switch {
		case f == "format":
			if name, isName := x.(string); isName {
				used[strings.TrimSuffix(name, "-list")] = true
				used[name] = true
			} else {
				x = slimAll(x.(map[string]any), used)
			}
		case f == "items":
			x = slim(x, used)
		case in["oneOf"] == nil && f == "type-property" || f == "instance-types" && in["type-property"] != nil:
			continue // a property that is taken for any type, and means something for one
		case f == "oneOf":
			var all []any
			for _, one := range x.([]any) {
				all = append(all, slim(one, used))
			}
			x = all
		case f == "pattern":
			x = perlGroup.ReplaceAllString(x.(string), "(?$1:")
		case f == "optional" && x == 0.0:
			continue
		case f == "minimum" || f == "maximum":
			if s, isText := x.(string); isText {
				x = json.Number(s)
			}
		}
		out[f] = x
	}
	return out
}

func slimAll(in map[string]any, used map[string]bool) map[string]any {
	out := map[string]any{}
	for k, v := range in {
		out[k] = slim(v, used)
	}
	return out
}

func mustJSON(t *testing.T, v any) string {
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

// TestOneRoomAnswersForAMethod: of two that did, one would never be asked.
func TestOneRoomAnswersForAMethod(t *testing.T) {
	var all int
	for _, room := range rooms() {
		all += len(room)
	}
	assert.Len(t, handlers(), all)
}
