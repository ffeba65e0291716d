package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOnlyTheRequestPathOfTheLibraryIsUsed holds what keeps go-proxmox's traps away
// for good: beside what is tested against the simulator, nothing of it is called but
// its constructor and its four verbs. Its task waits, retries, agent calls, uploads
// and configuration types each do something that one would not expect.
func TestOnlyTheRequestPathOfTheLibraryIsUsed(t *testing.T) {
	packages, err := parser.ParseDir(token.NewFileSet(), ".", nil, 0) //nolint:staticcheck // no types are needed
	require.NoError(t, err)
	used := map[string]bool{}
	for _, file := range packages["api"].Files {
		ast.Inspect(file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch x := sel.X.(type) {
			case *ast.Ident: // the package
				if x.Name == "lib" {
					used[sel.Sel.Name] = true
				}
			case *ast.SelectorExpr: // the client, in our field of that name
				if x.Sel.Name == "lib" {
					used["Client."+sel.Sel.Name] = true
				}
			}
			return true
		})
	}
	assert.Equal(t, []string{
		"Client", "Client.Delete", "Client.Get", "Client.Post", "Client.Put",
		"NewClient", "WithAPIToken", "WithHTTPClient", "WithUserAgent",
	}, slices.Sorted(maps.Keys(used)))
}
