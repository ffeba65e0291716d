package lint

import (
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// lintKind is what a node of a YAML file is.
type lintKind int

const (
	lintNull lintKind = iota
	lintBool
	lintNumber
	lintText
	lintMap
	lintList
)

func (k lintKind) String() string {
	return [...]string{"nothing", "true or false", "a number", "text", "a mapping", "a list"}[k]
}

// lintPos is a place in a file, counted from 1; zero: the file as a whole.
type lintPos struct{ line, col int }

// lintNode is a YAML value with its place; aliases and merge keys are resolved.
type lintNode struct {
	kind   lintKind
	at     lintPos // of a mapping or list that is another's value: of its key
	text   string  // of a scalar, its value
	plain  bool    // a scalar without quotes
	fields []lintField
	items  []*lintNode
	twice  []lintField // keys that were here before: the parser that Fleet uses takes the last
}

type lintField struct {
	name  string
	at    lintPos
	value *lintNode
}

// get walks mappings by name; nil where there is nothing.
func (n *lintNode) get(names ...string) *lintNode {
	for _, name := range names {
		if n == nil {
			return nil
		}
		var next *lintNode
		for i := range n.fields {
			if n.fields[i].name == name {
				next = n.fields[i].value
				break
			}
		}
		n = next
	}
	return n
}

// key returns the place of a key, or n's own.
func (n *lintNode) key(name string) lintPos {
	if n == nil {
		return lintPos{}
	}
	for i := range n.fields {
		if n.fields[i].name == name {
			return n.fields[i].at
		}
	}
	return n.at
}

// str is the text of a scalar, and "" of anything else.
func (n *lintNode) str() string {
	if n == nil {
		return ""
	}
	return n.text
}

func (n *lintNode) list() []*lintNode {
	if n == nil {
		return nil
	}
	return n.items
}

func (n *lintNode) pos() lintPos {
	if n == nil {
		return lintPos{}
	}
	return n.at
}

// set says whether there is a value that is not null.
func (n *lintNode) set() bool { return n != nil && n.kind != lintNull }

// lintBuilder makes nodes of an AST, whose depth yamlbound has a limit for.
type lintBuilder struct {
	anchors map[string]*lintNode
	skip    int // lines before the document
	budget  *int
	odd     bool // something in it that only Fleet's parser can judge
}

func (b *lintBuilder) place(n ast.Node) lintPos {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return lintPos{max(1, t.Position.Line) + b.skip, max(1, t.Position.Column)}
	}
	return lintPos{b.skip + 1, 1}
}

func (b *lintBuilder) build(n ast.Node) *lintNode {
	if n == nil {
		return &lintNode{}
	}
	t := &lintNode{at: b.place(n)}
	if *b.budget--; *b.budget < 0 {
		b.odd = true
		return t
	}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		t.kind, t.text, t.plain = lintBool, n.GetToken().Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		t.kind, t.text, t.plain = lintNumber, n.GetToken().Value, true
	case *ast.StringNode:
		t.kind, t.text = lintText, n.Value
		t.plain = n.Token != nil && n.Token.Type != token.SingleQuoteType && n.Token.Type != token.DoubleQuoteType
	case *ast.LiteralNode:
		t.kind, t.text = lintText, n.Value.Value
	case *ast.MappingNode:
		b.mapping(t, n.Values)
	case *ast.MappingValueNode:
		b.mapping(t, []*ast.MappingValueNode{n})
	case *ast.SequenceNode:
		t.kind = lintList
		for _, v := range n.Values {
			t.items = append(t.items, b.build(v))
		}
	case *ast.AnchorNode:
		t = b.build(n.Value)
		b.anchors[n.Name.GetToken().Value] = t
	case *ast.AliasNode:
		return b.alias(n, t)
	case *ast.TagNode:
		return b.tagged(n)
	default:
		b.odd = true
	}
	return t
}

func (b *lintBuilder) alias(n *ast.AliasNode, t *lintNode) *lintNode {
	to, ok := b.anchors[n.Value.GetToken().Value]
	if !ok {
		b.odd = true
		return t
	}
	if *b.budget -= lintWeight(to, *b.budget); *b.budget < 0 {
		b.odd = true
		return t
	}
	return to
}

// lintWeight counts nodes, up to a little more than limit.
func lintWeight(n *lintNode, limit int) int {
	w := 1
	for i := range n.fields {
		if w > limit {
			return w
		}
		w += lintWeight(n.fields[i].value, limit-w)
	}
	for _, v := range n.items {
		if w > limit {
			return w
		}
		w += lintWeight(v, limit-w)
	}
	return w
}

func (b *lintBuilder) tagged(n *ast.TagNode) *lintNode {
	t := b.build(n.Value)
	if n.Start.Value != "!!str" {
		b.odd = true
		return t
	}
	if t.kind < lintMap {
		text := *t
		text.kind, text.plain = lintText, false
		return &text
	}
	return t
}

func (b *lintBuilder) mapping(t *lintNode, values []*ast.MappingValueNode) {
	t.kind = lintMap
	if len(values) > 0 {
		t.at = b.place(values[0].Key)
	}
	seen := make(map[string]int, len(values))
	var merged []*lintNode
	for _, v := range values {
		value := b.build(v.Value)
		if v.Key.IsMergeKey() {
			if value.kind == lintList {
				merged = append(merged, value.items...)
			} else {
				merged = append(merged, value)
			}
			continue
		}
		f := lintField{at: b.place(v.Key)}
		var ok bool
		if f.name, ok = lintKeyText(v.Key); !ok {
			b.odd = true
			continue
		}
		f.value = value.under(f.at)
		if i, again := seen[f.name]; again {
			t.twice = append(t.twice, t.fields[i])
			t.fields[i] = f
			continue
		}
		seen[f.name] = len(t.fields)
		t.fields = append(t.fields, f)
	}
	for _, m := range merged { // own keys win, then the earlier of the merged ones
		for _, f := range m.fields {
			if _, own := seen[f.name]; !own {
				seen[f.name] = len(t.fields)
				t.fields = append(t.fields, f)
			}
		}
	}
}

// under returns n as the value of the key at: a mapping or a list is found at its
// key, where a person looks for it; scalars stay where they are.
func (n *lintNode) under(at lintPos) *lintNode {
	if n.kind == lintMap || n.kind == lintList || n.kind == lintNull {
		moved := *n
		moved.at = at
		return &moved
	}
	return n
}

func lintKeyText(k ast.MapKeyNode) (string, bool) {
	switch k := k.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.LiteralNode:
		return k.Value.Value, true
	case *ast.MappingKeyNode:
		if inner, ok := k.Value.(ast.MapKeyNode); ok {
			return lintKeyText(inner)
		}
		return "", false
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.NullNode:
		return strings.TrimSpace(k.GetToken().Value), true
	}
	return "", false
}
