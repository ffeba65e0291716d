package importer

import (
	"fmt"
	"strings"
)

// place is a line of an input.
type place struct {
	file string // relative to what was imported
	line int
}

func (p place) String() string { return fmt.Sprintf("%s:%d", p.file, p.line) }

// kind is what a value is.
type kind int

const (
	null kind = iota
	boolean
	number
	text
	list
	object
	computed // by the tool, from what this package does not evaluate
)

// value is a value of an input, in any format.
type value struct {
	kind   kind
	text   string // of a scalar
	at     place
	items  []value
	fields []field
	why    string // of a computed value: what it needs
}

type field struct {
	name string
	value
}

// field returns a field of an object.
func (v value) field(name string) (value, bool) {
	for _, f := range v.fields {
		if f.name == name {
			return f.value, true
		}
	}
	return value{}, false
}

// texts are the scalars of a list, or a scalar as a list of one; text with spaces or commas between counts as a list.
func (v value) texts() (out []string, ok bool) {
	switch v.kind {
	case list:
		for _, item := range v.items {
			if item.kind != text && item.kind != number {
				return nil, false
			}
			out = append(out, strings.TrimSpace(item.text))
		}
	case text, number:
		out = strings.FieldsFunc(v.text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
	default:
		return nil, false
	}
	return out, true
}

// scalar reports whether v is one value.
func (v value) scalar() bool { return v.kind == boolean || v.kind == number || v.kind == text }

// empty reports whether v says nothing.
func (v value) empty() bool {
	return v.kind == null || v.kind == text && strings.TrimSpace(v.text) == "" || v.kind == list && len(v.items) == 0 || v.kind == object && len(v.fields) == 0
}

// Fate is the outcome for a setting.
type Fate int

// The fates.
const (
	NoPlace  Fate = iota // Reason says why
	Carried              // Keys of the new file have it
	Secret               // Keys refer to it
	Needless             // homelab does the same without a setting, or it says nothing; Reason says which
)

// Setting is one value of the inputs, and its fate.
type Setting struct {
	Name   string // as in the input, with dots
	Place  string // file:line
	Fate   Fate
	Keys   []string // of cluster.yaml
	Reason string
	Env    string // of a secret: the variable that the file refers to
}

// setting is a Setting with its value.
type setting struct {
	Setting
	value value
}

func newSetting(name string, v value) *setting {
	s := &setting{Setting: Setting{Name: name, Place: v.at.String()}, value: v}
	if v.kind == computed {
		s.Reason = "it is computed" + map[bool]string{true: ", from " + v.why}[v.why != ""] + ": write what it comes to"
	}
	return s
}

// carry notes that a key of the file has the value.
func (s *setting) carry(key string) {
	if s.Fate != Secret {
		s.Fate = Carried
	}
	s.Reason = ""
	for _, k := range s.Keys {
		if k == key {
			return
		}
	}
	s.Keys = append(s.Keys, key)
}

// refuse notes why the value is not in the file, unless a key has it.
func (s *setting) refuse(reason string) {
	if len(s.Keys) == 0 && s.Fate == NoPlace {
		s.Reason = reason
	}
}

// needless notes that the file needs no key for it.
func (s *setting) needless(reason string) {
	if len(s.Keys) == 0 {
		s.Fate, s.Reason = Needless, reason
	}
}
