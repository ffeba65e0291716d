package manifest

import (
	"bytes"
	"cmp"
	"errors"

	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// Limits of what is read. A repository is not trusted: others may have written it.
const (
	MaxFile  = 8 << 20   // bytes of one file; longer ones are listed, not read
	MaxTotal = 256 << 20 // bytes of a repository
	MaxFiles = 50_000
	MaxNodes = 1 << 19   // nodes of a file with aliases expanded
	MaxPlace = 512 << 10 // bytes of one document up to which places are recorded
)

// Doc is one document of a file.
type Doc struct {
	Line int // where it begins
	Root *yamlnode.Node
}

// Syntax is a document that is not YAML.
type Syntax struct {
	At     yamlnode.Pos
	What   string
	Unread bool // it may be YAML, but exceeds our limits
}

// Docs splits a file at its "---" lines and reads each document by itself, so that a mistake
// in one does not affect the others.
func Docs(data []byte) (docs []Doc, bad []Syntax) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	budget := MaxNodes
	for _, part := range split(data) {
		if isBlank(part.text) {
			continue
		}
		root, syntax := parse(part.text, part.line-1, &budget)
		if syntax != nil {
			bad = append(bad, *syntax)
			continue
		}
		if root != nil {
			docs = append(docs, Doc{part.line, root})
		}
	}
	return docs, bad
}

type part struct {
	line int // of its first line
	text []byte
}

// split splits at lines that begin with "---", as apimachinery's YAML reader does
// (util/yaml/decoder.go), which Fleet uses for manifests.
func split(data []byte) (parts []part) {
	line, begin, first := 1, 0, 1
	for at := 0; at < len(data); {
		end := bytes.IndexByte(data[at:], '\n')
		if end < 0 {
			end = len(data) - at - 1
		}
		text := data[at : at+end+1]
		if bytes.HasPrefix(text, []byte("---")) && (len(text) == 3 || bytes.IndexByte([]byte(" \t\r\n"), text[3]) >= 0) {
			parts = append(parts, part{first, data[begin:at]})
			begin, first = at+len(text), line+1
			if rest := bytes.TrimSpace(text[3:]); len(rest) > 0 && rest[0] != '#' { // "--- {a: b}"
				begin, first = at+3, line
			}
		}
		at += end + 1
		line++
	}
	return append(parts, part{first, data[begin:]})
}

// isBlank says that a document has only comments and directives.
func isBlank(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' && !bytes.Equal(line, []byte("...")) {
			return false
		}
	}
	return true
}

// parse reads one document. If our parser and Fleet's disagree, Fleet's result is used,
// without places.
func parse(text []byte, skip int, budget *int) (root *yamlnode.Node, bad *Syntax) {
	if len(text) <= MaxPlace {
		odd := false
		r := yamlnode.Reader{Skip: skip, Budget: budget, Odd: func(o yamlnode.Oddity) { odd = odd || o.What != yamlnode.Twice }}
		docs, err := r.Read(text)
		var tooMuch *yamlnode.Error
		switch {
		case errors.As(err, &tooMuch) && tooMuch.Long: // the parser below can read it
		case errors.As(err, &tooMuch):
			return nil, &Syntax{yamlnode.Pos{Line: tooMuch.Line + skip, Col: tooMuch.Column}, tooMuch.What, true}
		case err != nil:
			at, what := r.Reason(err)
			bad = &Syntax{At: cmp.Or(at, yamlnode.Pos{Line: skip + 1, Col: 1}), What: what}
		case !odd && len(docs) == 0:
			return nil, nil
		case !odd:
			return docs[0], nil
		}
	}
	root, what := plain(text, skip, budget)
	switch {
	case what == "":
		return root, nil
	case bad != nil:
		return nil, bad
	}
	return nil, &Syntax{At: yamlnode.Pos{Line: skip + 1, Col: 1}, What: what}
}
