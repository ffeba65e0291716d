package python

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fault is a mistake, with its place from 1.
type Fault struct {
	Line, Col int
	What      string // quotes no text, which may be a secret
}

type kind int

const (
	end kind = iota
	newline
	indent
	dedent
	name
	number
	text
	op
)

type token struct {
	kind  kind
	text  string // "b" or "" for a text: whether it is of bytes
	start int    // in the source
}

// scanner divides a text into tokens (Python's "Lexical analysis").
type scanner struct {
	src     string
	at      int
	out     []token
	open    []token // brackets
	indents [][2]int
	deep    int // strings within fields of strings
}

// fail stops the scan, or the parse.
func fail(at int, format string, args ...any) {
	panic(refusal{at, fmt.Sprintf(format, args...)})
}

// refusal carries a mistake up to Check.
type refusal struct {
	at   int
	what string
}

// maxNested is Python's own limit for brackets (tokenizer.h MAXLEVEL).
const maxNested = 200

func (s *scanner) scan() []token {
	s.indents = [][2]int{{0, 0}}
	for fresh := true; s.at < len(s.src); {
		if fresh && len(s.open) == 0 && s.indentation() {
			continue // nothing on this line
		}
		fresh = s.scanToken()
	}
	if len(s.open) > 0 {
		last := s.open[len(s.open)-1]
		fail(last.start, "the bracket %s is never closed", last.text)
	}
	if n := len(s.out); n > 0 && s.out[n-1].kind != newline {
		s.add(newline, "")
	}
	for range s.indents[1:] {
		s.add(dedent, "")
	}
	s.add(end, "")
	return s.out
}

func (s *scanner) add(k kind, text string) { s.out = append(s.out, token{k, text, s.at}) }

// indentation reads the start of a line: true if the line has no code.
func (s *scanner) indentation() bool {
	start, wide, narrow := s.at, 0, 0 // a tab counts as up to 8, and as 1: both must agree
	for ; s.at < len(s.src); s.at++ {
		switch s.src[s.at] {
		case ' ':
			wide, narrow = wide+1, narrow+1
			continue
		case '\t':
			wide, narrow = (wide/8+1)*8, narrow+1
			continue
		case '\f':
			wide, narrow = 0, 0
			continue
		}
		break
	}
	switch {
	case s.at == len(s.src):
		return true
	case s.src[s.at] == '#':
		s.comment()
		return true
	case s.src[s.at] == '\n':
		s.at++
		return true
	case strings.HasPrefix(s.src[s.at:], "\\\n"):
		return false // the next line goes on, with this indentation
	}
	top := s.indents[len(s.indents)-1]
	if wide > top[0] {
		if narrow <= top[1] {
			fail(start, "tabs and spaces are mixed in the indentation")
		}
		s.indents = append(s.indents, [2]int{wide, narrow})
		s.add(indent, "")
		return false
	}
	for wide < top[0] {
		s.indents = s.indents[:len(s.indents)-1]
		top = s.indents[len(s.indents)-1]
		s.add(dedent, "")
	}
	if wide != top[0] {
		fail(s.at, "this indentation is that of no line above")
	}
	if narrow != top[1] {
		fail(start, "tabs and spaces are mixed in the indentation")
	}
	return false
}

func (s *scanner) comment() {
	for s.at < len(s.src) && s.src[s.at] != '\n' {
		s.at++
	}
}

var (
	numbers   = regexp.MustCompile(`^(0[xX](_?[0-9a-fA-F])+|0[oO](_?[0-7])+|0[bB](_?[01])+|(\d(_?\d)*)?\.\d(_?\d)*([eE][+-]?\d(_?\d)*)?[jJ]?|\d(_?\d)*\.?([eE][+-]?\d(_?\d)*)?[jJ]?)`)
	zeros     = regexp.MustCompile(`^0[0_]*[1-9][0-9_]*$`)
	afterward = regexp.MustCompile(`^(and|else|for|if|in|is|or|not)\b`) // may follow a number at once
	prefixes  = regexp.MustCompile(`(?i)^([rubft]|br|rb|fr|rf|tr|rt)?$`)
)

// operators are those of one, two and three characters, each between blanks.
const operators = " **= //= >>= <<= ... != -> := == <= >= += -= *= /= %= &= |= ^= @= ** // << >> - + * / % @ & | ^ ~ < > ( ) [ ] { } , : . ; = "

// operator is the longest one at the beginning of a text.
func operator(src string) string {
	for n := min(3, len(src)); n > 0; n-- {
		if !strings.ContainsAny(src[:n], " \n") && strings.Contains(operators, " "+src[:n]+" ") {
			return src[:n]
		}
	}
	return ""
}

// scanToken reads one token; true: it was the end of a line.
func (s *scanner) scanToken() bool {
	c := s.src[s.at]
	r, size := utf8.DecodeRuneInString(s.src[s.at:])
	switch {
	case c == '\n':
		if len(s.open) == 0 {
			s.add(newline, "")
		}
		s.at++
		return true
	case c == ' ', c == '\t', c == '\f':
		s.at++
	case c == '#':
		s.comment()
	case c == '\\':
		if !strings.HasPrefix(s.src[s.at:], "\\\n") {
			fail(s.at, "a backslash outside of a string, and not at the end of its line")
		}
		s.at += 2
		if s.at == len(s.src) {
			fail(s.at-2, "the last line ends in a backslash")
		}
	case c == '"', c == '\'':
		s.text("")
	case c >= '0' && c <= '9', c == '.' && s.at+1 < len(s.src) && s.src[s.at+1] >= '0' && s.src[s.at+1] <= '9':
		s.number()
	case r == '_' || unicode.IsLetter(r) || unicode.Is(unicode.Other_ID_Start, r) || unicode.Is(unicode.Nl, r):
		s.name()
	default:
		match := operator(s.src[s.at:])
		if match == "" {
			fail(s.at, "a character that Python does not know: %q", s.src[s.at:s.at+size])
		}
		s.bracket(match)
		s.add(op, match)
		s.at += len(match)
	}
	return false
}

func (s *scanner) name() {
	start := s.at
	for s.at < len(s.src) {
		r, size := utf8.DecodeRuneInString(s.src[s.at:])
		if r != '_' && !unicode.In(r, unicode.L, unicode.Nd, unicode.Nl, unicode.Mn, unicode.Mc, unicode.Pc, unicode.Other_ID_Start, unicode.Other_ID_Continue) {
			break
		}
		s.at += size
	}
	word := s.src[start:s.at]
	if s.at < len(s.src) && (s.src[s.at] == '"' || s.src[s.at] == '\'') && prefixes.MatchString(word) {
		s.text(strings.ToLower(word))
		return
	}
	s.out = append(s.out, token{name, word, start})
}

func (s *scanner) number() {
	match := numbers.FindString(s.src[s.at:])
	rest := s.src[s.at+len(match):]
	r, _ := utf8.DecodeRuneInString(rest)
	switch {
	case zeros.MatchString(match):
		fail(s.at, "a number that begins with 0: write 0o for an octal one")
	case (r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)) && !afterward.MatchString(rest):
		fail(s.at, "a name cannot begin with a digit, nor a number end in a letter")
	}
	s.add(number, "")
	s.at += len(match)
}

func (s *scanner) bracket(b string) {
	closing := strings.Index(")]}", b)
	switch {
	case strings.Contains("([{", b):
		s.open = append(s.open, token{op, b, s.at})
		if len(s.open) > maxNested {
			fail(s.at, "more than %d brackets in each other", maxNested)
		}
	case closing < 0:
	case len(s.open) == 0:
		fail(s.at, "this %s closes nothing", b)
	default:
		last := s.open[len(s.open)-1]
		if last.text != "([{"[closing:closing+1] {
			fail(s.at, "this %s does not close the %s of line %d", b, last.text, lineOf(s.src, last.start))
		}
		s.open = s.open[:len(s.open)-1]
	}
}

// text reads a string whose prefix has been read.
func (s *scanner) text(prefix string) {
	if s.deep++; s.deep > maxNested {
		panic(tooDeep{})
	}
	defer func() { s.deep-- }()
	start := s.at - len(prefix)
	quote := s.src[s.at : s.at+1]
	if three := strings.Repeat(quote, 3); strings.HasPrefix(s.src[s.at:], three) {
		quote = three
	}
	s.at += len(quote)
	bytes := strings.Contains(prefix, "b")
	s.scanString(start, quote, strings.Contains(prefix, "r"), strings.ContainsAny(prefix, "ft"), bytes)
	s.at += len(quote)
	kindOf := ""
	if bytes {
		kindOf = "b"
	}
	s.out = append(s.out, token{text, kindOf, start})
}

// scanString reads up to the closing quotes.
func (s *scanner) scanString(start int, quote string, raw, fields, bytes bool) {
	for !strings.HasPrefix(s.src[s.at:], quote) {
		switch {
		case s.at >= len(s.src), s.src[s.at] == '\n' && len(quote) == 1:
			fail(start, "a string that does not end: its closing %s is missing", quote)
		case bytes && s.src[s.at] >= utf8.RuneSelf:
			fail(s.at, "a letter that is not ASCII in a string of bytes")
		case s.src[s.at] == '\\':
			s.escape(raw, fields, bytes)
		case fields && s.src[s.at] == '{':
			if s.at++; strings.HasPrefix(s.src[s.at:], "{") {
				s.at++
				continue
			}
			s.field(start, quote)
		case fields && s.src[s.at] == '}':
			if !strings.HasPrefix(s.src[s.at:], "}}") {
				fail(s.at, "a single } in an f-string: double it")
			}
			s.at += 2
		default:
			s.at++
		}
	}
}

var escapes = regexp.MustCompile(`^(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U00(0[0-9a-fA-F]|10)[0-9a-fA-F]{4}|N\{[^}\n]*\})`)

// escape reads a backslash and what it protects.
func (s *scanner) escape(raw, fields, bytes bool) {
	rest := s.src[s.at+1:]
	if !raw && rest != "" && (rest[0] == 'x' || !bytes && strings.IndexByte("uUN", rest[0]) >= 0) {
		match := escapes.FindString(rest)
		if match == "" {
			fail(s.at, "\\%c begins a character's number, and none follows: double the backslash", rest[0])
		}
		s.at += 1 + len(match)
		return
	}
	if s.at++; fields && strings.HasPrefix(s.src[s.at:], "{") {
		return // a field follows
	}
	s.at = min(s.at+1, len(s.src))
}

// field reads a replacement field of an f-string after its brace. What is in it is not parsed.
func (s *scanner) field(start int, quote string) {
	var open []byte
	for s.at < len(s.src) {
		c := s.src[s.at]
		switch {
		case c == '"' || c == '\'':
			if strings.HasPrefix(s.src[s.at:], quote) && !s.endsOnLine(quote) {
				fail(s.at, "a field of an f-string without its closing }")
			}
			s.nested()
			continue
		case c == '#':
			s.comment()
			continue
		case strings.IndexByte("([{", c) >= 0:
			if open = append(open, c); len(open) > maxNested {
				fail(s.at, "more than %d brackets in each other", maxNested)
			}
		case c == '}' && len(open) == 0:
			s.at++
			return
		case strings.IndexByte(")]}", c) >= 0:
			if len(open) == 0 {
				fail(s.at, "this %c closes nothing in its f-string", c)
			}
			open = open[:len(open)-1]
		case c == ':' && len(open) == 0:
			s.format(start, quote)
			return
		}
		s.at++
	}
	fail(start, "a string that does not end: its closing %s is missing", quote)
}

// endsOnLine says whether quotes within a field are a string of their own.
func (s *scanner) endsOnLine(quote string) bool {
	rest := s.src[s.at+len(quote):]
	i := strings.IndexAny(rest, quote[:1]+"\n")
	return i >= 0 && (rest[i] != '\n' || len(quote) > 1)
}

// nested reads a string within a field.
func (s *scanner) nested() {
	start := s.at
	for start > 0 && unicode.IsLetter(rune(s.src[start-1])) {
		start--
	}
	prefix := strings.ToLower(s.src[start:s.at])
	if !prefixes.MatchString(prefix) {
		prefix = ""
	}
	before := len(s.out)
	s.text(prefix)
	s.out = slices.Delete(s.out, before, len(s.out))
}

// format reads the format of a field, up to its closing brace.
func (s *scanner) format(start int, quote string) {
	for s.at++; s.at < len(s.src); {
		switch c := s.src[s.at]; {
		case strings.HasPrefix(s.src[s.at:], quote):
			fail(s.at, "a field of an f-string without its closing }")
		case c == '}':
			s.at++
			return
		case c == '{':
			s.at++
			s.field(start, quote)
		case c == '\\':
			s.at += 2
		default:
			s.at++
		}
	}
	fail(start, "a string that does not end: its closing %s is missing", quote)
}

func lineOf(src string, at int) int { return 1 + strings.Count(src[:min(at, len(src))], "\n") }
