package fleet

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
		s.kind, s.fields = lintMap, map[string]*lintSchema{}
		m.structOf(t, s.fields)
	}
	return s
}

// structOf adds the fields of a struct; those of embedded ones without a name are its own.
func (m lintSchemas) structOf(t reflect.Type, into map[string]*lintSchema) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && (name == "" || strings.Contains(opts, "inline")) {
			e := f.Type
			if e.Kind() == reflect.Pointer {
				e = e.Elem()
			}
			m.structOf(e, into)
			continue
		}
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		if into[name] == nil || !f.Anonymous {
			into[name] = m.of(f.Type)
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

func (w *lintWalk) walk(n *lintNode, s *lintSchema, path string) {
	if n == nil || n.kind == lintNull || s == nil || s.kind == lintNull {
		return
	}
	if !w.fits(n, s) {
		w.out = append(w.out, lintMisfit{what: misfitType, at: n.at, path: path, want: s, have: n})
		return
	}
	if s.kind == lintText && w.loose && n.plain && lossy(n.text) {
		w.out = append(w.out, lintMisfit{what: misfitLossy, at: n.at, path: path, have: n})
	}
	for i, item := range n.items {
		w.walk(item, s.elem, path+"["+strconv.Itoa(i)+"]")
	}
	for _, f := range n.fields {
		sub := s.elem
		if s.fields != nil {
			if sub = w.field(f, s, path); sub == nil {
				continue
			}
		}
		w.walk(f.value, sub, join(path, f.name))
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

// fits: numbers and booleans become text where text is wanted (sigs.k8s.io/yaml
// convertToJSONableObject).
func (w *lintWalk) fits(n *lintNode, s *lintSchema) bool {
	return n.kind == s.kind || w.loose && s.kind == lintText && (n.kind == lintNumber || n.kind == lintBool)
}

var lintNotText = regexp.MustCompile(`^(?i:[-+.]?[0-9].*|y|n|yes|no|on|off|true|false)$`)

// lossy says that a scalar without quotes is another text after Fleet has read it:
// 1.10 is 1.1, 010 is 8, yes is true.
func lossy(text string) bool {
	if !lintNotText.MatchString(text) {
		return false
	}
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
