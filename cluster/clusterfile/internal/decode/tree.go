package decode

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// maxWeight limits the expansion of aliases; a thousand nodes without aliases are a twentieth
// of it.
const maxWeight = 1 << 20

// ReadTree parses a document. It returns nil if the document has nothing useful; the problems
// are in c.
func ReadTree(c *Checker, data []byte) *yamlnode.Node {
	left := maxWeight
	reader := yamlnode.Reader{Budget: &left, Odd: c.odd}
	docs, err := reader.Read(data)
	switch {
	case err != nil:
		c.syntaxError(&reader, err)
		return nil
	case left < 0: // reported already
		return nil
	case len(docs) > 1:
		c.undecodable(docs[1].At, "a second document begins here", "keep one document in a file: remove the line --- before it and what follows")
		return nil
	case len(docs) == 0 || docs[0].Kind == yamlnode.Null:
		c.undecodable(yamlnode.Pos{}, "the file is empty", "begin with name:, proxmox:, k3s: and pools:, as examples/one-gpu/cluster.yaml does")
		return nil
	case docs[0].Kind != yamlnode.Map:
		c.undecodable(docs[0].At, fmt.Sprintf("the file is %s", docs[0].Kind), "begin with name:, proxmox:, k3s: and pools:, as examples/one-gpu/cluster.yaml does")
		return nil
	}
	return docs[0]
}

// syntaxError reports the parser's error.
func (c *Checker) syntaxError(reader *yamlnode.Reader, err error) {
	if tooMuch, ok := errors.AsType[*yamlnode.Error](err); ok {
		c.undecodable(yamlnode.Pos{Line: tooMuch.Line, Col: tooMuch.Column}, "this is more than a cluster can need: "+tooMuch.What, "write it out, without anchors inside anchors and with less depth")
		return
	}
	at, what := reader.Reason(err)
	cure := "look for a missing blank after a colon, an unclosed quote or bracket, or a wrong indent, here or in the line before"
	if strings.Contains(what, "'\t'") {
		what, cure = "a tab is not allowed here", "indent with blanks"
	}
	c.undecodable(at, "this is not YAML: "+what, cure)
}

// odd reports YAML that has no meaning in a cluster file.
func (c *Checker) odd(o yamlnode.Oddity) {
	switch o.What {
	case yamlnode.Strange:
		c.undecodable(o.At, "this kind of YAML has no meaning here", "write a plain value")
	case yamlnode.NoAnchor:
		c.undecodable(o.At, fmt.Sprintf("the alias *%s has no anchor &%s above it", o.Name, o.Name), "define the anchor first, and not inside itself")
	case yamlnode.TooMuch:
		c.undecodable(o.At, "this unfolds to more than a cluster can need", "write it out, without anchors inside anchors and with less depth")
	case yamlnode.Tagged:
		if !slices.Contains([]string{"!!map", "!!seq", "!!int", "!!bool"}, o.Name) {
			c.undecodable(o.At, "YAML tags have no meaning here", "write the value without the tag")
		}
	case yamlnode.NoText:
		c.undecodable(o.At, "a key must be plain text", "write a name before the colon")
	case yamlnode.NoMap:
		c.undecodable(o.At, "<< merges mappings and nothing else", "write <<: *anchor with the anchor of a mapping")
	case yamlnode.Twice:
		c.Unclear = true
		c.Wrong(o.At, fmt.Sprintf("key %q is here twice, first in line %d", o.Name, o.First.Line), "keep one of them")
	}
}
