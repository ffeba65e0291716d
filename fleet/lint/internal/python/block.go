package python

func (p *parser) statement() {
	defer p.deeper()()
	switch t := p.peek(); {
	case t.kind == indent:
		fail(t.start, "this line is indented, and nothing above it begins a block")
	case p.is("if"):
		p.at++
		p.branches("elif")
	case p.is("while"):
		p.at++
		p.named()
		p.loop("while")
	case p.is("for"):
		p.forLoop()
	case p.is("try"):
		p.try()
	case p.is("with"):
		p.with()
	case p.is("def"):
		p.function(inFunction)
	case p.is("class"):
		p.class()
	case p.is("async"):
		p.async()
	case p.is("@"):
		p.decorated()
	case p.is("match") && p.matches():
		p.match()
	case p.is("elif", "else", "except", "finally"):
		fail(t.start, "this %q belongs to nothing above it", t.text)
	default:
		p.simple()
	}
}

// block reads a colon and what follows it.
func (p *parser) block(after string) {
	p.expect(":", "after "+after)
	if p.peek().kind != newline {
		p.simple()
		return
	}
	p.at++
	if p.peek().kind != indent {
		fail(p.peek().start, "an indented block is missing after %s", after)
	}
	p.at++
	for p.peek().kind != dedent {
		p.statement()
	}
	p.at++
}

func (p *parser) branches(again string) {
	p.named()
	p.block("the condition")
	for p.accept(again) {
		p.named()
		p.block("the condition")
	}
	p.otherwise()
}

func (p *parser) otherwise() {
	if p.accept("else") {
		p.block(`"else"`)
	}
}

func (p *parser) loop(what string) {
	p.loops++
	p.block(`"` + what + `"`)
	p.loops--
	p.otherwise()
}

func (p *parser) forLoop() {
	p.at++
	p.targets()
	p.expect("in", "after the name in this loop")
	p.list(p.element)
	p.loop("for")
}

func (p *parser) try() {
	at := p.peek().start
	p.at++
	p.block(`"try"`)
	handled := false
	for ; p.is("except"); handled = true {
		p.at++
		p.accept("*")
		if !p.is(":") {
			p.list(p.plain)
			if p.accept("as") {
				p.name(`"as"`)
			}
		}
		p.block(`"except"`)
	}
	if handled {
		p.otherwise()
	}
	switch {
	case p.accept("finally"):
		p.block(`"finally"`)
	case !handled:
		fail(at, `this "try" has neither "except" nor "finally"`)
	}
}

func (p *parser) with() {
	p.at++
	if start := p.at; !p.accept("(") || !p.attempt(func() {
		for !p.is(")") {
			p.item()
			if !p.accept(",") {
				break
			}
		}
		p.expect(")", "")
		if !p.is(":") {
			fail(0, "")
		}
	}) {
		p.at = start
		p.item()
		for p.accept(",") {
			p.item()
		}
	}
	p.block(`"with"`)
}

// attempt reads, and says whether that worked.
func (p *parser) attempt(read func()) (ok bool) {
	scopes, loops, deep := p.scopes, p.loops, p.deep
	defer func() {
		if r := recover(); r != nil {
			if _, refused := r.(refusal); !refused {
				panic(r)
			}
			p.scopes, p.loops, p.deep = scopes, loops, deep
		}
	}()
	read()
	return true
}

func (p *parser) item() {
	p.named()
	if !p.accept("as") {
		return
	}
	at := p.peek().start
	if f := p.primary(); f == value {
		fail(at, `"as" needs a name`)
	}
}

func (p *parser) function(s scope) {
	p.at++
	p.name(`"def"`)
	p.typeParameters()
	p.expect("(", "after the function's name")
	p.parameters(")", true)
	p.expect(")", "or a comma after this parameter")
	if p.accept("->") {
		p.list(p.plain)
	}
	p.inScope(s, func() { p.block(`"def"`) })
}

// typeParameters are skipped.
func (c *cursor) typeParameters() {
	if !c.is("[") {
		return
	}
	for depth := 0; ; c.at++ {
		if c.is("(", "[", "{") {
			depth++
		} else if c.is(")", "]", "}") {
			if depth--; depth == 0 {
				c.at++
				return
			}
		}
	}
}

func (p *parser) class() {
	p.at++
	p.name(`"class"`)
	p.typeParameters()
	if p.accept("(") {
		p.arguments()
	}
	p.inScope(inClass, func() { p.block(`"class"`) })
}

func (p *parser) async() {
	at := p.peek().start
	p.at++
	inside := p.scopes[len(p.scopes)-1] == inAsync
	switch {
	case p.is("def"):
		p.function(inAsync)
	case !inside && p.is("for", "with"):
		fail(at, `"async" outside of an async function`)
	case p.is("for"):
		p.forLoop()
	case p.is("with"):
		p.with()
	default:
		fail(p.peek().start, `"async" is before "def", "for" or "with", not before %s`, p.tokenText())
	}
}

func (p *parser) decorated() {
	for p.accept("@") {
		p.named()
		p.line()
	}
	if !p.is("def", "class", "async") {
		fail(p.peek().start, `a decorator is before "def" or "class", not before %s`, p.tokenText())
	}
	p.statement()
}

// matches says whether this line begins a match: only then is it followed by a case.
func (c *cursor) matches() bool {
	i := c.at
	for c.tokens[i].kind != newline {
		i++
	}
	return c.tokens[i-1].text == ":" && i+2 < len(c.tokens) && c.tokens[i+1].kind == indent && c.tokens[i+2].text == "case"
}

func (p *parser) match() {
	p.at++
	p.list(p.element)
	p.expect(":", `after "match"`)
	p.at += 2
	for p.peek().kind != dedent {
		p.expect("case", `in "match"`)
		p.pattern()
		if p.accept("if") {
			p.named()
		}
		p.block(`"case"`)
	}
	p.at++
}

// pattern is skipped, with its brackets.
func (c *cursor) pattern() {
	if c.is(":", "if") {
		fail(c.peek().start, "a pattern is missing")
	}
	for depth := 0; depth > 0 || !c.is(":", "if"); c.at++ {
		switch {
		case c.peek().kind == newline:
			return
		case c.is("(", "[", "{"):
			depth++
		case c.is(")", "]", "}"):
			depth--
		}
	}
}
