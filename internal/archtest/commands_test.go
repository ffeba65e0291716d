package archtest_test

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// printedCommand is a command in a text for a person, up to where its words end.
var printedCommand = regexp.MustCompile("\\b(?:homelab [a-z0-9]+:[a-z]+|pveum|pvesm|pvesh|qm|kubectl(?: --[a-z]+=%s)?|helm|chmod|ssh -p|sudo|ssh-add|environment: export|systemctl|journalctl|ip link|as root on another host: rm) (?::\\S|[^;,:`(\n])*%[sqv](?::\\S|[^;,:`(\n])*")

// verb is one verb of a format.
var verb = regexp.MustCompile(`%[-+# 0]*(?:\[(\d+)\])?[0-9.*]*[a-zA-Z%]`)

// harmless are arguments that need no quotes: constants, words that were quoted before they were
// joined, and names in a sentence behind the command.
var harmless = []string{
	"labelManagedBy", "managedByHelm", "noteName", "noteNamespace", "fabricService", "k3s.ClusterFile", "flag", "p.URL", "vm.Host",
	"wire.ZeroOne(r.Propagate)", "n.Address.Addr()", "tokenWords(e.Token)", `strings.Join(options, " ")`, "printable.Text(spec.Owner)", "undo",
}

// TestPrintedCommandsQuote: whatever the product prints as a command, a person may copy into a
// shell, so each word that is not its own goes through [printable.Word].
func TestPrintedCommandsQuote(t *testing.T) {
	seen := 0
	for _, s := range sources(t) {
		if inside(s.name, "sim") || inside(s.name, "docs") || inside(s.name, "examples") || s.name == "magefiles" {
			continue
		}
		for _, tree := range s.trees {
			ast.Inspect(tree, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				for i, arg := range call.Args {
					format, ok := literal(arg)
					if !ok || !strings.Contains(format, "%") {
						continue
					}
					for at, word := range wordsOf(format) {
						seen++
						if i+1+at >= len(call.Args) {
							continue
						}
						if a := call.Args[i+1+at]; !quotes(a) && !slices.Contains(harmless, types.ExprString(a)) {
							assert.Fail(t, "a word of a command that is not quoted", "%s: %q, the %s: write printable.Word(…)", s.files.Position(a.Pos()), format, word)
						}
					}
				}
				return true
			})
		}
	}
	assert.Greater(t, seen, 30)
}

// literal is a text in the source, also one in several pieces.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, e.Kind == token.STRING && err == nil
	case *ast.BinaryExpr:
		a, ok := literal(e.X)
		b, also := literal(e.Y)
		return a + b, ok && also
	case *ast.ParenExpr:
		return literal(e.X)
	}
	return "", false
}

// wordsOf are the texts that a format puts into its commands: the number of the argument, and
// its verb.
func wordsOf(format string) map[int]string {
	out := map[int]string{}
	spans := printedCommand.FindAllStringIndex(format, -1)
	next := 0
	for _, m := range verb.FindAllStringSubmatchIndex(format, -1) {
		text := format[m[0]:m[1]]
		if text == "%%" {
			continue
		}
		at := next
		if m[2] >= 0 {
			n, _ := strconv.Atoi(format[m[2]:m[3]])
			at = n - 1
		}
		next = at + 1
		for _, s := range spans {
			if m[0] >= s[0] && m[1] <= s[1] && strings.ContainsAny(text[len(text)-1:], "sqv") {
				out[at] = text
			}
		}
	}
	return out
}

// quotes reports whether an argument is a word for a shell.
func quotes(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, ok := sel.X.(*ast.Ident)
	return ok && of.Name == "printable" && sel.Sel.Name == "Word"
}
