// Parsers of YAML store the whole path with each value, and recurse into nested values: a file of
// 200 KB can take gigabytes. So the cost of a file is estimated from its tokens, which are small,
// before the parser runs.

package yamlnode

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// Limits of a file. Hand-written ones stay far below.
const (
	maxBytes     = 4 << 20
	maxDepth     = 200      // nesting of lists and mappings
	maxNames     = 1000     // anchors, aliases, tags and "?" together
	maxDocuments = 1000     // the parser copies the rest at each one
	maxEmpty     = 2000     // keys and entries without a value: the parser moves the rest at each one
	maxBlanks    = 16 << 20 // bytes of the file times its longest run of empty lines: the parser copies a text for each empty line at its end
	maxPaths     = 32 << 20 // bytes of the paths to all values
	maxSiblings  = 8 << 20  // keys, each times its position in its mapping: the parser copies the earlier ones; 4000 in one
)

// ErrParser is a failure of the parser itself.
var ErrParser = errors.New("the YAML parser gave up on this")

// Error says that a file exceeds a limit.
type Error struct {
	Line, Column int // from 1
	What         string
	Long         bool // it has too many keys or empty lines, which are expensive only for this parser
}

// Error returns the exceeded limit and the line.
func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.What) }

// Parse is parser.ParseBytes, without comments, for an untrusted file. It returns [*Error] if
// a limit is exceeded, [ErrParser] if the parser panics, and the parser's own errors.
func Parse(data []byte, opts ...parser.Option) (file *ast.File, err error) {
	defer func() {
		if recover() != nil {
			file, err = nil, ErrParser
		}
	}()
	if len(data) > maxBytes {
		return nil, &Error{Line: 1, Column: 1, What: fmt.Sprintf("%d KiB of YAML, and at most %d are read", len(data)>>10, maxBytes>>10)}
	}
	if line, run := blanks(data); run*len(data) > maxBlanks {
		return nil, &Error{Line: line, Column: 1, What: fmt.Sprintf("%d empty lines, one after the other", run), Long: true}
	}
	tokens := tokenize(string(data))
	var c counter
	for _, t := range tokens {
		if what := c.next(t); what != "" {
			return nil, &Error{t.Position.Line, max(1, t.Position.Column), what, c.siblings > maxSiblings}
		}
	}
	return parser.Parse(tokens, 0, opts...)
}

// blanks returns the longest run of empty lines, and its first line.
func blanks(data []byte) (line, longest int) {
	at, run := 1, 0
	for _, c := range data {
		switch c {
		case '\n', '\r':
			at++
			if run++; run > longest {
				line, longest = at-run, run
			}
		case ' ', '\t':
		default:
			run = 0
		}
	}
	return line, longest
}

// tokenize stops at the first invalid token, which the parser reports: one call of Scan goes on to the end.
func tokenize(text string) (tokens token.Tokens) {
	var s scanner.Scanner
	s.Init(text)
	all, _ := s.Scan()
	tokens.Add(all...)
	return tokens
}

// frame is an open list or mapping.
type frame struct {
	flow   bool
	column int // of its key or "-", in blocks
	size   int // bytes that it adds to the paths of its contents
	run    int // tokens since the last comma, in flows
	nth    int // key of its mapping, in blocks
}

// counter counts the tokens of a file.
type counter struct {
	open                   []frame
	last                   *token.Token // without comments
	path                   int          // bytes of the path to here
	paths                  int
	names, documents, none int
	siblings               int
}

// next counts a token, and returns the limit that it exceeds.
func (c *counter) next(t *token.Token) string {
	switch t.Type {
	case token.CommentType:
		return ""
	case token.DocumentHeaderType, token.DocumentEndType:
		c.documents++
		c.open, c.path = c.open[:0], 0
	case token.AnchorType, token.AliasType, token.TagType, token.MappingKeyType:
		c.names++
	}
	if c.empty(t) {
		c.none++
	}
	if c.flowing() || t.Type == token.SequenceStartType || t.Type == token.MappingStartType {
		c.flow(t)
	} else {
		c.block(t)
	}
	c.last = t
	c.paths += c.path
	return c.tooMuch()
}

func (c *counter) tooMuch() string {
	top := c.top()
	switch {
	case len(c.open) > maxDepth || top.run > maxDepth:
		return fmt.Sprintf("nested more than %d deep", maxDepth)
	case c.names > maxNames:
		return fmt.Sprintf("more than %d anchors, aliases and tags", maxNames)
	case c.documents > maxDocuments:
		return fmt.Sprintf("more than %d documents", maxDocuments)
	case c.none > maxEmpty:
		return fmt.Sprintf("more than %d keys and entries without a value", maxEmpty)
	case c.siblings > maxSiblings:
		return "too many keys in one mapping"
	case c.paths > maxPaths:
		return "too many values under keys that are too long"
	}
	return ""
}

func (c *counter) top() frame {
	if len(c.open) == 0 {
		return frame{}
	}
	return c.open[len(c.open)-1]
}

func (c *counter) flowing() bool { return c.top().flow }

func (c *counter) push(f frame) {
	c.open = append(c.open, f)
	c.path += f.size
}

func (c *counter) pop() {
	c.path -= c.top().size
	c.open = c.open[:len(c.open)-1]
}

// index is about the length that an index adds to a path.
const index = 8

// flow counts tokens between brackets or braces.
func (c *counter) flow(t *token.Token) {
	switch t.Type {
	case token.SequenceStartType, token.MappingStartType:
		c.push(frame{flow: true, size: index})
	case token.SequenceEndType, token.MappingEndType:
		c.pop()
	case token.CollectEntryType:
		top := &c.open[len(c.open)-1]
		c.path += index - top.size
		top.size, top.run = index, 0
	default:
		top := &c.open[len(c.open)-1]
		c.path += len(t.Value)
		top.size += len(t.Value)
		top.run++
	}
}

// block counts keys and "-" by their columns. Anchors and tags before a key hide its column,
// but their number is limited.
func (c *counter) block(t *token.Token) {
	switch {
	case t.Type == token.SequenceEntryType || t.Type == token.MappingKeyType:
		c.closeRightOf(t.Position.Column)
		c.push(frame{column: t.Position.Column, size: index})
	case t.Type == token.MappingValueType && c.last != nil:
		nth := c.closeRightOf(c.last.Position.Column) + 1
		c.siblings += nth
		c.push(frame{column: c.last.Position.Column, size: len(c.last.Value) + 1, nth: nth})
	}
}

// closeRightOf closes frames that are not left of a column, and returns the index of the last key
// there.
func (c *counter) closeRightOf(column int) (nth int) {
	for len(c.open) > 0 && !c.top().flow && c.top().column >= column {
		if top := c.top(); top.column == column {
			nth = top.nth
		}
		c.pop()
	}
	return nth
}

// empty says that a key or an entry ends with t, without a value.
func (c *counter) empty(t *token.Token) bool {
	if c.last == nil {
		return false
	}
	switch c.last.Type {
	case token.SequenceEntryType, token.MappingValueType, token.MappingKeyType:
	default:
		return false
	}
	if c.flowing() {
		return t.Type == token.CollectEntryType || t.Type == token.SequenceEndType || t.Type == token.MappingEndType
	}
	list := t.Type == token.SequenceEntryType && c.last.Type == token.MappingValueType
	return t.Position.Line > c.last.Position.Line && t.Position.Column <= c.top().column && !list
}
