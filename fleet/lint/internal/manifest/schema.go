package manifest

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

// Schema is the schema of a Go type in JSON.
type Schema struct {
	Kind   yamlnode.Kind // yamlnode.Null: anything
	Fields map[string]*Schema
	elem   *Schema // of lists, and of mappings with free keys

	Promoted map[string]bool // fields that belong to an embedded struct
}

// Schemas caches schemas of types, which contain themselves and each other.
type Schemas map[reflect.Type]*Schema

// SchemaOf returns the schema of a type as encoding/json reads it.
func (m Schemas) SchemaOf(t reflect.Type) *Schema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s, ok := m[t]; ok {
		return s
	}
	s := &Schema{}
	m[t] = s
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return s // decodes itself: durations, quantities, values
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		s.Kind = yamlnode.Text
		return s
	}
	switch t.Kind() {
	case reflect.String:
		s.Kind = yamlnode.Text
	case reflect.Bool:
		s.Kind = yamlnode.Bool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		s.Kind = yamlnode.Number
	case reflect.Map:
		s.Kind, s.elem = yamlnode.Map, m.SchemaOf(t.Elem())
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			s.Kind = yamlnode.Text
			break
		}
		s.Kind, s.elem = yamlnode.List, m.SchemaOf(t.Elem())
	case reflect.Struct:
		s.Kind, s.Fields, s.Promoted = yamlnode.Map, map[string]*Schema{}, map[string]bool{}
		m.structOf(t, s, false)
	}
	return s
}

// structOf adds the fields of a struct; those of embedded ones without a name are its own.
func (m Schemas) structOf(t reflect.Type, into *Schema, promoted bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && (name == "" || strings.Contains(opts, "inline")) {
			m.structOf(f.Type, into, true)
			continue
		}
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		if into.Fields[name] == nil || !promoted { // the outer one wins
			into.Fields[name], into.Promoted[name] = m.SchemaOf(f.Type), promoted
		}
	}
}

// Misfit is a place where a document does not match a schema.
type Misfit struct {
	What MisfitKind
	At   yamlnode.Pos
	Path string
	Name string  // of the key
	Near string  // what was probably meant
	Want *Schema // for the wrong type
	Have *yamlnode.Node
	Kind yamlnode.Kind // of have, for the parser
}

type MisfitKind int

const (
	Unknown MisfitKind = iota
	WrongCase
	WrongType
	LosesText
)

// Walk compares a document with a schema. loose says that case does not matter, as in
// encoding/json.
type Walk struct {
	Loose bool
	Out   []Misfit
}

// Walk compares. If the parser knows that text is wanted, it converts numbers and truth values
// to text; sigs.k8s.io/yaml does not for fields of embedded structs, which are most of
// fleet.yaml (convertToJSONableObject uses only the first of a field's indexes).
func (w *Walk) Walk(n *yamlnode.Node, s *Schema, path string, coerce bool) {
	if n == nil || n.Kind == yamlnode.Null || s == nil || s.Kind == yamlnode.Null {
		return
	}
	switch kind := realKind(n); {
	case kind == s.Kind:
	case coerce && s.Kind == yamlnode.Text && (kind == yamlnode.Number || kind == yamlnode.Bool):
		if lossy(n.Text) {
			w.Out = append(w.Out, Misfit{What: LosesText, At: n.At, Path: path, Have: n})
		}
	default:
		w.Out = append(w.Out, Misfit{What: WrongType, At: n.At, Path: path, Want: s, Have: n, Kind: kind})
		return
	}
	for i, item := range n.Items {
		w.Walk(item, s.elem, path+"["+strconv.Itoa(i)+"]", coerce)
	}
	for _, f := range n.Fields {
		sub, known := s.elem, coerce
		if s.Fields != nil {
			if sub = w.field(f, s, path); sub == nil {
				continue
			}
			known = coerce && !s.Promoted[f.Name]
		}
		w.Walk(f.Value, sub, Join(path, f.Name), known)
	}
}

func (w *Walk) field(f yamlnode.Field, s *Schema, path string) *Schema {
	if sub, ok := s.Fields[f.Name]; ok {
		return sub
	}
	known := slices.Sorted(maps.Keys(s.Fields))
	if w.Loose {
		for _, k := range known {
			if strings.EqualFold(k, f.Name) {
				w.Out = append(w.Out, Misfit{What: WrongCase, At: f.At, Path: path, Name: f.Name, Near: k})
				return s.Fields[k]
			}
		}
	}
	w.Out = append(w.Out, Misfit{What: Unknown, At: f.At, Path: path, Name: f.Name, Near: suggest.Nearest(f.Name, known)})
	return nil
}

var notText = regexp.MustCompile(`^(?i:[-+.]?[0-9].*|y|n|yes|no|on|off|true|false)$`)

// realKind is the kind of a scalar in Fleet's parser: YAML 1.1, where yes is a truth value.
func realKind(n *yamlnode.Node) yamlnode.Kind {
	if !n.Plain || !notText.MatchString(n.Text) {
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

// lossy says that Fleet reads a scalar without quotes as another text: 1.10 is 1.1, 010 is 8,
// yes is true.
func lossy(text string) bool {
	var v struct{ V string }
	return yaml.Unmarshal([]byte("v: "+text), &v) == nil && v.V != text
}

// LossyAs is the text that Fleet reads.
func LossyAs(text string) string {
	var v struct{ V string }
	_ = yaml.Unmarshal([]byte("v: "+text), &v)
	return v.V
}

func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
