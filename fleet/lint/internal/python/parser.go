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

func (f form) alone() bool { return f < starred }

type scope int

const (
	inModule scope = iota
	inClass
	inFunction
	inAsync
	inLambda
)

type parser struct {
	src    string
	tokens []token
	at     int
	deep   int
	scopes []scope
	loops  int // around this, in this function
}

func (p *parser) peek() token { return p.tokens[p.at] }

// is says whether the next token is this operator or keyword.
func (p *parser) is(words ...string) bool {
	t := p.peek()
	return (t.kind == op || t.kind == name) && slices.Contains(words, t.text)
}

func (p *parser) take(word string) bool {
	if !p.is(word) {
		return false
	}
	p.at++
	return true
}

func (p *parser) need(word, what string) {
	if !p.take(word) {
		fail(p.peek().start, "%q is missing %s, before %s", word, what, p.said())
	}
}

// said names the next token.
func (p *parser) said() string {
	switch t := p.peek(); t.kind {
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

func (p *parser) name(what string) string {
	t := p.peek()
	if t.kind != name || keywords[t.text] {
		fail(t.start, "%s needs a name here, not %s", what, p.said())
	}
	p.at++
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
