package lint

import (
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/internal/suggest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

func keysOf[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func nearest(name string, known []string) string { return suggest.Nearest(name, known) }

// lintSchema is what a Go type lets JSON say.
type lintSchema struct {
	kind   yamlnode.Kind // yamlnode.Null: anything
	fields map[string]*lintSchema
	elem   *lintSchema // of lists, and of mappings with free keys
	bytes  bool        // base64

	promoted map[string]bool // fields that belong to an embedded struct
}

// lintSchemas remembers schemas of types: they contain themselves and each other.
type lintSchemas map[reflect.Type]*lintSchema

// of makes the schema of a type as encoding/json reads it.
func (m lintSchemas) of(t reflect.Type) *lintSchema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s, ok := m[t]; ok {
		return s
	}
	s := &lintSchema{}
	m[t] = s
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return s // reads itself: durations, quantities, values
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		s.kind = yamlnode.Text
		return s
	}
	switch t.Kind() {
	case reflect.String:
		s.kind = yamlnode.Text
	case reflect.Bool:
		s.kind = yamlnode.Bool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		s.kind = yamlnode.Number
	case reflect.Map:
		s.kind, s.elem = yamlnode.Map, m.of(t.Elem())
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			s.kind, s.bytes = yamlnode.Text, true
			break
		}
		s.kind, s.elem = yamlnode.List, m.of(t.Elem())
	case reflect.Struct:
		s.kind, s.fields, s.promoted = yamlnode.Map, map[string]*lintSchema{}, map[string]bool{}
		m.structOf(t, s, false)
	}
	return s
}

// structOf adds the fields of a struct; those of embedded ones without a name are its own.
func (m lintSchemas) structOf(t reflect.Type, into *lintSchema, promoted bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && (name == "" || strings.Contains(opts, "inline")) {
			e := f.Type
			if e.Kind() == reflect.Pointer {
				e = e.Elem()
			}
			m.structOf(e, into, true)
			continue
		}
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		if into.fields[name] == nil || !promoted { // the outer one wins
			into.fields[name], into.promoted[name] = m.of(f.Type), promoted
		}
	}
}

// lintMisfit is a place where a document is not what a schema says.
type lintMisfit struct {
	what lintMisfitKind
	at   yamlnode.Pos
	path string
	name string      // of the key
	near string      // what was probably meant
	want *lintSchema // for the wrong type
	have *yamlnode.Node
	kind yamlnode.Kind // of have, for the parser
}

type lintMisfitKind int

const (
	misfitUnknown lintMisfitKind = iota
	misfitCase
	misfitType
	misfitLossy
)

// lintWalk compares a document with a schema. Where letters' case does not matter
// (encoding/json), loose is true.
type lintWalk struct {
	loose bool
	out   []lintMisfit
}

// walk compares. Where the parser knows that text is wanted, it makes text of numbers
// and truth values; sigs.k8s.io/yaml loses sight of that in fields of embedded
// structs, which most of fleet.yaml is (convertToJSONableObject looks at the first of
// a field's indexes only).
func (w *lintWalk) walk(n *yamlnode.Node, s *lintSchema, path string, coerce bool) {
	if n == nil || n.Kind == yamlnode.Null || s == nil || s.kind == yamlnode.Null {
		return
	}
	switch kind := realKind(n); {
	case kind == s.kind:
	case coerce && s.kind == yamlnode.Text && (kind == yamlnode.Number || kind == yamlnode.Bool):
		if lossy(n.Text) {
			w.out = append(w.out, lintMisfit{what: misfitLossy, at: n.At, path: path, have: n})
		}
	default:
		w.out = append(w.out, lintMisfit{what: misfitType, at: n.At, path: path, want: s, have: n, kind: kind})
		return
	}
	for i, item := range n.Items {
		w.walk(item, s.elem, path+"["+strconv.Itoa(i)+"]", coerce)
	}
	for _, f := range n.Fields {
		sub, known := s.elem, coerce
		if s.fields != nil {
			if sub = w.field(f, s, path); sub == nil {
				continue
			}
			known = coerce && !s.promoted[f.Name]
		}
		w.walk(f.Value, sub, join(path, f.Name), known)
	}
}

func (w *lintWalk) field(f yamlnode.Field, s *lintSchema, path string) *lintSchema {
	if sub, ok := s.fields[f.Name]; ok {
		return sub
	}
	known := keysOf(s.fields)
	if w.loose {
		for _, k := range known {
			if strings.EqualFold(k, f.Name) {
				w.out = append(w.out, lintMisfit{what: misfitCase, at: f.At, path: path, name: f.Name, near: k})
				return s.fields[k]
			}
		}
	}
	w.out = append(w.out, lintMisfit{what: misfitUnknown, at: f.At, path: path, name: f.Name, near: nearest(f.Name, known)})
	return nil
}

var lintNotText = regexp.MustCompile(`^(?i:[-+.]?[0-9].*|y|n|yes|no|on|off|true|false)$`)

// realKind is the kind that a scalar has for the parser that Fleet uses: YAML 1.1,
// where yes is a truth value.
func realKind(n *yamlnode.Node) yamlnode.Kind {
	if !n.Plain || !lintNotText.MatchString(n.Text) {
		return n.Kind
	}
	var v any
	if yaml.Unmarshal([]byte(n.Text), &v) != nil {
		return n.Kind
	}
	switch v.(type) {
	case bool:
		return yamlnode.Bool
	case float64:
		return yamlnode.Number
	}
	return yamlnode.Text
}

// lossy says that a scalar without quotes is another text after Fleet has read it:
// 1.10 is 1.1, 010 is 8, yes is true.
func lossy(text string) bool {
	var v struct{ V string }
	return yaml.Unmarshal([]byte("v: "+text), &v) == nil && v.V != text
}

// lossyAs is what Fleet makes of it.
func lossyAs(text string) string {
	var v struct{ V string }
	_ = yaml.Unmarshal([]byte("v: "+text), &v)
	return v.V
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
