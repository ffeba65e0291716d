package chart

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Problem is one mistake in the values.
type Problem struct {
	Path string // in the values, e.g. "hub.db.type"; empty: the values as a whole
	Text string // what is wrong, without the value, which may be a secret
}

// String returns e.g. "hub.db.type: must be one of sqlite-pvc, mysql, other".
func (p Problem) String() string {
	if p.Path == "" {
		return p.Text
	}
	return p.Path + ": " + p.Text
}

// Normalize returns values as Helm reads them from YAML: only mappings, lists, strings, booleans
// and float64, whatever Go types they were built from.
func Normalize(values map[string]any) (map[string]any, error) {
	out := map[string]any{}
	if len(values) == 0 {
		return out, nil
	}
	b, err := json.Marshal(values)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	return out, nil
}

// schemaURL is the base of references inside a chart's schema.
const schemaURL = "file:///values.schema.json"

// permissiveLoader resolves references to other files and servers to a schema that accepts
// everything: the check must not depend on the network.
type permissiveLoader struct{}

func (permissiveLoader) Load(string) (any, error) { return true, nil }

// SchemaProblems checks values, with the chart's own in them, against the chart's
// values.schema.json; their paths begin with path. An error means that the schema cannot be used.
func SchemaProblems(schema []byte, values map[string]any, path ...string) ([]Problem, error) {
	values, err := Normalize(values)
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(permissiveLoader{})
	if err := compiler.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	compiled, err := compiler.Compile(schemaURL)
	if err != nil {
		return nil, err
	}
	err = compiled.Validate(values)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return nil, err // usually there is none
	}
	found := map[Problem]bool{}
	leafErrors(invalid, path, found)
	return slices.SortedFunc(maps.Keys(found), func(a, b Problem) int {
		return strings.Compare(a.String(), b.String())
	}), nil
}

// leafErrors collects the errors at the leaves of the validator's tree.
func leafErrors(e *jsonschema.ValidationError, path []string, found map[Problem]bool) {
	at := DottedPath(slices.Concat(path, e.InstanceLocation))
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		if one, ok := onlyChoice(e); ok {
			leafErrors(one, path, found)
			return
		}
		found[Problem{at, choices(e)}] = true
		return
	case *kind.AdditionalProperties:
		for _, p := range k.Properties {
			found[Problem{DottedPath(slices.Concat(path, e.InstanceLocation, []string{p})), "is not a key that the chart knows"}] = true
		}
		return
	case *kind.PropertyNames:
		found[Problem{at, fmt.Sprintf("key %q %s", k.Property, choices(e))}] = true
		return
	}
	if len(e.Causes) == 0 {
		found[Problem{at, text(e.ErrorKind)}] = true
	}
	for _, c := range e.Causes {
		leafErrors(c, path, found)
	}
}

// onlyChoice returns the choice that the value is meant to be: the only one whose type fits.
func onlyChoice(e *jsonschema.ValidationError) (*jsonschema.ValidationError, bool) {
	var fits []*jsonschema.ValidationError
	for _, c := range e.Causes {
		if !wrongType(c, len(e.InstanceLocation)) {
			fits = append(fits, c)
		}
	}
	if len(fits) != 1 {
		return nil, false
	}
	return fits[0], true
}

// wrongType reports whether a choice already fails because of the value's own type.
func wrongType(e *jsonschema.ValidationError, depth int) bool {
	if _, ok := e.ErrorKind.(*kind.Type); ok {
		return len(e.InstanceLocation) == depth
	}
	return slices.ContainsFunc(e.Causes, func(c *jsonschema.ValidationError) bool { return wrongType(c, depth) })
}

// choices describes the choices if none fits.
func choices(e *jsonschema.ValidationError) string {
	if k, ok := e.ErrorKind.(*kind.OneOf); ok && len(k.Subschemas) > 0 {
		return "fits several of the forms that exclude each other"
	}
	var ways []string
	for _, c := range e.Causes {
		inner := map[Problem]bool{}
		leafErrors(c, nil, inner)
		for p := range inner {
			ways = append(ways, strings.TrimPrefix(p.String(), DottedPath(e.InstanceLocation)+": "))
		}
	}
	slices.Sort(ways)
	return strings.Join(slices.Compact(ways), ", or ")
}

// text says what is wrong without the value: the library's own text contains it.
func text(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("must be %s, and is %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Enum:
		return "must be one of " + list(k.Want)
	case *kind.Const:
		return "must be " + list([]any{k.Want})
	case *kind.Format:
		return "must be written as " + k.Want
	case *kind.Required:
		return "lacks " + strings.Join(k.Missing, ", ")
	case *kind.Dependency:
		return fmt.Sprintf("with %s it needs %s", k.Prop, strings.Join(k.Missing, ", "))
	case *kind.DependentRequired:
		return fmt.Sprintf("with %s it needs %s", k.Prop, strings.Join(k.Missing, ", "))
	case *kind.FalseSchema, *kind.Not:
		return "is not allowed here"
	case *kind.UniqueItems:
		return fmt.Sprintf("entries %d and %d are the same", k.Duplicates[0], k.Duplicates[1])
	}
	return amount(k)
}

func amount(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Pattern:
		return "does not match " + strconv.Quote(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("must have %d characters or more", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("must have %d characters or less", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("must have %d entries or more, and has %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have %d entries or less, and has %d", k.Want, k.Got)
	case *kind.MinProperties:
		return fmt.Sprintf("must have %d keys or more, and has %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have %d keys or less, and has %d", k.Want, k.Got)
	case *kind.Minimum:
		return "must be " + k.Want.RatString() + " or more"
	case *kind.Maximum:
		return "must be " + k.Want.RatString() + " or less"
	case *kind.ExclusiveMinimum:
		return "must be more than " + k.Want.RatString()
	case *kind.ExclusiveMaximum:
		return "must be less than " + k.Want.RatString()
	case *kind.MultipleOf:
		return "must be a multiple of " + k.Want.RatString()
	}
	return "breaks the schema's rule " + strings.Join(k.KeywordPath(), "/")
}

func list(values []any) string {
	out := make([]string, len(values))
	for i, v := range values {
		if s, ok := v.(string); ok && s != "" {
			out[i] = s
			continue
		}
		b, _ := json.Marshal(v)
		out[i] = string(b)
	}
	return strings.Join(out, ", ")
}

// DottedPath writes a path as a.b[0].c, with keys that have dots in brackets.
func DottedPath(path []string) string {
	var b strings.Builder
	for _, p := range path {
		_, err := strconv.Atoi(p)
		switch {
		case err == nil:
			b.WriteString("[" + p + "]")
		case strings.Contains(p, "."):
			b.WriteString(`["` + p + `"]`)
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(p)
		}
	}
	return b.String()
}
