package python

func (p *parser) arguments() {
	keyword, double, count, generator := map[string]bool{}, false, 0, -1
	for !p.is(")") {
		at, before := p.peek().start, p.at
		switch {
		case p.accept("**"):
			p.test()
			double = true
		case p.is("*") && double:
			fail(at, "* after ** among the arguments")
		case p.accept("*"):
			p.test()
		default:
			f := p.named()
			switch {
			case p.is("="):
				word := p.tokens[before].text
				if f != simple || p.at != before+1 {
					fail(at, "an argument is named by one word before =; to compare, write ==")
				}
				if p.at++; keyword[word] {
					fail(at, "an argument that occurs twice")
				}
				keyword[word] = true
				p.test()
			case p.is("for", "async"):
				p.comprehension()
				generator = at
			case double || len(keyword) > 0:
				fail(at, "an argument without a name after one with a name")
			}
		}
		if count++; !p.accept(",") {
			break
		}
	}
	if generator >= 0 && count > 1 {
		fail(generator, "a generator beside other arguments needs brackets of its own")
	}
	p.expect(")", "or a comma after this argument")
}

// inScope reads in a scope of its own.
func (p *parser) inScope(s scope, read func()) {
	loops := p.loops
	p.scopes, p.loops = append(p.scopes, s), 0
	read()
	p.scopes, p.loops = p.scopes[:len(p.scopes)-1], loops
}

func (p *parser) yield() {
	if s := p.scopes[len(p.scopes)-1]; s < inFunction {
		fail(p.peek().start, `"yield" outside of a function`)
	}
	p.at++
	if at := p.peek().start; p.accept("from") {
		if p.scopes[len(p.scopes)-1] == inAsync {
			fail(at, `"yield from" in an async function`)
		}
		p.test()
	} else if p.startsExpression() {
		p.list(p.plain)
	}
}

// parameters are those of a function or a lambda.
func (p *parser) parameters(closing string, annotated bool) {
	seen, defaulted, star := map[string]bool{}, false, false
	for !p.is(closing) {
		at := p.peek().start
		switch {
		case p.accept("/"):
			if len(seen) == 0 || star {
				fail(at, "a / that separates no parameters")
			}
		case p.accept("**"):
			p.parameter(seen, annotated)
			p.accept(",")
			if !p.is(closing) {
				fail(p.peek().start, "** is the last parameter")
			}
			continue
		case p.accept("*"):
			if star {
				fail(at, "a second * among the parameters")
			}
			star = true
			if p.is(",") {
				if p.at++; p.is(closing) || p.is("**") {
					fail(at, "a * alone needs a name after it")
				}
				continue
			}
			p.parameter(seen, annotated)
		default:
			p.parameter(seen, annotated)
			if p.accept("=") {
				p.test()
				defaulted = true
			} else if defaulted && !star {
				fail(at, "a parameter without a default after one with a default")
			}
		}
		if !p.accept(",") {
			break
		}
	}
}

func (p *parser) parameter(seen map[string]bool, annotated bool) {
	at := p.peek().start
	word := p.name("a parameter")
	if seen[word] {
		fail(at, "a parameter that occurs twice")
	}
	seen[word] = true
	if annotated && p.accept(":") {
		if p.is("*") {
			p.element()
		} else {
			p.test()
		}
	}
}
