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
)

func keysOf[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func nearest(name string, known []string) string { return suggest.Nearest(name, known) }

// lintSchema is what a Go type lets JSON say.
type lintSchema struct {
	kind   lintKind // lintNull: anything
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
		s.kind = lintText
		return s
	}
	switch t.Kind() {
	case reflect.String:
		s.kind = lintText
	case reflect.Bool:
		s.kind = lintBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		s.kind = lintNumber
	case reflect.Map:
		s.kind, s.elem = lintMap, m.of(t.Elem())
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			s.kind, s.bytes = lintText, true
			break
		}
		s.kind, s.elem = lintList, m.of(t.Elem())
	case reflect.Struct:
		s.kind, s.fields, s.promoted = lintMap, map[string]*lintSchema{}, map[string]bool{}
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
	at   lintPos
	path string
	name string      // of the key
	near string      // what was probably meant
	want *lintSchema // for the wrong type
	have *lintNode
	kind lintKind // of have, for the parser
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
func (w *lintWalk) walk(n *lintNode, s *lintSchema, path string, coerce bool) {
	if n == nil || n.kind == lintNull || s == nil || s.kind == lintNull {
		return
	}
	switch kind := n.realKind(); {
	case kind == s.kind:
	case coerce && s.kind == lintText && (kind == lintNumber || kind == lintBool):
		if lossy(n.text) {
			w.out = append(w.out, lintMisfit{what: misfitLossy, at: n.at, path: path, have: n})
		}
	default:
		w.out = append(w.out, lintMisfit{what: misfitType, at: n.at, path: path, want: s, have: n, kind: kind})
		return
	}
	for i, item := range n.items {
		w.walk(item, s.elem, path+"["+strconv.Itoa(i)+"]", coerce)
	}
	for _, f := range n.fields {
		sub, known := s.elem, coerce
		if s.fields != nil {
			if sub = w.field(f, s, path); sub == nil {
				continue
			}
			known = coerce && !s.promoted[f.name]
		}
		w.walk(f.value, sub, join(path, f.name), known)
	}
}

func (w *lintWalk) field(f lintField, s *lintSchema, path string) *lintSchema {
	if sub, ok := s.fields[f.name]; ok {
		return sub
	}
	known := keysOf(s.fields)
	if w.loose {
		for _, k := range known {
			if strings.EqualFold(k, f.name) {
				w.out = append(w.out, lintMisfit{what: misfitCase, at: f.at, path: path, name: f.name, near: k})
				return s.fields[k]
			}
		}
	}
	w.out = append(w.out, lintMisfit{what: misfitUnknown, at: f.at, path: path, name: f.name, near: nearest(f.name, known)})
	return nil
}

var lintNotText = regexp.MustCompile(`^(?i:[-+.]?[0-9].*|y|n|yes|no|on|off|true|false)$`)

// realKind is the kind that a scalar has for the parser that Fleet uses: YAML 1.1,
// where yes is a truth value.
func (n *lintNode) realKind() lintKind {
	if !n.plain || !lintNotText.MatchString(n.text) {
		return n.kind
	}
	var v any
	if yaml.Unmarshal([]byte(n.text), &v) != nil {
		return n.kind
	}
	switch v.(type) {
	case bool:
		return lintBool
	case float64:
		return lintNumber
	}
	return lintText
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
