package fleet

import (
	"bytes"
	"errors"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
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
	if n == nil || n.kind == lintMap || n.kind == lintList || n.kind == lintNull {
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

// Limits of what is read: a repository is somebody else's, and is not trusted.
const (
	lintMaxFile  = 8 << 20   // bytes of one file; longer ones are carried, not read
	lintMaxTotal = 256 << 20 // bytes of a repository
	lintMaxFiles = 50_000
	lintMaxTree  = 1 << 19 // nodes that a file unfolds to, with what aliases repeat
	lintMaxDepth = 200
	lintMaxPlace = 512 << 10 // bytes of one document up to which places are looked for
)

// lintDoc is one document of a file.
type lintDoc struct {
	line int // where it begins
	root *lintNode
}

// lintSyntax is a document that is not YAML.
type lintSyntax struct {
	at   lintPos
	what string
}

// lintDocs splits a file at its "---" lines and reads each document by itself, so
// that what is wrong in one leaves the others.
func lintDocs(data []byte) (docs []lintDoc, bad []lintSyntax) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	budget := lintMaxTree
	for _, part := range lintSplit(data) {
		if lintBlank(part.text) {
			continue
		}
		root, syntax := lintParse(part.text, part.line-1, &budget)
		if syntax != nil {
			bad = append(bad, *syntax)
			continue
		}
		if root != nil {
			docs = append(docs, lintDoc{part.line, root})
		}
	}
	return docs, bad
}

type lintPart struct {
	line int // of its first line
	text []byte
}

// lintSplit cuts at lines that begin with "---", as apimachinery's YAML reader does
// (util/yaml/decoder.go), by which Fleet reads manifests.
func lintSplit(data []byte) (parts []lintPart) {
	line, begin, first := 1, 0, 1
	for at := 0; at < len(data); {
		end := bytes.IndexByte(data[at:], '\n')
		if end < 0 {
			end = len(data) - at - 1
		}
		text := data[at : at+end+1]
		if bytes.HasPrefix(text, []byte("---")) && (len(text) == 3 || bytes.IndexByte([]byte(" \t\r\n"), text[3]) >= 0) {
			parts = append(parts, lintPart{first, data[begin:at]})
			begin, first = at+len(text), line+1
			if rest := bytes.TrimSpace(text[3:]); len(rest) > 0 && rest[0] != '#' { // "--- {a: b}"
				begin, first = at+3, line
			}
		}
		at += end + 1
		line++
	}
	return append(parts, lintPart{first, data[begin:]})
}

// lintBlank says that a document holds comments and directives only.
func lintBlank(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' && !bytes.Equal(line, []byte("...")) {
			return false
		}
	}
	return true
}

// lintParse reads one document. Where our parser and the one that Fleet uses
// disagree, Fleet's is right, and the places are lost.
func lintParse(text []byte, skip int, budget *int) (root *lintNode, bad *lintSyntax) {
	if len(text) <= lintMaxPlace {
		file, err := lintAST(text)
		if err == nil {
			b := &lintBuilder{anchors: map[string]*lintNode{}, skip: skip, budget: budget}
			for _, doc := range file.Docs {
				if doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.DirectiveType {
					continue
				}
				root = b.build(doc.Body, 0)
				break
			}
			if !b.odd {
				return root, nil
			}
		} else {
			bad = lintSyntaxOf(err, skip)
		}
	}
	root, what := lintPlain(text, skip, budget)
	switch {
	case what == "":
		return root, nil
	case bad != nil:
		return nil, bad
	}
	return nil, &lintSyntax{lintPos{skip + 1, 1}, what}
}

var errLintParser = errors.New("the YAML parser gave up on this document")

// lintAST calls the parser, whose panics on odd inputs become errors.
func lintAST(text []byte) (file *ast.File, err error) {
	defer func() {
		if recover() != nil {
			err = errLintParser
		}
	}()
	return parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
}

// lintSyntaxOf keeps what the parser says, without the lines that it quotes: a
// secret may be in them.
func lintSyntaxOf(err error, skip int) *lintSyntax {
	bad := &lintSyntax{lintPos{skip + 1, 1}, errLintParser.Error()}
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		bad.what = syntax.GetMessage()
		if t := syntax.GetToken(); t != nil && t.Position != nil && t.Position.Line > 0 {
			bad.at = lintPos{t.Position.Line + skip, max(1, t.Position.Column)}
		}
	}
	return bad
}

// lintBuilder makes nodes of an AST.
type lintBuilder struct {
	anchors map[string]*lintNode
	skip    int // lines before the document
	budget  *int
	odd     bool // something in it that only Fleet's parser can judge
}

func (b *lintBuilder) place(n ast.Node) lintPos {
	if t := n.GetToken(); t != nil && t.Position != nil && t.Position.Line > 0 {
		return lintPos{t.Position.Line + b.skip, max(1, t.Position.Column)}
	}
	return lintPos{b.skip + 1, 1}
}

func (b *lintBuilder) build(n ast.Node, depth int) *lintNode {
	if n == nil {
		return &lintNode{}
	}
	t := &lintNode{at: b.place(n)}
	if *b.budget--; *b.budget < 0 || depth > lintMaxDepth {
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
		b.mapping(t, n.Values, depth)
	case *ast.MappingValueNode:
		b.mapping(t, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		t.kind = lintList
		for _, v := range n.Values {
			t.items = append(t.items, b.build(v, depth+1))
		}
	case *ast.AnchorNode:
		t = b.build(n.Value, depth+1)
		b.anchors[n.Name.GetToken().Value] = t
	case *ast.AliasNode:
		return b.alias(n, t)
	case *ast.TagNode:
		return b.tagged(n, depth)
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

func (b *lintBuilder) tagged(n *ast.TagNode, depth int) *lintNode {
	t := b.build(n.Value, depth+1)
	if n.Start != nil && n.Start.Value == "!!str" && t.kind < lintMap {
		text := *t
		text.kind, text.plain = lintText, false
		return &text
	}
	return t
}

func (b *lintBuilder) mapping(t *lintNode, values []*ast.MappingValueNode, depth int) {
	t.kind = lintMap
	if len(values) > 0 {
		t.at = b.place(values[0].Key)
	}
	seen := make(map[string]int, len(values))
	var merged []*lintNode
	for _, v := range values {
		value := b.build(v.Value, depth+1)
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
