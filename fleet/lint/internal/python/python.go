package python

import "strings"

// tooDeep ends the reading of a text that only exists to exhaust what reads it.
type tooDeep struct{}

// Check returns the first mistake of a text for which Python refuses to compile it; nil for none.
func Check(src string) (found *Fault) {
	src = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(src, "\ufeff"))
	defer func() {
		switch r := recover().(type) {
		case nil, tooDeep:
		case refusal:
			at := min(r.at, len(src))
			found = &Fault{Line: lineOf(src, at), Col: at - strings.LastIndexByte(src[:at], '\n'), What: r.what}
		default:
			panic(r)
		}
	}()
	s := &scanner{src: src}
	p := &parser{cursor: cursor{tokens: s.scan()}, scopes: []scope{inModule}}
	for p.peek().kind != end {
		p.statement()
	}
	return nil
}
