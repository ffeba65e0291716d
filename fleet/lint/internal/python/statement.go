package python

// simple reads the statements of a line.
func (p *parser) simple() {
	for {
		p.small()
		if !p.accept(";") || p.peek().kind == newline {
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
		fail(t.start, "%s has no place here", p.tokenText())
	case t.kind != op && p.at > 0 && p.tokens[p.at-1].kind == name && p.tokens[p.at-1].text == "print":
		fail(t.start, "print is a function: put brackets around what it prints")
	default:
		fail(t.start, "the statement should end before %s: an operator or a comma is missing, or this is not Python", p.tokenText())
	}
}

func (p *parser) small() {
	at := p.peek().start
	switch {
	case p.accept("pass"):
	case p.is("break", "continue"):
		if p.loops == 0 {
			fail(at, "%s outside of a loop", p.tokenText())
		}
		p.at++
	case p.is("return"):
		if s := p.scopes[len(p.scopes)-1]; s < inFunction {
			fail(at, `"return" outside of a function`)
		}
		if p.at++; p.startsExpression() {
			p.list(p.plain)
		}
	case p.accept("raise"):
		if p.startsExpression() {
			p.test()
			if p.accept("from") {
				p.test()
			}
		}
	case p.is("global", "nonlocal"):
		p.at++
		p.name("this")
		for p.accept(",") {
			p.name("this")
		}
	case p.accept("del"):
		if p.list(p.element) == value {
			fail(at, `"del" deletes names, attributes and items only`)
		}
	case p.accept("assert"):
		p.test()
		if p.accept(",") {
			p.test()
		}
	case p.accept("import"):
		p.imports()
	case p.accept("from"):
		p.fromImport()
	case p.is("type") && p.at+1 < len(p.tokens) && p.tokens[p.at+1].kind == name && !keywords[p.tokens[p.at+1].text]:
		p.at++
		p.name(`"type"`)
		p.typeParameters()
		p.expect("=", "after the type's name")
		p.test()
	default:
		p.assignment()
	}
}

func (p *parser) imports() {
	for {
		p.dotted()
		if p.accept("as") {
			p.name(`"as"`)
		}
		if !p.accept(",") {
			return
		}
	}
}

func (p *parser) dotted() {
	p.name(`"import"`)
	for p.accept(".") {
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
	p.expect("import", `after "from"`)
	if p.accept("*") {
		return
	}
	closing := p.accept("(")
	for {
		p.name(`"import"`)
		if p.accept("as") {
			p.name(`"as"`)
		}
		if !p.accept(",") || closing && p.is(")") {
			break
		}
	}
	if closing {
		p.expect(")", "or a comma after this name")
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
			fail(at, "%s changes a name, an attribute or an item only", p.tokenText())
		}
		p.at++
		p.right()
	case p.is(":") && (f == simple || f == place):
		p.at++
		p.test()
		if p.accept("=") {
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
