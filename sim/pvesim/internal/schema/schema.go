package schema

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/request"
)

// schemaJSON is Proxmox's API schema reduced to what decides who may call a method
// and whether a parameter is accepted, of methods without code here (see handlers)
// too. A test makes it from the full dump.
//
//go:embed schema.json
var schemaJSON []byte

// Property says what one parameter, or one key of a property string, may be.
type Property struct {
	Type       string              `json:"type"`
	Optional   json.RawMessage     `json:"optional"`
	Minimum    *float64            `json:"minimum"`
	Maximum    *float64            `json:"maximum"`
	MinLength  int                 `json:"minLength"`
	MaxLength  int                 `json:"maxLength"`
	Pattern    string              `json:"pattern"`
	Enum       []string            `json:"enum"`
	Format     propertyFormat      `json:"format"`
	DefaultKey int                 `json:"default_key"`
	Alias      string              `json:"alias"`
	KeyAlias   string              `json:"keyAlias"`
	Requires   string              `json:"requires"`
	Items      *Property           `json:"items"`
	By         string              `json:"type-property"` // the parameter on which OneOf depends
	OneOf      []*Property         `json:"oneOf"`
	Instances  []string            `json:"instance-types"` // of By, for which one of OneOf is
	matches    func(s string) bool // the compiled Pattern
}

// propertyFormat is a format by name, or a property string's keys in place.
type propertyFormat struct {
	Name string
	Keys map[string]*Property
}

func (f *propertyFormat) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &f.Name)
	}
	return json.Unmarshal(b, &f.Keys)
}

// Method is what the schema says about one method of the API.
type Method struct {
	Permissions map[string]any       `json:"permissions"`
	NoToken     bool                 `json:"noToken"`
	Parameters  map[string]*Property `json:"parameters"`
	// Variants are parameters that depend on the parameter type, by what that is.
	Variants map[string]map[string]*Property `json:"variants"`
	Shared   string                          `json:"shared"`
	Open     bool                            `json:"open"` // other parameters are taken, too, and dropped
	Name     string
}

// Schema is the whole.
type Schema struct {
	Formats map[string]map[string]*Property `json:"formats"`
	Methods map[string]*Method              `json:"methods"`
	Shared  map[string]*Property            `json:"shared"`
}

// Text is the embedded schema as it is written.
func Text() []byte { return schemaJSON }

// Load parses the embedded schema once; every Sim reads the same.
var Load = sync.OnceValue(func() *Schema {
	s := &Schema{}
	if err := json.Unmarshal(schemaJSON, s); err != nil {
		panic("pvesim: embedded schema: " + err.Error())
	}
	for key, m := range s.Methods {
		m.Name = key
		for name := range strings.FieldsSeq(m.Shared) {
			m.Parameters[name] = s.Shared[name]
		}
		expand(m.Parameters)
		for _, p := range m.Parameters {
			s.prepare(p)
		}
		for _, variant := range m.Variants {
			for _, p := range variant {
				s.prepare(p)
			}
		}
	}
	for _, keys := range s.Formats {
		for _, p := range keys {
			s.prepare(p)
		}
	}
	return s
})

// Numbered holds the highest index of each property that the schema writes as name[n].
var Numbered = map[string]int{
	"hostpci": 15, "ide": 3, "ipconfig": 31, "net": 31, "numa": 7, "parallel": 2, "sata": 5,
	"scsi": 30, "serial": 3, "unused": 255, "usb": 13, "virtio": 15, "virtiofs": 9,
}

func expand(props map[string]*Property) {
	for _, name := range slices.Collect(maps.Keys(props)) {
		base, isNumbered := strings.CutSuffix(name, "[n]")
		if !isNumbered {
			continue
		}
		for i := range Numbered[base] + 1 {
			props[base+strconv.Itoa(i)] = props[name]
		}
		delete(props, name)
	}
}

// longRepeat is a repetition longer than package regexp counts.
var longRepeat = regexp.MustCompile(`\{0,\d{4,}\}`)

// prepare compiles patterns and puts formats that are property strings in place.
func (s *Schema) prepare(p *Property) {
	if p == nil || p.matches != nil {
		return
	}
	p.matches = func(string) bool { return true }
	if p.Pattern != "" {
		p.matches = regexp.MustCompile("^(?:" + strings.ReplaceAll(longRepeat.ReplaceAllString(p.Pattern, "*"), "{,", "{0,") + ")$").MatchString
	}
	if keys, ok := s.Formats[p.Format.Name]; ok {
		p.Format.Keys = keys
	}
	for _, k := range p.Format.Keys {
		s.prepare(k)
	}
	s.prepare(p.Items)
	for _, one := range p.OneOf {
		s.prepare(one)
	}
}

// ForKind is the property as it is for a type, where it depends on one (PVE/JSONSchema.pm,
// check_prop).
func (p *Property) ForKind(kind string) *Property {
	for _, one := range p.OneOf {
		if slices.Contains(one.Instances, kind) {
			return one
		}
	}
	if p.OneOf == nil {
		return p
	}
	return &Property{Optional: json.RawMessage("1")}
}

func (p *Property) optional() bool { return len(p.Optional) > 0 && string(p.Optional) != "0" }

// Check compares parameters with what a method takes and returns what is wrong,
// by parameter, in Proxmox's words.
func (m *Method) Check(in request.Params) map[string]string {
	errs := map[string]string{}
	m.joinLists(in)
	if variant := m.Variants[in.Get("type")]; variant != nil {
		m.checkVariant(variant, in, errs)
	} else {
		checkObject("", m.properties(in), in, errs)
	}
	if len(errs) == 0 {
		return nil
	}
	return errs
}

// joinLists makes one text of a list that was given as several parameters
// (PVE/RESTHandler.pm, normalize_legacy_param_formats).
func (m *Method) joinLists(in request.Params) {
	for k, v := range in {
		p := m.Parameters[k]
		if p == nil {
			p = m.Variants[in.Get("type")][k]
		}
		if p != nil && len(v) > 1 && p.Type == "string" && strings.HasSuffix(p.Format.Name, "-list") {
			in[k] = []string{strings.Join(v, ",")}
		}
	}
}

// properties are the properties as they are for the given parameters. Where others are taken,
// too, each of those is one about which nothing is said.
func (m *Method) properties(in request.Params) map[string]*Property {
	out := maps.Clone(m.Parameters)
	for k, p := range out {
		if p.OneOf != nil {
			out[k] = p.ForKind(in.Get(p.By))
		}
	}
	for k := range in {
		if m.Open && out[k] == nil {
			out[k] = &Property{Type: "any"}
		}
	}
	return out
}

// checkVariant checks parameters of which some depend on the type; what is wrong with
// those is said with the type before it.
func (m *Method) checkVariant(variant map[string]*Property, in request.Params, errs map[string]string) {
	all := maps.Clone(m.Parameters)
	maps.Copy(all, variant)
	checkObject("", all, in, errs)
	for k := range variant {
		if text := errs[k]; text != "" {
			delete(errs, k)
			errs["oneOf["+in.Get("type")+"]."+k] = text
		}
	}
}

func checkObject(path string, props map[string]*Property, in request.Params, errs map[string]string) {
	join := func(k string) string {
		switch {
		case path == "" && k == "":
			return "_root"
		case path == "":
			return k
		}
		return path + "." + k
	}
	for k, v := range in {
		p := props[k]
		if p == nil || p.Alias != "" {
			errs[join(k)] = "property is not defined in schema and the schema does not allow additional properties"
			continue
		}
		if p.Requires != "" && !in.Has(p.Requires) {
			errs[join(p.Requires)] = fmt.Sprintf("missing property required by '%s'", join(k))
		}
		if len(v) > 0 && !in.Has(k) {
			continue
		}
		checkValue(join(k), p, v, errs)
	}
	for k, p := range props {
		if p.Alias == "" && !p.optional() && !in.Has(k) {
			errs[join(k)] = "property is missing and it is not optional"
		}
	}
}

func checkValue(path string, p *Property, v []string, errs map[string]string) {
	if p.Type == "array" && len(v) == 1 && (v[0] == "" || v[0] == "0") { // what is false in Perl is made no list
		errs[path] = "type check ('array') failed"
		return
	}
	if p.Type == "array" || p.Type == "any" {
		for i, item := range v {
			if p.Items == nil {
				break
			}
			checkValue(fmt.Sprintf("%s[%d]", path, i), p.Items, []string{item}, errs)
		}
		return
	}
	if len(v) != 1 {
		errs[path] = fmt.Sprintf("type check ('%s') failed - got ARRAY", p.Type)
		return
	}
	if v[0] == request.AnObject {
		errs[path] = fmt.Sprintf("type check ('%s') failed - got HASH", p.Type)
		return
	}
	if v[0] == request.True || v[0] == request.False {
		if p.Type != "boolean" {
			errs[path] = fmt.Sprintf("type check ('%s') failed - got JSON::PP::Boolean", p.Type)
			return
		}
		v[0] = map[string]string{request.True: "1", request.False: "0"}[v[0]]
	}
	if text := CheckScalar(path, p, v[0]); text != "" {
		errs[path] = text
	}
}

// CheckScalar says what is wrong with one value, in the order in which Proxmox
// looks: type, format, pattern, lengths, bounds, enumeration.
func CheckScalar(path string, p *Property, v string) string {
	if !hasType(p.Type, v) {
		return fmt.Sprintf("type check ('%s') failed - got '%s'", p.Type, v)
	}
	if p.Format.Name != "" || p.Format.Keys != nil {
		if text := CheckFormat(path, p.Format, v); text != "" {
			return "invalid format - " + text
		}
	}
	if !p.matches(v) {
		return "value does not match the regex pattern"
	}
	if p.MaxLength > 0 && len([]rune(v)) > p.MaxLength {
		return fmt.Sprintf("value may only be %d characters long", p.MaxLength)
	}
	if p.MinLength > 0 && len([]rune(v)) < p.MinLength {
		return fmt.Sprintf("value must be at least %d characters long", p.MinLength)
	}
	if n, err := strconv.ParseFloat(v, 64); err == nil && p.Type != "string" {
		if p.Minimum != nil && n < *p.Minimum {
			return fmt.Sprintf("value must have a minimum value of %s", plain(*p.Minimum))
		}
		if p.Maximum != nil && n > *p.Maximum {
			return fmt.Sprintf("value must have a maximum value of %s", plain(*p.Maximum))
		}
	}
	if len(p.Enum) > 0 && !slices.Contains(p.Enum, v) {
		return fmt.Sprintf("value '%s' does not have a value in the enumeration '%s'", v, strings.Join(p.Enum, ", "))
	}
	return ""
}

func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

var (
	integerPattern = regexp.MustCompile(`^[+-]?\d+$`)
	numberPattern  = regexp.MustCompile(`^[+-]?(\d+\.\d+|\d+\.?|\.\d+)([eE][+-]?\d+)?$`)
)

func hasType(want, v string) bool {
	switch want {
	case "integer":
		return integerPattern.MatchString(v)
	case "number":
		return numberPattern.MatchString(v)
	case "boolean":
		return v == "0" || v == "1"
	}
	return true
}
