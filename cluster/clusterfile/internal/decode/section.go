package decode

import (
	"encoding"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// A section is a struct whose fields have tags:
//
//	yaml     the key; with ",inline" the keys of a struct stand among those of its outer one; with
//	         ",named" the items of a list are written by their names, each the field Name, in a
//	         mapping; with ",single" a network is written as one address; "-" is a field that is no key: it follows from others
//	doc      what the key does, as docs/cluster-yaml.md and editors show it; ‘x’ is x as it is written
//	default  what an absent key stands for, or an empty text
//	absent   the same in words, where it depends on something
//	enum     choices of a text, or of the items of a list
//	without  the keys that an inlined struct does not bring
//	required the key must be there, for schema.json
//	min, max bounds of a number, for schema.json
//	short    the kind of value that may be written in place of the section and is then this key's:
//	         text, number, size (both) or bool; on a field _, switch: true stands for all defaults,
//	         and false for none of the section

// Field is one key of a section.
type Field struct {
	Name                                     string
	Doc, Default, Absent, Required, Min, Max string
	Enum                                     []string
	Named, Single                            bool
	Type                                     reflect.Type

	index []int
}

// Fields lists the keys of a section in their order, those of an inlined type included.
func Fields(t reflect.Type) []Field {
	var out []Field
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case option == "inline":
			without := strings.Split(f.Tag.Get("without"), ",")
			for _, in := range Fields(f.Type) {
				if slices.Contains(without, in.Name) {
					continue
				}
				in.index = append([]int{i}, in.index...)
				out = append(out, in)
			}
		case name != "" && name != "-":
			tag := f.Tag.Get
			out = append(out, Field{
				Name: name, Doc: tag("doc"), Default: tag("default"), Absent: tag("absent"), Required: tag("required"), Min: tag("min"), Max: tag("max"),
				Enum: strings.FieldsFunc(tag("enum"), func(r rune) bool { return r == ',' }), Named: option == "named", Single: option == "single", Type: f.Type, index: []int{i},
			})
		}
	}
	return out
}

// FieldAt returns the place of a key of a section, such as storage.nfs: the value itself if it is a pointer,
// the first item of a list, else a pointer to the field. It is nil if there is no such key.
func FieldAt(section any, path string) any {
	key, rest, below := strings.Cut(path, ".")
	v := reflect.ValueOf(section).Elem()
	for _, f := range Fields(v.Type()) {
		if f.Name != key {
			continue
		}
		at := v.FieldByIndex(f.index)
		switch {
		case at.Kind() == reflect.Slice && at.Len() > 0:
			at = at.Index(0).Addr()
		case at.Kind() != reflect.Pointer:
			at = at.Addr()
		}
		if below {
			return FieldAt(at.Interface(), rest)
		}
		return at.Interface()
	}
	return nil
}

// FieldPlace returns a pointer to the field of a key of a section.
func FieldPlace(section any, key string) any {
	v := reflect.ValueOf(section).Elem()
	for _, f := range Fields(v.Type()) {
		if f.Name == key {
			return v.FieldByIndex(f.index).Addr().Interface()
		}
	}
	return nil
}

// Keys lists the keys that a section knows, in their order.
func Keys(t reflect.Type) []string {
	var keys []string
	for _, f := range Fields(t) {
		keys = append(keys, f.Name)
	}
	return keys
}

// IsSection reports whether t has keys of its own: a struct with tags that no text is decoded into.
func IsSection(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) && len(Fields(t)) > 0
}

// shortKinds are the kinds of values that a tag short names.
var shortKinds = map[string][]yamlnode.Kind{
	"text": {yamlnode.Text}, "number": {yamlnode.Number}, "bool": {yamlnode.Bool}, "switch": {yamlnode.Bool},
	"size": {yamlnode.Text, yamlnode.Number}, // a number without its unit is reported by the key's own type
}

// Short returns the keys that a single value stands for, in place of a whole section; none if it
// is a switch.
func Short(t reflect.Type, k yamlnode.Kind) (keys []string, ok bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		if short := f.Tag.Get("short"); slices.Contains(shortKinds[short], k) {
			ok = true
			if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); name != "" {
				keys = append(keys, name)
			}
		}
	}
	return keys, ok
}

// unfold turns the short form of a section into its mapping.
func unfold(t *yamlnode.Node, section reflect.Type) *yamlnode.Node {
	if !t.Scalar() || t.Kind == yamlnode.Null {
		return t
	}
	keys, ok := Short(section, t.Kind)
	if !ok || len(keys) == 0 && !strings.EqualFold(t.Text, "true") {
		return t
	}
	out := &yamlnode.Node{Kind: yamlnode.Map, At: t.At}
	for _, k := range keys {
		out.Fields = append(out.Fields, yamlnode.Field{Name: k, At: t.At, Value: t})
	}
	return out
}

// switchedOff reports whether t is false where the section may be written as true.
func switchedOff(t *yamlnode.Node, section reflect.Type) bool {
	if t.Kind != yamlnode.Bool || section.Kind() != reflect.Struct {
		return false
	}
	keys, ok := Short(section, t.Kind)
	return ok && len(keys) == 0 && strings.EqualFold(t.Text, "false")
}

// preset fills in what an absent key stands for.
func preset(v reflect.Value, f Field) {
	if f.Default == "" || !v.IsZero() {
		return
	}
	var err error
	switch to := v.Addr().Interface().(type) {
	case *string:
		*to = f.Default
	case *[]string:
		*to = strings.Split(f.Default, ",")
	case *int:
		err = parseInt(to, f.Default)
	case *time.Duration:
		*to, err = ParsePeriod(f.Default)
	case encoding.TextUnmarshaler:
		err = to.UnmarshalText([]byte(f.Default))
	default:
		v.SetString(f.Default)
	}
	if err != nil {
		panic("decode: the default of " + f.Name + ": " + err.Error())
	}
}

// names are sections whose Go type is called otherwise than their definition in schema.json.
func names() map[reflect.Type]string {
	return map[reflect.Type]string{
		reflect.TypeFor[spec.LabGuests]():  "Lab",
		reflect.TypeFor[spec.Access]():     "SSH",
		reflect.TypeFor[spec.File]():       "GuestFile",
		reflect.TypeFor[spec.GPURequest](): "GPUs",
		reflect.TypeFor[spec.DummyAuth]():  "AuthDummy",
		reflect.TypeFor[spec.NativeAuth](): "AuthNative",
		reflect.TypeFor[spec.OIDCAuth]():   "AuthOIDC",
		reflect.TypeFor[spec.LDAPAuth]():   "AuthLDAP",
		reflect.TypeFor[spec.GitHubAuth](): "AuthGitHub",
	}
}

// Name is a section's name in schema.json.
func Name(t reflect.Type) string {
	if name, ok := names()[t]; ok {
		return name
	}
	return t.Name()
}
