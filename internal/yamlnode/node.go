// Package yamlnode reads YAML into values with their places, for error messages, with aliases
// and merge keys resolved.
package yamlnode

import "slices"

// Kind is the kind of a value.
type Kind int

// The kinds. The first four are scalars.
const (
	Null Kind = iota
	Bool
	Number
	Text
	Map
	List
)

// String names the kind for people.
func (k Kind) String() string {
	return [...]string{"nothing", "true or false", "a number", "text", "a mapping", "a list"}[k]
}

// Pos is a place in a file, counted from 1; zero: the file as a whole.
type Pos struct{ Line, Col int }

// Node is a value with its place. Aliases share nodes, and nodes do not change once read.
// Reading methods accept nil for a missing value.
type Node struct {
	Kind   Kind
	At     Pos    // of its key, for a mapping or list that is a value
	Text   string // of a scalar, its value
	Plain  bool   // a scalar without quotes
	Fields []Field
	Items  []*Node
	Twice  []Field // duplicate keys: the last one counts

	weight int // nodes in it, with aliases expanded
}

// Field is a key of a mapping and its value.
type Field struct {
	Name  string
	At    Pos // of the key
	Value *Node
}

// Index returns which of n's fields a key is, or -1.
func (n *Node) Index(name string) int {
	if n == nil {
		return -1
	}
	return slices.IndexFunc(n.Fields, func(f Field) bool { return f.Name == name })
}

// Field returns a key with its place.
func (n *Node) Field(name string) (Field, bool) {
	if i := n.Index(name); i >= 0 {
		return n.Fields[i], true
	}
	return Field{}, false
}

// Get walks mappings by name; nil if there is nothing.
func (n *Node) Get(names ...string) *Node {
	for _, name := range names {
		f, _ := n.Field(name)
		n = f.Value
	}
	return n
}

// Key returns the place of a key, or n's own.
func (n *Node) Key(name string) Pos {
	if f, ok := n.Field(name); ok {
		return f.At
	}
	return n.Place()
}

// Place returns n's place.
func (n *Node) Place() Pos {
	if n == nil {
		return Pos{}
	}
	return n.At
}

// Str returns the text of a scalar, and "" for anything else.
func (n *Node) Str() string {
	if n == nil {
		return ""
	}
	return n.Text
}

// List returns the items of a list.
func (n *Node) List() []*Node {
	if n == nil {
		return nil
	}
	return n.Items
}

// Entries returns the fields of a mapping.
func (n *Node) Entries() []Field {
	if n == nil {
		return nil
	}
	return n.Fields
}

// Set reports whether there is a value that is not null.
func (n *Node) Set() bool { return n != nil && n.Kind != Null }

// Scalar reports whether n is neither a mapping nor a list.
func (n *Node) Scalar() bool { return n.Kind < Map }

// AsMap returns n if it is a mapping, else nil.
func (n *Node) AsMap() *Node {
	if n == nil || n.Kind != Map {
		return nil
	}
	return n
}

// Has reports whether n has a key.
func (n *Node) Has(name string) bool { return n.Index(name) >= 0 }

// Without returns n without some keys.
func (n *Node) Without(names ...string) *Node {
	if n.AsMap() == nil {
		return n
	}
	out := *n
	out.Fields = slices.DeleteFunc(slices.Clone(n.Fields), func(f Field) bool { return slices.Contains(names, f.Name) })
	return &out
}

// With returns n with one more key, unless it has that key.
func (n *Node) With(name string, value *Node) *Node {
	if n.Index(name) >= 0 {
		return n
	}
	out := *n
	out.Fields = append(slices.Clone(n.Fields), Field{name, value.At, value})
	return &out
}

// atKey returns n as the value of the key at: a mapping or a list gets the place of its key,
// where a person looks for it; scalars keep theirs.
func (n *Node) atKey(at Pos) *Node {
	if !n.Scalar() || n.Kind == Null {
		moved := *n
		moved.At = at
		return &moved
	}
	return n
}
