package cloudinit

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// plain matches text that every YAML reader reads as a string. cloud-init uses PyYAML, which
// reads YAML 1.1: there, 0600 is an octal number, on is true and 10:20:30 is a number in base
// sixty. All other text is quoted.
var plain = regexp.MustCompile(`^(/|[A-Za-z][A-Za-z0-9_]*[-./])[-A-Za-z0-9_./]*$|^[A-Za-z][A-Za-z0-9_]*$`)

// reserved are the words of YAML 1.1 that are not strings.
var reserved = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

// marshal writes v as YAML, block style, every doubtful string quoted and longer
// texts as literal blocks.
func marshal(v any) ([]byte, error) {
	node, err := yaml.ValueToNode(v, yaml.UseLiteralStyleIfMultiline(true), yaml.IndentSequence(true))
	if err != nil {
		return nil, err
	}
	ast.Walk(quoter{}, node)
	return append([]byte(node.String()), '\n'), nil
}

// quoter sets how each node is written. Lists in lists (commands, fstab lines)
// take one line each.
type quoter struct{}

func (q quoter) Visit(node ast.Node) ast.Visitor {
	switch n := node.(type) {
	case *ast.SequenceNode:
		for _, item := range n.Values {
			if inner, ok := item.(*ast.SequenceNode); ok {
				inner.IsFlowStyle = true
				for _, text := range inner.Values {
					if s, ok := text.(*ast.StringNode); ok {
						quote(s, false)
					}
				}
			}
		}
	case *ast.StringNode:
		quote(n, true)
	}
	return q
}

func quote(n *ast.StringNode, block bool) {
	if n.Token.Type == token.DoubleQuoteType {
		return // handled, as part of a list on one line
	}
	if strings.HasPrefix(n.Value, `"`) { // quoted by the library, which then holds it for plain text
		if text, err := strconv.Unquote(n.Value); err == nil {
			n.Value = text
		}
	}
	switch {
	case block && strings.Contains(n.Value, "\n") && literal(n.Value):
	case plain.MatchString(n.Value) && !slices.Contains(reserved, strings.ToLower(n.Value)):
		n.Token.Type = token.StringType
	default:
		n.Token.Type = token.DoubleQuoteType
	}
}

// literal reports whether text can be a YAML literal block without loss: lines of
// printable characters, the first one not indented, none ending in a blank.
func literal(text string) bool {
	if strings.HasPrefix(text, " ") || strings.HasPrefix(text, "\n") || !strings.HasSuffix(text, "\n") || strings.HasSuffix(text, "\n\n") {
		return false
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasSuffix(line, " ") || strings.HasSuffix(line, "\t") || strings.HasPrefix(line, "\t") {
			return false
		}
		for _, r := range line {
			if r != '\t' && (r < ' ' || r > '~') {
				return false
			}
		}
	}
	return true
}
