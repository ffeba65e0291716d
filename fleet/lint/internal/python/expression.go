package python

// list reads expressions with commas between them: star_expressions of the grammar.
func (p *parser) list(one func() form) form {
	at := p.peek().start
	first := one()
	if !p.is(",") {
		if !first.isAlone() {
			fail(at, "* needs a list around it, or a comma after it")
		}
		return first
	}
	all := first.target()
	for p.accept(",") {
		if !p.startsExpression() {
			break
		}
		all = one().target() && all
	}
	if all {
		return several
	}
	return value
}

// startsExpression says whether an expression can begin here.
func (p *parser) startsExpression() bool {
	switch t := p.peek(); t.kind {
	case number, text:
		return true
	case name:
		return !keywords[t.text] || p.is("False", "None", "True", "await", "lambda", "not", "yield")
	case op:
		return p.is("(", "[", "{", "-", "+", "~", "*", "**", "...")
	}
	return false
}

// element is a member of a list: an expression, with * before it or := in it.
func (p *parser) element() form {
	if p.accept("*") {
		if p.binary(true) == value {
			return unpacked
		}
		return starred
	}
	return p.named()
}

// plain is a member of a list without brackets, in which := has no place.
func (p *parser) plain() form {
	if p.is("*") {
		return p.element()
	}
	return p.test()
}

func (p *parser) named() form {
	at := p.peek().start
	left := p.test()
	if !p.is(":=") {
		return left
	}
	if left != simple {
		fail(at, ":= assigns to a name only")
	}
	p.at++
	p.test()
	return value
}

func (p *parser) test() form {
	defer p.deeper()()
	if p.accept("lambda") {
		p.parameters(":", false)
		p.expect(":", "after the parameters of lambda")
		p.inScope(inLambda, func() { p.test() })
		return value
	}
	left := p.either()
	if !p.accept("if") {
		return left
	}
	p.either()
	p.expect("else", "after the condition")
	p.test()
	return value
}

// either is or, and, not, and what binds closer.
func (p *parser) either() form {
	left := p.negated()
	for p.is("or", "and") {
		p.at++
		p.negated()
		left = value
	}
	return left
}

func (p *parser) negated() form {
	not := false
	for p.accept("not") {
		not = true
	}
	if left := p.binary(true); !not {
		return left
	}
	return value
}

var binaries = []string{"==", "!=", "<=", ">=", "<", ">", "in", "is", "+", "-", "*", "/", "//", "%", "@", "&", "|", "^", "<<", ">>", "**"}

// binary reads operands with operators between them; their order of precedence does not matter.
func (p *parser) binary(in bool) form {
	left := p.operand()
	for {
		switch {
		case p.is("not") && in:
			if p.at++; !p.accept("in") {
				fail(p.peek().start, `"not" between two values needs "in" after it`)
			}
		case p.is("in") && !in, !p.is(binaries...):
			return left
		case p.accept("is"):
			p.accept("not")
		default:
			p.at++
		}
		p.operand()
		left = value
	}
}

func (p *parser) operand() form {
	signed := false
	for p.is("-", "+", "~") {
		p.at++
		signed = true
	}
	if at := p.peek().start; p.accept("await") {
		if p.scopes[len(p.scopes)-1] != inAsync {
			fail(at, `"await" outside of an async function`)
		}
		signed = true
	}
	if left := p.primary(); !signed {
		return left
	}
	return value
}

func (p *parser) primary() form {
	defer p.deeper()()
	left := p.atom()
	for {
		switch {
		case p.accept("."):
			p.name("a dot")
			left = place
		case p.accept("("):
			p.arguments()
			left = value
		case p.accept("["):
			p.subscript()
			for p.accept(",") && !p.is("]") {
				p.subscript()
			}
			p.expect("]", "after the index")
			left = place
		default:
			return left
		}
	}
}

func (p *parser) subscript() {
	if p.is("*") {
		p.element()
		return
	}
	if !p.is(":") {
		p.named()
	}
	for range 2 {
		if p.accept(":") && p.startsExpression() {
			p.test()
		}
	}
}

func (p *parser) atom() form {
	switch t := p.peek(); {
	case t.kind == name && !keywords[t.text]:
		p.at++
		return simple
	case t.kind == number, p.is("None", "True", "False", "..."):
		p.at++
		return value
	case t.kind == text:
		for ; p.peek().kind == text; p.at++ {
			if p.peek().text != t.text {
				fail(p.peek().start, "a string of bytes beside one of text: Python joins strings of one kind only")
			}
		}
		return value
	case p.accept("("):
		return p.parenthesis()
	case p.accept("["):
		return p.brackets()
	case p.accept("{"):
		p.braces()
		return value
	}
	fail(p.peek().start, "a value is missing before %s", p.tokenText())
	return value
}

func (p *parser) parenthesis() form {
	if p.accept(")") {
		return several
	}
	var f form
	if p.is("yield") {
		p.yield()
	} else {
		at := p.peek().start
		if f = p.element(); p.is("for", "async") {
			p.comprehension()
			f = value
		} else if p.is(",") {
			f = p.rest(f, ")")
		} else if !f.isAlone() {
			fail(at, "* needs a list around it, or a comma after it")
		}
	}
	p.expect(")", "after what is in the bracket")
	return f
}

func (p *parser) brackets() form {
	if p.accept("]") {
		return several
	}
	f := p.element()
	if p.is("for", "async") {
		p.comprehension()
		f = value
	} else {
		f = p.rest(f, "]")
	}
	p.expect("]", "after what is in the list")
	return f
}

// rest reads the other elements up to a bracket.
func (p *parser) rest(first form, closing string) form {
	all := first.target()
	for p.accept(",") && !p.is(closing) {
		all = p.element().target() && all
	}
	if all {
		return several
	}
	return value
}

// braces reads a dictionary or a set.
func (p *parser) braces() {
	pairs, singles := false, false
	for first := true; !p.is("}"); first = false {
		at := p.peek().start
		if p.accept("**") {
			p.binary(true)
			pairs = true
		} else {
			p.element()
			if p.accept(":") {
				p.test()
				pairs = true
			} else {
				singles = true
			}
			if first && p.is("for", "async") {
				p.comprehension()
			}
		}
		if pairs && singles {
			fail(at, "a dictionary has a key and a value, with a colon between them, in each entry")
		}
		if !p.accept(",") {
			break
		}
	}
	p.expect("}", "or a comma after this entry")
}

func (p *parser) comprehension() {
	for p.is("for", "async") {
		p.accept("async")
		p.expect("for", "after async")
		p.targets()
		p.expect("in", "after the name in this loop")
		p.either()
		for p.accept("if") {
			p.either()
		}
	}
}

// targets are those of a loop.
func (p *parser) targets() {
	at := p.peek().start
	f := p.list(func() form {
		if p.accept("*") {
			p.binary(false)
			return starred
		}
		return p.binary(false)
	})
	if f == value {
		fail(at, "a loop assigns to names, and this is none")
	}
}
