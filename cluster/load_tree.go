package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/cps-gpu/homelab/internal/yamlbound"
)

// kind is what a tree is.
type kind int

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindText
	kindMapping
	kindSequence
)

// String names the kind as a person would.
func (k kind) String() string {
	return [...]string{"nothing", "true or false", "a number", "text", "a mapping", "a list"}[k]
}

// tree is a YAML value with its place; aliases and merge keys are resolved.
// Trees are shared where aliases share them, and are not changed once built.
type tree struct {
	kind   kind
	at     pos    // of the value; of a mapping that is another's value: of its key
	text   string // of a scalar, as written
	fields []field
	items  []*tree
	weight int // nodes in it, with everything that aliases repeat
}

type field struct {
	name  string
	at    pos // of the key
	value *tree
}

func (t *tree) isScalar() bool { return t.kind < kindMapping }

// get returns the value of a key, or nil.
func (t *tree) get(name string) *tree {
	if t == nil {
		return nil
	}
	for _, f := range t.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// maxWeight bounds what aliases may unfold to; a thousand nodes written out
// one by one are a twentieth of it.
const maxWeight = 1 << 20

// builder makes a tree of an AST, whose depth yamlbound has a limit for.
type builder struct {
	c       *checker
	anchors map[string]*tree
	weight  int
	burst   bool // it unfolds to more than maxWeight
}

// readTree parses a document. It returns nil when nothing useful is there; the
// problems are in c.
func readTree(c *checker, data []byte) *tree {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	file, err := yamlbound.Parse(data, parser.AllowDuplicateMapKey())
	if err != nil {
		c.syntaxError(err)
		return nil
	}
	b := &builder{c: c, anchors: map[string]*tree{}}
	var root *tree
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.DirectiveType || doc.Body.Type() == ast.CommentType {
			continue
		}
		t := b.build(doc.Body)
		if root != nil {
			c.undecodable(t.at, "a second document begins here", "keep one document in a file: remove the line --- before it and what follows")
			return nil
		}
		root = t
	}
	switch {
	case b.burst:
		return nil
	case root == nil || root.kind == kindNull:
		c.undecodable(pos{}, "the file is empty", "begin with name:, proxmox:, k3s: and pools:, as examples/one-gpu/cluster.yaml does")
		return nil
	case root.kind != kindMapping:
		c.undecodable(root.at, fmt.Sprintf("the file is %s", root.kind), "begin with name:, proxmox:, k3s: and pools:, as examples/one-gpu/cluster.yaml does")
		return nil
	}
	return root
}

// syntaxError reports what the parser says, without the lines that it quotes:
// a secret may be in them.
func (c *checker) syntaxError(err error) {
	var tooMuch *yamlbound.Error
	if errors.As(err, &tooMuch) {
		c.undecodable(pos{tooMuch.Line, tooMuch.Column}, "this is more than a cluster can need: "+tooMuch.What, "write it out, without anchors inside anchors and with less depth")
		return
	}
	var at pos
	what := yamlbound.ErrParser.Error()
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		what = syntax.GetMessage()
		if t := syntax.GetToken(); t != nil && t.Position != nil {
			at = pos{t.Position.Line, t.Position.Column}
		}
	}
	cure := "look for a missing blank after a colon, an unclosed quote or bracket, or a wrong indent, here or in the line before"
	if strings.Contains(what, "'\t'") {
		what, cure = "a tab is not allowed here", "indent with blanks"
	}
	c.undecodable(at, "this is not YAML: "+what, cure)
}

func place(n ast.Node) pos {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return pos{t.Position.Line, t.Position.Column}
	}
	return pos{}
}

// build makes a tree of n. It never returns nil.
func (b *builder) build(n ast.Node) *tree {
	if n == nil {
		return &tree{weight: 1}
	}
	t := &tree{at: place(n), weight: 1}
	if b.grow(t.at, 1) {
		return t
	}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		t.kind, t.text = kindBool, n.GetToken().Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		t.kind, t.text = kindNumber, n.GetToken().Value
	case *ast.StringNode:
		t.kind, t.text = kindText, n.Value
	case *ast.LiteralNode:
		t.kind, t.text = kindText, n.Value.Value
	case *ast.MappingNode:
		b.mapping(t, n.Values)
	case *ast.MappingValueNode:
		b.mapping(t, []*ast.MappingValueNode{n})
	case *ast.SequenceNode:
		t.kind = kindSequence
		for _, v := range n.Values {
			item := joined(v)
			if item == nil {
				item = b.build(v)
			}
			t.items = append(t.items, item)
			t.weight += item.weight
		}
	case *ast.AnchorNode:
		return b.anchor(n)
	case *ast.AliasNode:
		return b.alias(n, t)
	case *ast.TagNode:
		return b.tagged(n)
	default:
		b.c.undecodable(t.at, "this kind of YAML has no meaning here", "write a plain value")
	}
	return t
}

// joined mends what the parser does to plain text with a colon in a list inside
// braces: there it takes 01:00 for the mapping {01: 00}. YAML 1.2 (7.3.3) has it as
// text, since no blank follows the colon. It returns nil for anything else.
func joined(n ast.Node) *tree {
	m, ok := n.(*ast.MappingNode)
	if !ok || m.IsFlowStyle || len(m.Values) != 1 {
		return nil
	}
	v := m.Values[0]
	if _, plain := v.Key.(ast.ScalarNode); !plain {
		return nil
	}
	if _, plain := v.Value.(ast.ScalarNode); !plain {
		return nil
	}
	key, colon, value := v.Key.GetToken(), v.Start, v.Value.GetToken()
	if colon == nil || value.Position.Offset != colon.Position.Offset+1 || isQuoted(key) || isQuoted(value) {
		return nil
	}
	text := strings.TrimLeft(key.Origin, " \t\r\n") + ":" + strings.TrimSpace(value.Origin)
	return &tree{kind: kindText, at: place(v.Key), text: text, weight: 1}
}

func isQuoted(t *token.Token) bool {
	return t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType
}

func (b *builder) anchor(n *ast.AnchorNode) *tree {
	t := b.build(n.Value)
	b.anchors[n.Name.GetToken().Value] = t
	return t
}

func (b *builder) alias(n *ast.AliasNode, t *tree) *tree {
	name := n.Value.GetToken().Value
	to, ok := b.anchors[name]
	if !ok {
		b.c.undecodable(t.at, fmt.Sprintf("the alias *%s has no anchor &%s above it", name, name), "define the anchor first, and not inside itself")
		return t
	}
	if b.grow(t.at, to.weight) {
		return t
	}
	return to
}

// grow counts what the tree unfolds to, and reports once when that is too much.
func (b *builder) grow(at pos, by int) bool {
	if b.burst {
		return true
	}
	if b.weight += by; b.weight > maxWeight {
		b.c.undecodable(at, "this unfolds to more than a cluster can need", "write it out, without anchors inside anchors and with less depth")
		b.burst = true
	}
	return b.burst
}

func (b *builder) tagged(n *ast.TagNode) *tree {
	t := b.build(n.Value)
	switch tag := n.Start.Value; {
	case tag == "!!str" && t.isScalar():
		text := *t
		text.kind = kindText
		return &text
	case slices.Contains([]string{"!!map", "!!seq", "!!int", "!!bool"}, tag):
		return t
	default:
		b.c.undecodable(place(n), "YAML tags have no meaning here", "write the value without the tag")
		return t
	}
}

func (b *builder) mapping(t *tree, values []*ast.MappingValueNode) {
	t.kind = kindMapping
	if len(values) > 0 {
		t.at = place(values[0].Key)
	}
	seen := make(map[string]int, len(values))
	var merged []*tree
	for _, v := range values {
		at := place(v.Key)
		value := b.build(v.Value)
		t.weight += value.weight
		if v.Key.IsMergeKey() {
			merged = append(merged, b.mergeSources(value)...)
			continue
		}
		if inner, ok := v.Key.(*ast.MappingKeyNode); ok && inner.Value != nil {
			at = place(inner.Value)
		}
		name, ok := keyText(v.Key)
		if !ok {
			b.c.undecodable(at, "a key must be plain text", "write a name before the colon")
			continue
		}
		if i, twice := seen[name]; twice {
			b.c.wrong(at, fmt.Sprintf("key %q is here twice, first in line %d", name, t.fields[i].at.line), "keep one of them")
			continue
		}
		seen[name] = len(t.fields)
		t.fields = append(t.fields, field{name, at, value.under(at)})
	}
	for _, m := range merged { // own keys win, then the earlier of the merged ones
		for _, f := range m.fields {
			if _, own := seen[f.name]; !own {
				seen[f.name] = len(t.fields)
				t.fields = append(t.fields, f)
				t.weight += f.value.weight
			}
		}
	}
}

// under returns t as the value of the key at: a mapping or a list is found at
// its key, where a person looks for it; scalars stay where they are.
func (t *tree) under(at pos) *tree {
	if t.kind == kindMapping || t.kind == kindSequence || t.kind == kindNull {
		moved := *t
		moved.at = at
		return &moved
	}
	return t
}

func (t *tree) index(name string) int {
	for i, f := range t.fields {
		if f.name == name {
			return i
		}
	}
	return -1
}

func (b *builder) mergeSources(t *tree) []*tree {
	switch t.kind {
	case kindMapping:
		return []*tree{t}
	case kindSequence:
		var out []*tree
		for _, item := range t.items {
			out = append(out, b.mergeSources(item)...)
		}
		return out
	default:
		b.c.undecodable(t.at, "<< merges mappings and nothing else", "write <<: *anchor with the anchor of a mapping")
		return nil
	}
}

// keyText returns the text of a scalar key.
func keyText(k ast.MapKeyNode) (string, bool) {
	switch k := k.(type) {
	case *ast.MappingKeyNode:
		inner, ok := k.Value.(ast.MapKeyNode)
		if !ok {
			return "", false
		}
		return keyText(inner)
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return k.GetToken().Value, true
	default:
		return "", false
	}
}
