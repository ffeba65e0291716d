package archtest_test

import (
	"go/ast"
	"testing"

	"github.com/stretchr/testify/assert"
)

// contextValues are the packages that put something into a context, and why no parameter does.
var contextValues = map[string]string{
	"converge": "deep code reports progress to who listens at the edge; Confirm and Acts ask about the step whose Act a context " +
		"belongs to, wherever it is, which never changes",
	"magefiles/targets":    "what a program's main adds reaches the functions that cobra and Mage call, whose parameters are flags; it never changes",
	"proxmox/internal/api": "one request of a lease's own passes the guard that waits for the lease; it never changes",
}

// TestContextsCarryNoState: what a function needs is its parameter, or a field of its receiver.
func TestContextsCarryNoState(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		if inside(s.name, "sim") {
			continue
		}
		for _, tree := range s.trees {
			ast.Inspect(tree, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				is, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				of, ok := is.X.(*ast.Ident)
				if ok && (of.Name == "context" && is.Sel.Name == "WithValue" || is.Sel.Name == "Value" && len(call.Args) == 1) {
					used[s.name] = true
					assert.Contains(t, contextValues, s.name, s.files.Position(call.Pos()))
				}
				return true
			})
		}
	}
	for name := range contextValues {
		assert.True(t, used[name], "%s puts nothing into a context any more", name)
	}
}
