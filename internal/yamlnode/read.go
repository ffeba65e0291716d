package yamlnode

import (
	"bytes"
	"errors"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Oddity is something in a file that has no meaning here, or an ambiguous one.
type Oddity struct {
	What  What
	At    Pos
	Name  string // of the anchor, the tag or the key
	First Pos    // of a duplicate key
}

// What is odd.
type What int

// What can be odd.
const (
	Strange  What = iota // an unknown kind of node
	NoAnchor             // an alias without an anchor above it
	TooMuch              // it expands to more than Reader.Budget; reported once
	Tagged               // a tag other than !!str at a scalar
	NoText               // a key that is not text
	NoMap                // << of something else than mappings
	Twice                // a duplicate key
)

// Reader reads documents, whose depth [Parse] limits.
type Reader struct {
	Skip   int  // lines before the text that is read
	Budget *int // nodes that may still be created, shared by every document of every reader
	Odd    func(Oddity)

	anchors map[string]*Node
	burst   bool
}

// Read returns the documents of a text that are not empty. Its errors are those of
// [Parse].
func (r *Reader) Read(text []byte) ([]*Node, error) {
	file, err := Parse(bytes.TrimPrefix(text, []byte("\ufeff")), parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, err
	}
	r.anchors = map[string]*Node{}
	var out []*Node
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.DirectiveType && doc.Body.Type() != ast.CommentType {
			out = append(out, r.build(doc.Body))
		}
	}
	return out, nil
}

// Reason says where and why a text is not YAML, without the lines that the parser quotes,
// which may contain a secret.
func (r *Reader) Reason(err error) (Pos, string) {
	if syntax, ok := errors.AsType[yaml.Error](err); ok {
		return r.position(syntax.GetToken()), syntax.GetMessage()
	}
	return Pos{}, ErrParser.Error()
}

func (r *Reader) position(t *token.Token) Pos {
	if t != nil && t.Position != nil {
		return Pos{max(1, t.Position.Line) + r.Skip, max(1, t.Position.Column)}
	}
	return Pos{}
}

// grow counts the expanded nodes of the file, and reports whether there are too many.
func (r *Reader) grow(at Pos, by int) bool {
	if *r.Budget -= by; *r.Budget < 0 && !r.burst {
		r.burst = true
		r.Odd(Oddity{What: TooMuch, At: at})
	}
	return *r.Budget < 0
}

// build makes a node of n. It never returns nil.
func (r *Reader) build(n ast.Node) *Node {
	if n == nil {
		return &Node{weight: 1}
	}
	t := &Node{At: r.position(n.GetToken()), weight: 1}
	if r.grow(t.At, 1) {
		return t
	}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		t.Kind, t.Text, t.Plain = Bool, n.GetToken().Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		t.Kind, t.Text, t.Plain = Number, n.GetToken().Value, true
	case *ast.StringNode:
		t.Kind, t.Text, t.Plain = Text, n.Value, n.Token != nil && !quoted(n.Token)
	case *ast.LiteralNode:
		t.Kind, t.Text = Text, n.Value.Value
	case *ast.MappingNode:
		r.mapping(t, n.Values)
	case *ast.SequenceNode:
		t.Kind = List
		for _, v := range n.Values {
			item := r.repairJoined(v)
			if item == nil {
				item = r.build(v)
			}
			t.Items = append(t.Items, item)
			t.weight += item.weight
		}
	case *ast.AnchorNode:
		t = r.build(n.Value)
		r.anchors[n.Name.GetToken().Value] = t
	case *ast.AliasNode:
		return r.alias(n, t)
	case *ast.TagNode:
		return r.readTagged(n)
	default:
		r.Odd(Oddity{What: Strange, At: t.At})
	}
	return t
}

// repairJoined repairs a mistake of the parser: in a list inside braces it reads plain text with a
// colon, 01:00, as the mapping {01: 00}. In YAML 1.2 (7.3.3) it is text, because no blank
// follows the colon. It returns nil for anything else.
func (r *Reader) repairJoined(n ast.Node) *Node {
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
	if colon == nil || value.Position.Offset != colon.Position.Offset+1 || quoted(key) || quoted(value) {
		return nil
	}
	text := strings.TrimLeft(key.Origin, " \t\r\n") + ":" + strings.TrimSpace(value.Origin)
	return &Node{Kind: Text, At: r.position(key), Text: text, Plain: true, weight: 1}
}

func quoted(t *token.Token) bool {
	return t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType
}

func (r *Reader) alias(n *ast.AliasNode, t *Node) *Node {
	name := n.Value.GetToken().Value
	to, ok := r.anchors[name]
	if !ok {
		r.Odd(Oddity{What: NoAnchor, At: t.At, Name: name})
		return t
	}
	if r.grow(t.At, to.weight) {
		return t
	}
	return to
}

func (r *Reader) readTagged(n *ast.TagNode) *Node {
	t := r.build(n.Value)
	if n.Start.Value != "!!str" || !t.Scalar() {
		r.Odd(Oddity{What: Tagged, At: r.position(n.GetToken()), Name: n.Start.Value})
		return t
	}
	text := *t
	text.Kind, text.Plain = Text, false
	return &text
}

func (r *Reader) mapping(t *Node, values []*ast.MappingValueNode) {
	t.Kind = Map
	if len(values) > 0 {
		t.At = r.position(values[0].Key.GetToken())
	}
	seen := make(map[string]int, len(values))
	var merged []*Node
	for _, v := range values {
		value := r.build(v.Value)
		t.weight += value.weight
		if v.Key.IsMergeKey() {
			merged = append(merged, r.mergeSources(value)...)
			continue
		}
		key, name, ok := keyOf(v.Key)
		if !ok {
			r.Odd(Oddity{What: NoText, At: r.position(v.Key.GetToken())})
			continue
		}
		f := Field{Name: name, At: r.position(key.GetToken())}
		f.Value = value.atKey(f.At)
		if i, again := seen[f.Name]; again {
			r.Odd(Oddity{What: Twice, At: f.At, Name: f.Name, First: t.Fields[i].At})
			t.Twice = append(t.Twice, t.Fields[i])
			t.Fields[i] = f
			continue
		}
		seen[f.Name] = len(t.Fields)
		t.Fields = append(t.Fields, f)
	}
	for _, m := range merged { // own keys win, then the earlier of the merged ones
		for _, f := range m.Fields {
			if _, own := seen[f.Name]; !own {
				seen[f.Name] = len(t.Fields)
				t.Fields = append(t.Fields, f)
				t.weight += f.Value.weight
			}
		}
	}
}

func (r *Reader) mergeSources(t *Node) []*Node {
	switch t.Kind {
	case Map:
		return []*Node{t}
	case List:
		var out []*Node
		for _, item := range t.Items {
			out = append(out, r.mergeSources(item)...)
		}
		return out
	}
	r.Odd(Oddity{What: NoMap, At: t.At})
	return nil
}

// keyOf removes the "?" from a key, and returns its text; ok is false if it is not plain text.
func keyOf(k ast.Node) (key ast.Node, text string, ok bool) {
	switch k := k.(type) {
	case *ast.MappingKeyNode:
		return keyOf(k.Value)
	case *ast.StringNode:
		return k, k.Value, true
	case *ast.LiteralNode:
		return k, k.Value.Value, true
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.NullNode:
		return k, strings.TrimSpace(k.GetToken().Value), true
	}
	return k, "", false
}
