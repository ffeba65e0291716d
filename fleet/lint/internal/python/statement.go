package python

// simple reads the statements of a line.
func (p *parser) simple() {
	for {
		p.small()
		if !p.take(";") || p.peek().kind == newline {
			break
		}
	}
	p.line()
}

// line reads the end of a line.
func (p *parser) line() {
	t := p.peek()
	switch {
	case t.kind == newline:
		p.at++
	case p.is("=") || p.is(":="):
		fail(t.start, "%s has no place here", p.said())
	case t.kind != op && p.at > 0 && p.tokens[p.at-1].kind == name && p.tokens[p.at-1].text == "print":
		fail(t.start, "print is a function: put brackets around what it prints")
	default:
		fail(t.start, "the statement should end before %s: an operator or a comma is missing, or this is not Python", p.said())
	}
}

func (p *parser) small() {
	at := p.peek().start
	switch {
	case p.take("pass"):
	case p.is("break", "continue"):
		if p.loops == 0 {
			fail(at, "%s outside of a loop", p.said())
		}
		p.at++
	case p.is("return"):
		if s := p.scopes[len(p.scopes)-1]; s < inFunction {
			fail(at, `"return" outside of a function`)
		}
		if p.at++; p.begins() {
			p.list(p.plain)
		}
	case p.take("raise"):
		if p.begins() {
			p.test()
			if p.take("from") {
				p.test()
			}
		}
	case p.is("global", "nonlocal"):
		p.at++
		p.name("this")
		for p.take(",") {
			p.name("this")
		}
	case p.take("del"):
		if p.list(p.element) == value {
			fail(at, `"del" deletes names, attributes and items only`)
		}
	case p.take("assert"):
		p.test()
		if p.take(",") {
			p.test()
		}
	case p.take("import"):
		p.imports()
	case p.take("from"):
		p.fromImport()
	case p.is("type") && p.at+1 < len(p.tokens) && p.tokens[p.at+1].kind == name && !keywords[p.tokens[p.at+1].text]:
		p.at++
		p.name(`"type"`)
		p.typeParameters()
		p.need("=", "after the type's name")
		p.test()
	default:
		p.assignment()
	}
}

func (p *parser) imports() {
	for {
		p.dotted()
		if p.take("as") {
			p.name(`"as"`)
		}
		if !p.take(",") {
			return
		}
	}
}

func (p *parser) dotted() {
	p.name(`"import"`)
	for p.take(".") {
		p.name("a module")
	}
}

func (p *parser) fromImport() {
	dots := false
	for p.is(".", "...") {
		p.at++
		dots = true
	}
	if !dots || !p.is("import") {
		p.dotted()
	}
	p.need("import", `after "from"`)
	if p.take("*") {
		return
	}
	closing := p.take("(")
	for {
		p.name(`"import"`)
		if p.take("as") {
			p.name(`"as"`)
		}
		if !p.take(",") || closing && p.is(")") {
			break
		}
	}
	if closing {
		p.need(")", "or a comma after this name")
	}
}

var augmented = []string{"+=", "-=", "*=", "/=", "//=", "%=", "@=", "&=", "|=", "^=", ">>=", "<<=", "**="}

// assignment is one, or an expression alone.
func (p *parser) assignment() {
	at := p.peek().start
	f := p.right()
	switch {
	case p.is(augmented...):
		if f != simple && f != place {
			fail(at, "%s changes a name, an attribute or an item only", p.said())
		}
		p.at++
		p.right()
	case p.is(":") && (f == simple || f == place):
		p.at++
		p.test()
		if p.take("=") {
			p.right()
		}
	case p.is("="):
		for p.is("=") {
			if f == value {
				fail(at, "= assigns to a name, an attribute or an item only; to compare, write ==")
			}
			p.at++
			at = p.peek().start
			f = p.right()
		}
	}
}

func (p *parser) right() form {
	if p.is("yield") {
		p.yield()
		return value
	}
	return p.list(p.plain)
}
