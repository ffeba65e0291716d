package archtest_test

import (
	"go/ast"
	"testing"

	"github.com/stretchr/testify/assert"
)

// fewMethods are the types that everybody reads.
var fewMethods = map[string]int{"cluster.Cluster": 40}

// TestNoTypeHasTooManyMethods: beyond 50, a type is a folder whose functions nobody finds.
func TestNoTypeHasTooManyMethods(t *testing.T) {
	const most = 50
	for _, s := range sources(t) {
		methods := map[string]int{}
		for _, tree := range s.trees {
			for _, d := range tree.Decls {
				if d, ok := d.(*ast.FuncDecl); ok && d.Recv != nil {
					methods[receiver(d)]++
				}
			}
		}
		for of, n := range methods {
			name := s.name + "." + of[:len(of)-1]
			limit := most
			if fewer, ok := fewMethods[name]; ok {
				limit = fewer
			}
			assert.LessOrEqual(t, n, limit, name)
		}
	}
}
