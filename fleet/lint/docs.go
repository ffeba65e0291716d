package lint

import (
	"bytes"
	"cmp"
	"errors"

	"github.com/cps-gpu/homelab/internal/yamlbound"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// Limits of what is read: a repository is somebody else's, and is not trusted.
const (
	lintMaxFile  = 8 << 20   // bytes of one file; longer ones are carried, not read
	lintMaxTotal = 256 << 20 // bytes of a repository
	lintMaxFiles = 50_000
	lintMaxTree  = 1 << 19   // nodes that a file unfolds to, with what aliases repeat
	lintMaxPlace = 512 << 10 // bytes of one document up to which places are looked for
)

// lintDoc is one document of a file.
type lintDoc struct {
	line int // where it begins
	root *yamlnode.Node
}

// lintSyntax is a document that is not YAML.
type lintSyntax struct {
	at     yamlnode.Pos
	what   string
	unread bool // it may be YAML: there is more of it than we read
}

// lintDocs splits a file at its "---" lines and reads each document by itself, so
// that what is wrong in one leaves the others.
func lintDocs(data []byte) (docs []lintDoc, bad []lintSyntax) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	budget := lintMaxTree
	for _, part := range lintSplit(data) {
		if lintBlank(part.text) {
			continue
		}
		root, syntax := lintParse(part.text, part.line-1, &budget)
		if syntax != nil {
			bad = append(bad, *syntax)
			continue
		}
		if root != nil {
			docs = append(docs, lintDoc{part.line, root})
		}
	}
	return docs, bad
}

type lintPart struct {
	line int // of its first line
	text []byte
}

// lintSplit cuts at lines that begin with "---", as apimachinery's YAML reader does
// (util/yaml/decoder.go), by which Fleet reads manifests.
func lintSplit(data []byte) (parts []lintPart) {
	line, begin, first := 1, 0, 1
	for at := 0; at < len(data); {
		end := bytes.IndexByte(data[at:], '\n')
		if end < 0 {
			end = len(data) - at - 1
		}
		text := data[at : at+end+1]
		if bytes.HasPrefix(text, []byte("---")) && (len(text) == 3 || bytes.IndexByte([]byte(" \t\r\n"), text[3]) >= 0) {
			parts = append(parts, lintPart{first, data[begin:at]})
			begin, first = at+len(text), line+1
			if rest := bytes.TrimSpace(text[3:]); len(rest) > 0 && rest[0] != '#' { // "--- {a: b}"
				begin, first = at+3, line
			}
		}
		at += end + 1
		line++
	}
	return append(parts, lintPart{first, data[begin:]})
}

// lintBlank says that a document holds comments and directives only.
func lintBlank(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' && !bytes.Equal(line, []byte("...")) {
			return false
		}
	}
	return true
}

// lintParse reads one document. Where our parser and the one that Fleet uses
// disagree, Fleet's is right, and the places are lost.
func lintParse(text []byte, skip int, budget *int) (root *yamlnode.Node, bad *lintSyntax) {
	if len(text) <= lintMaxPlace {
		odd := false
		r := yamlnode.Reader{Skip: skip, Budget: budget, Odd: func(o yamlnode.Oddity) { odd = odd || o.What != yamlnode.Twice }}
		docs, err := r.Read(text)
		var tooMuch *yamlbound.Error
		switch {
		case errors.As(err, &tooMuch) && tooMuch.Long: // the parser below has no trouble with it
		case errors.As(err, &tooMuch):
			return nil, &lintSyntax{yamlnode.Pos{Line: tooMuch.Line + skip, Col: tooMuch.Column}, tooMuch.What, true}
		case err != nil:
			at, what := r.Reason(err)
			bad = &lintSyntax{at: cmp.Or(at, yamlnode.Pos{Line: skip + 1, Col: 1}), what: what}
		case !odd && len(docs) == 0:
			return nil, nil
		case !odd:
			return docs[0], nil
		}
	}
	root, what := lintPlain(text, skip, budget)
	switch {
	case what == "":
		return root, nil
	case bad != nil:
		return nil, bad
	}
	return nil, &lintSyntax{at: yamlnode.Pos{Line: skip + 1, Col: 1}, what: what}
}
