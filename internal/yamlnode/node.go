// Package yamlnode has YAML as values that know their places, with aliases and merge
// keys resolved: what a mistake in a file is told by.
package yamlnode

import "slices"

// Kind is what a value is.
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

// String names the kind as a person would.
func (k Kind) String() string {
	return [...]string{"nothing", "true or false", "a number", "text", "a mapping", "a list"}[k]
}

// Pos is a place in a file, counted from 1; zero: the file as a whole.
type Pos struct{ Line, Col int }

// Node is a value with its place. Nodes are shared where aliases share them, and are not
// changed once read. Methods that look take nil for a value that is not there.
type Node struct {
	Kind   Kind
	At     Pos    // of a mapping or list that is another's value: of its key
	Text   string // of a scalar, its value
	Plain  bool   // a scalar without quotes
	Fields []Field
	Items  []*Node
	Twice  []Field // keys that were here before: the last one counts

	weight int // nodes in it, with everything that aliases repeat
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

// Get walks mappings by name; nil where there is nothing.
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

// Place returns where n is.
func (n *Node) Place() Pos {
	if n == nil {
		return Pos{}
	}
	return n.At
}

// Str is the text of a scalar, and "" of anything else.
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

// IfMap returns n when it is a mapping.
func (n *Node) IfMap() *Node {
	if n == nil || n.Kind != Map {
		return nil
	}
	return n
}

// Has reports whether n has a key.
func (n *Node) Has(name string) bool { return n.Index(name) >= 0 }

// Without returns n less some keys.
func (n *Node) Without(names ...string) *Node {
	if n.IfMap() == nil {
		return n
	}
	out := *n
	out.Fields = slices.DeleteFunc(slices.Clone(n.Fields), func(f Field) bool { return slices.Contains(names, f.Name) })
	return &out
}

// With returns n with one more key, unless it has it already.
func (n *Node) With(name string, value *Node) *Node {
	if n.Index(name) >= 0 {
		return n
	}
	out := *n
	out.Fields = append(slices.Clone(n.Fields), Field{name, value.At, value})
	return &out
}

// under returns n as the value of the key at: a mapping or a list is found at its key,
// where a person looks for it; scalars stay where they are.
func (n *Node) under(at Pos) *Node {
	if !n.Scalar() || n.Kind == Null {
		moved := *n
		moved.At = at
		return &moved
	}
	return n
}
