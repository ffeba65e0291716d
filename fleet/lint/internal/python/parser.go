package python

import "slices"

// keywords cannot be names.
var keywords = map[string]bool{
	"False": true, "None": true, "True": true, "and": true, "as": true, "assert": true, "async": true, "await": true, "break": true,
	"class": true, "continue": true, "def": true, "del": true, "elif": true, "else": true, "except": true, "finally": true, "for": true,
	"from": true, "global": true, "if": true, "import": true, "in": true, "is": true, "lambda": true, "nonlocal": true, "not": true,
	"or": true, "pass": true, "raise": true, "return": true, "try": true, "while": true, "with": true, "yield": true,
}

// form is what an expression is, as far as it matters to what may be assigned.
type form int

const (
	value    form = iota // no target
	simple               // a name
	place                // an attribute or an item
	several              // a list or tuple of targets
	starred              // a target after *
	unpacked             // another value after *
)

func (f form) target() bool { return f != value && f != unpacked }

func (f form) isAlone() bool { return f < starred }

type scope int

const (
	inModule scope = iota
	inClass
	inFunction
	inAsync
	inLambda
)

// cursor goes through the tokens of a file.
type cursor struct {
	tokens []token
	at     int
}

// parser reads statements and expressions.
type parser struct {
	cursor
	deep   int
	scopes []scope
	loops  int // around this, in this function
}

func (c *cursor) peek() token { return c.tokens[c.at] }

// is says whether the next token is this operator or keyword.
func (c *cursor) is(words ...string) bool {
	t := c.peek()
	return (t.kind == op || t.kind == name) && slices.Contains(words, t.text)
}

func (c *cursor) accept(word string) bool {
	if !c.is(word) {
		return false
	}
	c.at++
	return true
}

func (c *cursor) expect(word, what string) {
	if !c.accept(word) {
		fail(c.peek().start, "%q is missing %s, before %s", word, what, c.tokenText())
	}
}

// tokenText names the next token.
func (c *cursor) tokenText() string {
	switch t := c.peek(); t.kind {
	case newline, end:
		return "the end of the line"
	case indent:
		return "a deeper indentation"
	case dedent:
		return "the end of the block"
	case number:
		return "a number"
	case text:
		return "a string"
	case name:
		if !keywords[t.text] {
			return "a name"
		}
		return `"` + t.text + `"`
	default:
		return `"` + t.text + `"`
	}
}

func (c *cursor) name(what string) string {
	t := c.peek()
	if t.kind != name || keywords[t.text] {
		fail(t.start, "%s needs a name here, not %s", what, c.tokenText())
	}
	c.at++
	return t.text
}

// maxDeep is how deep an expression is followed.
const maxDeep = 2000

func (p *parser) deeper() func() {
	if p.deep++; p.deep > maxDeep {
		panic(tooDeep{})
	}
	return func() { p.deep-- }
}
